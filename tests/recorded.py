# SPDX-License-Identifier: Apache-2.0
"""Lays out a host's files again, as ``tools/record-host`` wrote them down: see tests/data/hosts."""

from pathlib import Path

HOSTS = Path(__file__).parent / "data/hosts"


def lay(name, root, *, moved=()):
    """Make the recorded tree `name` beneath `root`, and return `root` as its ``/``.

    `moved` are pairs of texts: what is recorded at the first path lies at the second. A file that
    could not be read is absent: both are an `OSError` to the reader.
    """
    text = (HOSTS / f"{name}.txt").read_text(encoding="ascii")
    for old, new in moved:
        text = text.replace(old, new)
    for line in text.splitlines()[1:]:
        path, mark, rest = (*line.split(" ", 2), "")[:3]
        place = root / path.lstrip("/")
        if mark == "/":
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if mark == "->":
            place.symlink_to(rest)
        elif mark == "=":
            place.write_text(rest.replace("\\n", "\n") + "\n")
    return root
