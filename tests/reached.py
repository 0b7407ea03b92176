# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.reached`: did a test reach every refusal and degradation of the code?

Run by `tox -e cover`: measuring doubles the time of the unit tests, so it is not one of them.
Reads what `coverage combine` left, and looks for the messages that
`tests.unit.test_messages` finds in the operator's pages: a message whose line no test has run is
named, and the exit status is 1.
"""

from __future__ import annotations

import sys

import coverage

from tests.unit import test_messages


def main() -> int:
    """Compare, say what was not reached."""
    measured = coverage.Coverage()
    measured.load()
    data = measured.get_data()
    said = [
        (source, *one) for source in test_messages.SOURCES for one in test_messages.messages(source)
    ]
    missing = [
        f"{where}: {text}".replace("\0", "...")
        for source, where, text in said
        if int(where.partition(":")[2]) not in (data.lines(str(source)) or ())
    ]
    for one in missing:
        print(f"no unit test reaches {one}")
    reached = len(said) - len(missing)
    print(f"refusals and degradations that unit tests reach: {reached} of {len(said)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
