# SPDX-License-Identifier: Apache-2.0
"""iat-nova tenants."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from iat_nova.cmd import blocks, guests
from iat_nova.cmd.base import MACHINE_FORMATS, Lister, Table, folded
from iat_nova.common.cpulist import format_cpus
from iat_nova.model import UNLIMITED, DomainInventory, Tenant, TenantKind
from iat_nova.report import escape, port_table, view, words
from iat_nova.report.view import DomainView


class Tenants(Lister):
    """List the tenants of the last-level cache, their attachments and ways.

    A guest on two cache domains is listed once for each. An empty cell means unknown. Guests of the
    same name have the beginning of their UUID behind it. Warnings are below the table. With I/O RDT
    the ports of devices follow: the tenants behind, the ways (DDIO: the port has those of all
    devices), and occupancy and memory traffic where these are counted.
    """

    _below: tuple[str, ...] = ()  # lines below the table
    _empty = "no tenant is recorded yet"

    _as_owner = True
    _epilog = """
columns:
  model             owner of the packet buffers: the switch, or the guest
  mask              ways in force; while the agent only observes, as decided
  mask_requested    ways as decided
  overlaps_ddio     whether devices may fill some of these ways, too
  held, bandwidth   ways of iat-nova hold; memory bandwidth in percent
  bandwidth_min     least bandwidth that the policy allows, in percent
  requested         minimum, start and maximum of ways
  weight            weight of the guest's class in the policy
  lent              idle ways that the host's CPUs may fill for now (iat)
  shadow_*          ways that the second strategy or policy would give
  ipc               instructions per cycle
  *_per_s           LLC references, LLC misses, memory traffic
  stalled           share of its cycles that wait for LLC misses, estimated
  loss_*            share of its cycles that other tenants cost it, estimated
  loss_least        lower bound: loss against its own best under this load
  loss_likely       likely value; empty where it cannot be estimated
  loss_most         upper bound
  llc_share         share of the LLC with the tenant's lines

examples:
  iat-nova tenants                                 the list
  iat-nova tenants --long                          with UUID, devices, class, owner and rates
  iat-nova tenants --ports                         ports of devices instead (I/O RDT)
  iat-nova tenants -f json                         for programs
  iat-nova tenants -c name -c ways -c ipc -f csv   any columns, also of --long
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--long", action="store_true", help="more columns")
        which.add_argument(
            "--ports", action="store_true", help="ports of devices (I/O RDT) instead of tenants"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return the columns and one row per tenant, or per port."""
        seen = self.view(parsed_args)
        if parsed_args.ports:
            return self._ports(parsed_args, seen.domains)
        every = parsed_args.long or parsed_args.columns
        columns = view.TENANT_COLUMNS + (view.LONG_COLUMNS if every else ())
        table = parsed_args.formatter == "table"
        if table and not every:
            width = shutil.get_terminal_size().columns
            unwritten = any(one.latest and not one.written for one in seen.domains)
            note = (_UNWRITTEN,) if unwritten else ()
            self._below = (view.LEGEND, *note, *_warnings(seen.domains))
            if ports := port_table.lines(seen.domains, width):
                self._below += ("", *ports)
            return _brief(seen.domains, width)
        if table:
            asked = (*parsed_args.columns, *parsed_args.sort_columns)
            left_out = _said_nothing(seen.domains).difference(asked)
            columns = tuple(column for column in columns if column not in left_out)
        apart = table and "uuid" not in columns
        rows = [
            self._row(parsed_args, columns, values)
            for domain in seen.domains
            for values in _tenants(domain, apart=apart)
        ]
        return columns, rows

    def _ports(self, parsed_args: argparse.Namespace, domains: Sequence[DomainView]) -> Table:
        self._empty = f"{super()._empty}: {guests.NO_PORTS}"
        if parsed_args.formatter == "table" and not parsed_args.columns:
            width = shutil.get_terminal_size().columns - 1
            headings, cells = port_table.table(domains, width, blocks.EDGES)
            return headings, [*cells]
        columns = port_table.COLUMNS
        return columns, [
            self.row(parsed_args, values, columns) for values in port_table.rows(domains)
        ]

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Any, data: Any
    ) -> int | None:
        """Write the list, and below the table warnings without room in the table."""
        status: int | None = super().produce_output(parsed_args, column_names, data)
        for line in self._below:
            self.app.stdout.write(f"{folded(line, self.app.stdout)}\n")
        return status

    def _row(
        self, parsed_args: argparse.Namespace, columns: tuple[str, ...], values: dict[str, Any]
    ) -> tuple[object, ...]:
        if parsed_args.formatter not in MACHINE_FORMATS:
            values["cpus"] = format_cpus(values["cpus"])
        if parsed_args.formatter == "table":
            values["model"] = words.ATTACHED[values["model"]]
        return self.row(parsed_args, values, columns)


_LEAST_NAME = 12  # columns of a name
_UNWRITTEN = "These ways are decided and not written: the agent only observes."


def _brief(domains: Sequence[DomainView], width: int) -> Table:
    """Return headings and rows of the short table, which fits `width` columns."""
    left_out = _said_nothing(domains)
    headings = ["name", "priority", "cpus", "ways", "mask"]
    headings += [one for one in ("held", "bandwidth") if one not in left_out]
    headings += ["domain"] if len(domains) > 1 else []
    rows = [
        (domain.inventory, tenant, _cells(domain, tenant, headings[1:]))
        for domain in domains
        for tenant in domain.inventory.tenants
    ]
    wide = escape.widths([headings[1:], *(list(map(str, cells)) for *_, cells in rows)])
    room = max(_LEAST_NAME, width - sum(wide) - blocks.EDGES * len(headings) - 1)
    found: list[tuple[object, ...]] = [
        (_name(inventory, tenant, room), *cells) for inventory, tenant, cells in rows
    ]
    return tuple(headings), found


def _cells(domain: DomainView, tenant: Tenant, headings: Sequence[str]) -> list[object]:
    """Return a tenant's cells of the short table; ``~ddio`` marks a mask shared with DDIO.

    Numbers stay numbers: they are sorted as such.
    """
    values = view.tenant_row(domain, tenant)
    shared = " ~ddio" if values["overlaps_ddio"] else ""
    shown = {
        **values,
        "priority": f"{tenant.priority}{' I/O' if tenant.io else ''}",
        "cpus": escape.cut(format_cpus(tenant.cpus), _CPUS),
        "mask": f"{values['mask']}{shared}" if values["mask"] else None,
    }
    return ["" if (value := shown[one]) is None else value for one in headings]


_CPUS = 14  # columns


def _name(inventory: DomainInventory, tenant: Tenant, room: int) -> str:
    """Return a tenant's name, with the pool's guests behind it."""
    name = words.Names(inventory).cut(tenant.id, room)
    if tenant.kind is not TenantKind.POOL or not tenant.members:
        return name
    return escape.cut(f"{name} ({', '.join(map(escape.plain, tenant.members))})", room)


def _said_nothing(domains: Sequence[DomainView]) -> set[str]:
    """Return columns with the same value for all tenants: nothing held, limited or monitored."""
    tenants = [one for domain in domains for one in domain.inventory.tenants]
    layouts = [domain.layout for domain in domains if domain.layout is not None]
    limits = {group.bandwidth for layout in layouts for group in layout.groups}
    empty = {
        "held": not any(one.ways.held for one in tenants),
        "bandwidth": limits <= {UNLIMITED},
        "bandwidth_min": {one.bandwidth_min for one in tenants} <= {UNLIMITED},
        "weight": {one.weight for one in tenants} <= {1.0},
        **dict.fromkeys(view.MONITORED, not any(one.monitored for one in domains)),
    }
    return {column for column, nothing in empty.items() if nothing}


def _warnings(domains: Sequence[DomainView]) -> Iterator[str]:
    """Yield the warnings of each tenant in one line, once for all cache domains."""
    found: dict[str, None] = {}
    for domain in domains:
        for values in _tenants(domain, apart=True):
            told = values["warnings"]
            assert isinstance(told, list)
            found |= {f"{values['name']}: {'; '.join(told)}": None} if told else {}
    yield from map(escape.plain, found)


def _tenants(domain: DomainView, *, apart: bool) -> Iterator[dict[str, object]]:
    """Yield a domain's tenants; `apart`: names that are equal get a distinguishing suffix."""
    names = domain.inventory.names if apart else {}
    for tenant in domain.inventory.tenants:
        values = view.tenant_row(domain, tenant)
        yield {**values, "name": names.get(tenant.id, tenant.name)}
