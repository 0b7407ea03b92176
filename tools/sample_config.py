# SPDX-License-Identifier: Apache-2.0
"""Write the sample of the configuration: the generator's of oslo.config, the agent's section first.

``python -m tools.sample_config >etc/iat-nova/iat-nova.conf.sample``
"""

import pathlib
import re
import sys
import tempfile

from oslo_config import generator

from iat_nova.conf import GROUP

NOTHING = " - <No description provided>"  # of choices of oslo.log


def sample() -> str:
    """Return the sample."""
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / "sample"
        generator.main(
            ["--namespace", "iat_nova", "--namespace", "oslo.log", "--output-file", str(made)]
        )
        text = made.read_text(encoding="utf-8").replace(NOTHING, "")
    sections = [one.strip("\n") for one in re.split(r"(?m)^(?=\[)", text) if one.strip()]
    sections.sort(key=lambda section: not section.startswith(f"[{GROUP}]"))
    return "\n\n\n".join(sections) + "\n"


if __name__ == "__main__":
    sys.stdout.write(sample())
