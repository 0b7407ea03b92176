# SPDX-License-Identifier: Apache-2.0
"""capabilities(7) that bear on what the agent opens: their numbers, and which we have."""

from __future__ import annotations

from pathlib import Path

NUMBERS = {
    "CAP_DAC_OVERRIDE": 1,
    "CAP_SYS_RAWIO": 17,
    "CAP_SYS_ADMIN": 21,
    "CAP_PERFMON": 38,
}
"""By name, as include/uapi/linux/capability.h has them."""


def held(which: str, status: Path = Path("/proc/self/status")) -> frozenset[str]:
    """Return those of `NUMBERS` that are in a set of this thread, such as ``CapEff``.

    None are held where it cannot be read. Raises `ValueError` for a file that is not a status.
    """
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return frozenset()
    bits = next((int(line.split()[1], 16) for line in lines if line.startswith(f"{which}:")), 0)
    return frozenset(name for name, number in NUMBERS.items() if bits >> number & 1)
