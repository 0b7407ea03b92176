# SPDX-License-Identifier: Apache-2.0
"""The capabilities(7) that the agent's interfaces need: numbers, capabilities held, and changes."""

from __future__ import annotations

import ctypes
import os
import pwd
from pathlib import Path

from iat_nova.hardware.kernel import files

_PR_SET_KEEPCAPS = 8
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522  # include/uapi/linux/capability.h: two words each

NUMBERS = {
    "CAP_DAC_OVERRIDE": 1,
    "CAP_SYS_RAWIO": 17,
    "CAP_SYS_ADMIN": 21,
    "CAP_PERFMON": 38,
}
"""Numbers by name, from include/uapi/linux/capability.h."""


def held(which: str, status: Path = Path("/proc/self/status")) -> frozenset[str]:
    """Return the capabilities of `NUMBERS` in a set of the main thread, such as ``CapEff``.

    Empty without the file. Raises `HardwareError` if it cannot be read, and `ValueError` for a
    file that is not a status.
    """
    lines = files.text_of(status).splitlines()
    bits = next((int(line.split()[1], 16) for line in lines if line.startswith(f"{which}:")), 0)
    return frozenset(name for name, number in NUMBERS.items() if bits >> number & 1)


def become(user: pwd.struct_passwd, capabilities: frozenset[str]) -> None:
    """Assume a user and exactly these capabilities, permanently. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.initgroups(user.pw_name, user.pw_gid)
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    bits = sum(1 << NUMBERS[name] for name in capabilities)
    _set_capabilities(libc, bits)


def give_up() -> None:
    """Give up every capability of this process, permanently. Raises `OSError`.

    For a process with one thread: capabilities belong to a thread. Ambient capabilities vanish with
    the permitted capabilities (capabilities(7)); executed programs get none (PR_SET_NO_NEW_PRIVS).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _set_capabilities(libc, 0)


def _set_capabilities(libc: ctypes.CDLL, bits: int) -> None:
    low, high = bits & 0xFFFFFFFF, bits >> 32
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)(low, low, low, high, high, high)  # effective, permitted, inherited
    _check(libc.capset(header, data))


def _check(result: int) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
