# SPDX-License-Identifier: Apache-2.0
"""iat-nova advise."""

from __future__ import annotations

import argparse
import dataclasses
import re
from typing import Any

from iat_nova.cmd.arguments import natural
from iat_nova.cmd.base import EXIT_NOT_RUNNING, Failure, Page
from iat_nova.common import amounts
from iat_nova.report import advice, escape, words
from iat_nova.report.advice import Advice, Verdict

METHOD, _TIMEOUT_S = "netdev-dpdk/get-mempool-info", 2.0
# Size of a ring mempool in the output of DPDK's rte_mempool_dump, without lines of the next pool.
_NEXT = r".*(?:\n(?!mempool <).*)*?\n\s*"
_RING = re.compile(rf"(?m)^mempool <{_NEXT}size=([0-9]{{1,18}})\b{_NEXT}ops_name: <ring")
_REMARKS = {
    Verdict.FEW_MISSES: "No leak at this load: leave the rings as they are.",
    Verdict.LEAK_IN_BURSTS: "Do not shrink the rings: bursts would overflow smaller rings.",
    Verdict.LEAK_WITH_DROPS: "Do not shrink the rings: Open vSwitch's ports drop packets already.",
}


class Advise(Page):
    """Show whether packet buffers fit in DDIO's ways, and changes that make them fit.

    The advice uses the rings of Open vSwitch's ports, the devices of guests, and the part of the
    cache into which devices may write. The counters of the last minute show whether lines that
    devices write, disks included, miss these ways, and whether bursts need the rings. Rings inside
    a guest are not visible from outside: give their size with --guest-ring and --guest-queues.
    """

    _epilog = """
examples:
  iat-nova advise
  iat-nova advise --guest-ring 2048 --guest-queues 4
  iat-nova advise -f json
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        for name, value, what in (
            ("ring", advice.GUESTS.descriptors, "descriptors of a guest's receive queue"),
            ("queues", advice.GUESTS.queues, "receive queues a guest has on its device"),
            ("mtu", advice.GUESTS.mtu, "bytes; of guests' devices"),
        ):
            text = f"{what}; default: %(default)s"
            option = parser.add_argument(f"--guest-{name}", type=natural, default=value, help=text)
            option.metavar = "N"

    def page(self, parsed_args: argparse.Namespace) -> str:
        """Return the advice as text."""
        return "\n\n".join("\n".join(_lines(domain)) for domain in self._advice(parsed_args))

    def record(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Return the advice as data."""
        return {"domains": [dataclasses.asdict(domain) for domain in self._advice(parsed_args)]}

    def _advice(self, parsed_args: argparse.Namespace) -> list[Advice]:
        from iat_nova.report.view import gather  # noqa: PLC0415 - slow to load

        with self.history(parsed_args) as reader:
            inventory = reader.latest_inventory()
        if inventory is None:
            raise Failure("the agent has not recorded an inventory yet", EXIT_NOT_RUNNING)
        switch, pools = inventory.facts.switch, 0
        if switch is not None and "netdev" in switch.bridges.values():
            pools = self._pool_buffers(parsed_args)  # not as the history's owner
        sizes = (parsed_args.guest_queues, parsed_args.guest_ring, parsed_args.guest_mtu)
        with self.history(parsed_args) as reader:
            view = gather(reader, leaks=True, guests=advice.Rings("", "", *sizes), pools=pools)
        for domain in view.domains:
            if domain.rings is None:
                number = domain.inventory.domain.id
                self.note(f"cache domain {number}: DDIO has no ways here, or their size is unknown")
        return [domain.rings for domain in view.domains if domain.rings is not None]

    def _pool_buffers(self, parsed_args: argparse.Namespace) -> int:
        """Return the buffers of ovs-vswitchd's mempools that are used in turn; 0 if unknown."""
        from iat_nova.inventory import ovs, ovs_rpc  # noqa: PLC0415 - slow to load

        settings = self.settings(parsed_args)
        try:
            control = settings.vswitchd_control or ovs.vswitchd_control(settings.ovs_rundir)
            return buffers_in_turn(str(ovs_rpc.call(f"unix:{control}", METHOD, [], _TIMEOUT_S)))
        except ovs_rpc.OvsUnavailableError as error:
            self.note(f"Open vSwitch's mempools are not known: {error}")
            return 0


def buffers_in_turn(dump: str) -> int:
    """Return the buffers of ring mempools in a dump: all circulate, unlike those of a stack."""
    return sum(map(int, _RING.findall(dump)))


def _lines(domain: Advice) -> list[str]:
    lines = [
        f"cache domain {domain.domain}: DDIO has {domain.ddio_ways} of {domain.ways} ways, "
        f"{amounts.size(domain.capacity_bytes)}"
    ]
    if not domain.rings:
        return [*lines, "no device writes packets here"]
    rows: list[tuple[str, ...]] = [("device", "of", "queues", "ring", "MTU", "in circulation")]
    for ring in domain.rings:
        mark = " *" if ring.assumed else ""
        numbers = (f"{value}{mark}" for value in (ring.queues, ring.descriptors, ring.mtu))
        names = escape.plain(ring.device), escape.plain(ring.owner)
        rows.append((*names, *numbers, amounts.size(ring.footprint_bytes())))
    rows.append(("together", "", "", "", "", amounts.size(domain.footprint_bytes)))
    lines += ["", *words.columns(rows, "llrrrr")]
    if any(ring.assumed for ring in domain.rings):
        text = "* the host cannot see these: values of --guest-queues, --guest-ring, --guest-mtu"
        lines.append(text)
    if domain.pool_bytes:
        lines += [f"mempools used in turn, so all circulate: {amounts.size(domain.pool_bytes)}"]
    needed = max(domain.footprint_bytes, domain.pool_bytes)
    share = f"{amounts.size(needed)}, {needed / domain.capacity_bytes:.0%} of what DDIO's ways hold"
    lines += ["", f"It {'fits' if domain.fits else 'does not fit'}: {share}."]
    if not domain.fits:
        text = "Buffers spread unevenly over the cache's sets, so packets may be evicted to memory "
        text += f"before they are read. {domain.counted}. {_REMARKS.get(domain.verdict, '')}"
        lines += escape.wrap(text, 80, 8)
    lines += ["", "what would help:"] if domain.choices else []
    for choice in domain.choices:
        partial = ", a partial gain (it still does not fit)" if choice.partial else ""
        below = [*map(escape.plain, choice.commands), *escape.wrap(choice.note, 76, 4)]
        lines += [f"  {choice.what}{partial}", *(f"    {line}" for line in below)]
    return lines
