# SPDX-License-Identifier: Apache-2.0
"""Ports of devices as rows: tenants behind, ways, LLC occupancy and memory traffic (I/O RDT)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from iat_nova.common import amounts as figures
from iat_nova.report import escape, words
from iat_nova.report.view import DomainView

COLUMNS = (
    "port",
    "domain",
    "tenants",
    "devices",
    "ways",
    "mask",
    "mask_requested",
    "occupancy_bytes",
    "memory_bytes_per_s",
)
"""The columns of `rows`, for programs."""

_HEADINGS = ("port", "tenants", "ways", "mask", "in the LLC", "memory traffic")
_APART = 2  # columns between two cells
_NAMES = 1  # the place of the tenants' names, which are cut
_LEAST_NAMES = 8  # columns


def rows(domains: Sequence[DomainView]) -> Iterator[dict[str, object]]:
    """Yield each port as plain values under `COLUMNS`; ways None: the port has DDIO's."""
    for domain in domains:
        for port in domain.ports():
            rate = port["memory_bytes_per_s"]
            whole = round(rate) if isinstance(rate, float) and math.isfinite(rate) else None
            yield {**port, "domain": domain.inventory.domain.id, "memory_bytes_per_s": whole}


def table(
    domains: Sequence[DomainView], width: int, apart: int = _APART
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return headings and cells for people; names of tenants are cut to fit `width` columns.

    `apart`: columns that each cell takes beside its text. No rows without ports. Without ways of
    its own a port has those of DDIO, marked as such.
    """
    headings = (*_HEADINGS, "domain") if len(domains) > 1 else _HEADINGS
    found = [cells(domain, port)[: len(headings)] for domain in domains for port in domain.ports()]
    wide = escape.widths((headings, *found))
    room = max(_LEAST_NAMES, width - apart * len(wide) - sum(wide) + wide[_NAMES])
    return headings, [(port, escape.cut(names, room), *others) for port, names, *others in found]


def lines(domains: Sequence[DomainView], width: int) -> list[str]:
    """Return the table as lines of at most `width` columns; empty without ports."""
    headings, found = table(domains, width)
    if not found:
        return []
    wide = escape.widths((headings, *found))
    return [(" " * _APART).join(map(escape.fit, row, wide)).rstrip() for row in (headings, *found)]


def cells(domain: DomainView, port: Mapping[str, object]) -> tuple[str, ...]:
    """Return texts of a port (`DomainView.ports`), harmless for a terminal, and its domain's id."""
    ident, names = str(port["port"]), domain.inventory.names
    behind = ", ".join(escape.plain(names[one.id]) for one in domain.inventory.behind(ident))
    own = domain.mask_of(ident)
    mask = own or domain.ddio
    return (
        escape.plain(ident),
        behind or "-",
        "" if mask is None else f"{mask.count}{'' if own else ' DDIO'}",
        str(mask) if mask else "",
        _size(port["occupancy_bytes"], ""),
        _size(port["memory_bytes_per_s"], "/s"),
        str(domain.inventory.domain.id),
    )


def sentence(domain: DomainView, port: Mapping[str, object]) -> str:
    """Return a port's ways, occupancy and traffic: ``port 0000:3b:00.0 has 1 way 0x800, ...``."""
    ident, own, ddio = str(port["port"]), domain.mask_of(str(port["port"])), domain.ddio
    text = f"port {escape.plain(ident)} has "
    text += (
        words.ddio_place(own) if own else f"DDIO's {words.ddio_place(ddio)}" if ddio else "any way"
    )
    if held := _size(port["occupancy_bytes"], ""):
        text += f", {held} in the LLC"
    if moved := _size(port["memory_bytes_per_s"], "/s"):
        text += f", {moved} to and from memory"
    return text


def _size(value: object, unit: str) -> str:
    return f"{figures.size(value)}{unit}" if isinstance(value, int | float) else ""
