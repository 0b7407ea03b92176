# SPDX-License-Identifier: Apache-2.0
"""Parsers of resctrl's texts; each raises `ValueError` for a text of another form.

Source: Linux, Documentation/filesystems/resctrl.rst.
"""

from __future__ import annotations

from collections.abc import Iterator

from iat_nova.common.untrusted import shortened
from iat_nova.model import WayMask

Assignment = tuple[str, int]
"""The assignment of a bandwidth counter: an event of the group, in a cache domain."""


def hexadecimal(text: str) -> int:
    """Return the number in a text such as ``7ff``."""
    return int(text, 16)


def parse_masks(text: str) -> dict[int, WayMask]:
    """Return the masks in ``0=7ff;1=7ff`` by domain."""
    return {domain: WayMask(hexadecimal(mask)) for domain, mask in _by_domain(text)}


def parse_limits(text: str) -> dict[int, int]:
    """Return the numbers in ``0=50;1=100`` by domain."""
    return {domain: int(limit) for domain, limit in _by_domain(text)}


def parse_numbers(text: str) -> frozenset[int]:
    """Return the domains in ``0=50;1=100``."""
    return frozenset(domain for domain, _ in _by_domain(text))


def parse_usage(text: str) -> dict[int, WayMask]:
    """Return the exclusive and pseudo-locked ways in ``0=SSEE;1=SSSS``, by domain.

    ``bit_usage`` has one letter per way, highest way first: E exclusive, P pseudo-locked.
    """
    return {
        domain: WayMask(
            sum(1 << way for way, use in enumerate(reversed(letters)) if use in ("E", "P"))
        )
        for domain, letters in _by_domain(text)
    }


def parse_assignments(text: str) -> frozenset[Assignment] | None:
    """Return the assigned counters in lines such as ``mbm_total_bytes:0=e;1=_``.

    None for a text without counters.
    """
    lines = (line.strip().partition(":") for line in text.splitlines())
    states = [(event, *one) for event, _, domains in lines for one in _by_domain(domains)]
    found = frozenset((event, domain) for event, domain, state in states if state == "e")
    return found if states else None


def _by_domain(text: str) -> Iterator[tuple[int, str]]:
    """Yield domain and value of each pair in ``0=VALUE;1=VALUE``."""
    for pair in filter(None, text.strip().split(";")):
        domain, equals, value = pair.partition("=")
        if not equals or "=" in value:
            raise ValueError(f"'{shortened(pair)}': expected DOMAIN=VALUE")
        yield int(domain), value
