# SPDX-License-Identifier: Apache-2.0
"""Checks of single values in a scenario file: each returns the value or says what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from iat_nova.policy import units
from iat_nova.policy.problems import nearest

# A thread's own memory lies in a stretch of this size (see build).
WORKING_SET_MAX = 256 << 20
_BITS = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kKMG]?)(?:b/s|bps|bit/s)\s*")
_BYTES = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kKMG]?)B/s\s*")
_FACTORS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
Check = Callable[[object], Any]
"""Returns a value in base units, or raises `NotAllowed`."""


class NotAllowed(ValueError):
    """A value that is not allowed; says what is."""


def anything(value: object) -> object:
    """Let any value pass, to be looked into later."""
    return value


def text(value: object) -> str:
    """Check a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise NotAllowed("allowed: text")
    return value


def whole(least: int, most: int) -> Check:
    """Return a check of whole numbers between two bounds."""

    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise NotAllowed(f"allowed: a whole number from {least} to {most}")
        return value

    return check


def power(least: int, most: int) -> Check:
    """Return a check of powers of two between two bounds."""
    integer = whole(least, most)

    def check(value: object) -> int:
        number: int = integer(value)
        if number & (number - 1):
            raise NotAllowed(f"allowed: a power of two from {least} to {most}")
        return number

    return check


def quantity(kind: units.Kind, least: float, most: float) -> Check:
    """Return a check of quantities with a unit, in base units."""

    def check(value: object) -> float:
        try:
            number = units.parse(kind, value)
        except units.UnitError as error:
            raise NotAllowed(str(error)) from None
        if not least <= number <= most:
            raise NotAllowed(f"allowed: {least:g} to {most:g} ({units.allowed(kind)})")
        return number

    return check


def size(least: int, most: int) -> Check:
    """Return a check of sizes, in bytes."""
    bounded = quantity(units.Kind.SIZE, least, most)
    return lambda value: int(bounded(value))


def power_of_bytes(least: int, most: int) -> Check:
    """Return a check of sizes that are powers of two, in bytes."""
    bounded = size(least, most)

    def check(value: object) -> int:
        number: int = bounded(value)
        if number & (number - 1):
            raise NotAllowed(f"allowed: a power of two from {least} to {most} bytes")
        return number

    return check


def bits_per_s(value: object) -> float:
    """Check a rate on the wire, in bits a second."""
    match = _BITS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise NotAllowed("allowed: a rate such as 8Gb/s or 500Mb/s")
    return float(match[1]) * _FACTORS[match[2]]


def bytes_per_s(value: object) -> float:
    """Check a disk's bandwidth, in bytes a second."""
    match = _BYTES.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise NotAllowed("allowed: a bandwidth such as 3.2GB/s or 500MB/s")
    return float(match[1]) * _FACTORS[match[2]]


def flag(value: object) -> bool:
    """Check a truth value."""
    if not isinstance(value, bool):
        raise NotAllowed("allowed: true or false")
    return value


def one_of(*words: str) -> Check:
    """Return a check of words out of a few."""

    def check(value: object) -> str:
        if value not in words:
            hint = nearest(str(value), words)
            allowed = ", ".join(words) or "nothing, as the scenario has none"
            raise NotAllowed(f"allowed: {allowed}" + (f"; {hint}" if hint else ""))
        return str(value)

    return check


def working_set(value: object) -> int:
    """Check the size of a thread's own memory, in bytes."""
    found: int = size(4096, WORKING_SET_MAX)(value)
    return found


def cpus(cores: int) -> Check:
    """Return a check of lists of processors."""
    wanted = f"allowed: a list of processors, 0 to {cores - 1}, each once"

    def check(value: object) -> tuple[int, ...]:
        if not isinstance(value, list) or not value or len(set(map(str, value))) != len(value):
            raise NotAllowed(wanted)
        for cpu in value:
            if isinstance(cpu, bool) or not isinstance(cpu, int) or not 0 <= cpu < cores:
                raise NotAllowed(wanted)
        return tuple(value)

    return check


DURATION = quantity(units.Kind.DURATION, 0.001, 86400.0)
MOMENT = quantity(units.Kind.DURATION, 0.0, 86400.0)
JITTER = quantity(units.Kind.DURATION, 0.0, 0.01)
SHARE = quantity(units.Kind.FRACTION, 0.001, 1.0)
NOISE = quantity(units.Kind.FRACTION, 0.0, 0.5)
RING = power(32, 8192)
PACKET = size(64, 2048)
FLOWS = whole(1, 100_000_000)
BURST = whole(1, 4096)
CLIENTS = whole(1, 1024)
ROUND_TRIP = quantity(units.Kind.DURATION, 1e-6, 2e-3)
BLOCK = power_of_bytes(4096, 4 << 20)
DEPTH = whole(1, 1024)
IOPS = whole(1, 1_000_000_000)
MEDIUM = quantity(units.Kind.DURATION, 0.0, 1.0)
BY_KEY: Mapping[str, Check] = {
    "working_set": working_set,
    "duty": SHARE,
    "rate": bits_per_s,
    "packet": PACKET,
    "flows": FLOWS,
    "burst": BURST,
    "ways": whole(1, 32),
}
