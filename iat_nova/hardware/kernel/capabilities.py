# SPDX-License-Identifier: Apache-2.0
"""The capabilities(7) that the agent's interfaces need: numbers, and the capabilities held."""

from __future__ import annotations

from pathlib import Path

NUMBERS = {
    "CAP_DAC_OVERRIDE": 1,
    "CAP_SYS_RAWIO": 17,
    "CAP_SYS_ADMIN": 21,
    "CAP_PERFMON": 38,
}
"""Numbers by name, from include/uapi/linux/capability.h."""


def held(which: str, status: Path = Path("/proc/self/status")) -> frozenset[str]:
    """Return the capabilities of `NUMBERS` in a set of this thread, such as ``CapEff``.

    Empty if the file cannot be read. Raises `ValueError` for a file that is not a status.
    """
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return frozenset()
    bits = next((int(line.split()[1], 16) for line in lines if line.startswith(f"{which}:")), 0)
    return frozenset(name for name, number in NUMBERS.items() if bits >> number & 1)
