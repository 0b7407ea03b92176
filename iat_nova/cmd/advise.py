# SPDX-License-Identifier: Apache-2.0
"""iat-nova advise."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from collections.abc import Iterator
from typing import Any

from iat_nova.cmd.arguments import natural
from iat_nova.cmd.base import EXIT_NOT_RUNNING, Failure, Page
from iat_nova.model import Mempool, Parameters
from iat_nova.report import advice, escape, rings, words
from iat_nova.report.advice import Advice, Assumed
from iat_nova.report.rings import Finding

MIB = 1 << 20
_OVS_TIMEOUT_S = 2.0
# A mempool handler that returns the buffer freed last, as an argument of DPDK.
_STACK = "ovs-vsctl set Open_vSwitch . other_config:dpdk-extra=--mbuf-pool-ops-name=stack"


@dataclasses.dataclass(frozen=True, slots=True)
class PoolChoice:
    """A change that would help, with its effect.

    `commands`: commands to copy. `how`: further steps and notes. `partial`: some packet buffers do
    not fit even after the change.
    """

    what: str
    commands: tuple[str, ...]
    how: tuple[str, ...]
    needed_bytes: int
    capacity_bytes: int
    partial: bool


class Advise(Page):
    """Show whether packet buffers fit in DDIO's ways, and changes that make them fit.

    The advice uses the agent's facts of this host: the rings of Open vSwitch's ports, the devices
    of guests, and the part of the cache into which devices may write. The counters of the last
    minute show whether lines that devices write miss these ways, and whether bursts need the rings.
    Rings inside a guest are not visible from outside: give their size with --guest-ring and
    --guest-queues.
    """

    _epilog = """
examples:
  iat-nova advise
  iat-nova advise --guest-ring 2048 --guest-queues 4
  iat-nova advise -f json
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        standard = Assumed()
        for name, value, what in (
            ("ring", standard.descriptors, "descriptors of a guest's receive queue"),
            ("queues", standard.queues, "receive queues a guest has on its device"),
            ("mtu", standard.mtu, "bytes; of guests' devices"),
        ):
            parser.add_argument(
                f"--guest-{name}",
                type=natural,
                metavar="N",
                default=value,
                help=f"{what}; default: %(default)s",
            )

    def page(self, parsed_args: argparse.Namespace) -> str:
        """Return the advice as text."""
        parts = []
        for found, counted in self._advice(parsed_args):
            parts.append(_page(found, counted))
        return "\n\n".join(parts)

    def record(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Return the advice as data."""
        domains = []
        for found, counted in self._advice(parsed_args):
            domains.append(
                {
                    **dataclasses.asdict(found),
                    "capacity_bytes": found.capacity_bytes,
                    "footprint_bytes": found.footprint_bytes,
                    "fits": found.fits,
                    "counted": dataclasses.asdict(counted) | {"missed": counted.missed},
                    "choices": [dataclasses.asdict(one) for one in choices(found, counted)],
                }
            )
        return {"domains": domains}

    def _advice(self, parsed_args: argparse.Namespace) -> list[tuple[Advice, Finding]]:
        assumed = Assumed(parsed_args.guest_queues, parsed_args.guest_ring, parsed_args.guest_mtu)
        with self.history(parsed_args) as reader:
            known = reader.latest_inventory()
            latest = {domain: reader.latest(domain) for domain in reader.domains()}
            samples = {domain: rings.read(reader, domain) for domain in latest}
            said = reader.status()
        if known is None:
            raise Failure("the agent has not recorded an inventory yet", EXIT_NOT_RUNNING)
        switch = known.facts.switch
        userspace = switch is not None and "netdev" in switch.bridges.values()
        pools = self._pools(parsed_args) if userspace else ()
        parameters = Parameters() if said is None else said.status.parameters
        found = []
        for domain in known.facts.host.domains:
            recorded = latest.get(domain.id)
            mask = domain.ddio_found
            if recorded is not None:
                mask = recorded.iteration.decision.layout.ddio
            if mask is None:
                self.note(f"cache domain {domain.id}: DDIO's ways are not known")
                continue
            numbers = parameters.of(domain.id)
            if not mask:
                self.note(f"cache domain {domain.id}: DDIO has no ways here")
                continue
            one = advice.advise(
                known.facts,
                domain,
                mask.count,
                numbers.ddio_ways_max,
                assumed,
                pools,
            )
            if one is None:
                self.note(f"cache domain {domain.id}: the size of its ways is not known")
                continue
            dropped = rings.dropped_per_s(known.facts, one)
            low = numbers.threshold_miss_low_per_s
            found.append((one, rings.find(one, samples.get(domain.id, ()), dropped, low)))
        return found

    def _pools(self, parsed_args: argparse.Namespace) -> tuple[Mempool, ...]:
        """Return ovs-vswitchd's mempools; empty without mempools or without an answer."""
        from iat_nova.inventory import mempools, ovs, ovs_rpc  # noqa: PLC0415 - slow to load

        settings = self.settings(parsed_args)
        try:
            control = settings.vswitchd_control or ovs.vswitchd_control(settings.ovs_rundir)
            text = ovs_rpc.call(f"unix:{control}", mempools.METHOD, [], _OVS_TIMEOUT_S)
        except ovs_rpc.OvsUnavailableError as error:
            self.note(f"Open vSwitch's mempools are not known: {error}")
            return ()
        return mempools.read_mempools(str(text))


def choices(found: Advice, counted: Finding) -> Iterator[PoolChoice]:
    """Yield changes that help everything fit, the least intrusive first; nothing if it fits.

    DDIO ways are offered as far as the policy lets them grow. If no other change makes everything
    fit, the smallest rings are offered, even if not sufficient. Smaller rings are not offered if
    bursts or dropped packets need the present rings.
    """
    if found.fits or not found.rings:
        return
    walked = (found.pool_bytes or 0) > found.footprint_bytes
    ways = found.ddio_ways
    if walked:
        yield PoolChoice(
            "a stack mempool",
            (_STACK,),
            ("restart ovs-vswitchd",),
            found.footprint_bytes,
            found.capacity_bytes,
            not found.holds(found.footprint_bytes),
        )
    if found.holds(found.footprint_bytes):
        return
    more_ways = found.ways_that_fit if found.ddio_resizable else None
    if found.ddio_resizable and found.ddio_ways_max > ways:
        target = more_ways or found.ddio_ways_max
        limit = () if more_ways else ("the policy's ddio_ways_max allows no more",)
        yield PoolChoice(
            f"{target} DDIO ways",
            (),
            (
                "strategy iat sets them while misses are many, the default one if guests gain",
                *limit,
            ),
            found.footprint_bytes,
            target * found.way_bytes,
            more_ways is None,
        )
    size = found.ring_that_fits or (None if more_ways else advice.SMALLEST_RING)
    largest = max(one.descriptors for one in found.rings)
    if counted.verdict.may_shrink and size is not None and size < largest:
        smaller = advice.with_ring(found.rings, size)
        how = [rings.burst_words(found.rings, size)]
        ports = [one.device for one in found.rings if not one.assumed]
        commands = (
            shlex.join(
                (
                    *("ovs-vsctl", "set", "Interface", port),
                    *(f"options:n_rxq_desc={size}", f"options:n_txq_desc={size}"),
                )
            )
            for port in ports
        )
        if len(ports) < len(found.rings):
            how.insert(0, "in the guests: ethtool -G (rx, tx), or the application's own options")
        yield PoolChoice(
            f"rings of {size}",
            tuple(commands),
            tuple(how),
            sum(one.footprint_bytes for one in smaller),
            found.capacity_bytes,
            found.ring_that_fits is None,
        )


_UNEVEN = "The buffers spread unevenly over the cache: some sets get more than they hold."


def _page(found: Advice, counted: Finding) -> str:
    lines = [
        f"cache domain {found.domain}: DDIO has {found.ddio_ways} of {found.ways} ways, "
        f"{_mib(found.capacity_bytes)}"
    ]
    if not found.rings:
        return "\n".join([*lines, "no device writes packets here"])
    rows: list[tuple[str, ...]] = [("device", "of", "queues", "ring", "MTU", "in circulation")]
    for one in found.rings:
        mark = " *" if one.assumed else ""
        rows.append(
            (
                escape.plain(one.device),
                escape.plain(one.owner),
                f"{one.queues}{mark}",
                f"{one.descriptors}{mark}",
                f"{one.mtu}{mark}",
                _mib(one.footprint_bytes),
            )
        )
    rows.append(("together", "", "", "", "", _mib(found.footprint_bytes)))
    lines += ["", *words.columns(rows, "llrrrr")]
    if any(one.assumed for one in found.rings):
        lines.append(
            "* the host cannot see these: values of --guest-queues, --guest-ring, --guest-mtu"
        )
    for pool in found.pools:
        order = "in turn, so all circulate" if pool.in_turn else "the one freed last first"
        lines.append(f"mempool {escape.plain(pool.name)}: {pool.buffers} buffers, used {order}")
    needed = max(found.footprint_bytes, found.pool_bytes or 0)
    share = f"{needed / found.capacity_bytes:.0%} of what DDIO's ways hold"
    lines.append("")
    if found.fits:
        lines.append(f"It fits: {_mib(needed)}, {share}.")
    else:
        uneven = needed <= found.capacity_bytes
        lines += [
            f"It {'hardly fits' if uneven else 'does not fit'}: {_mib(needed)}, {share}.",
            *([_UNEVEN] * uneven),
            "Packets may be evicted to memory before they are read.",
        ]
    if told := rings.told(counted):
        lines += escape.wrap(told, 80, 4)
    helpful = list(choices(found, counted))
    if helpful:
        lines += ["", "what would help:"]
    for choice in helpful:
        room = f"{_mib(choice.needed_bytes)} of {_mib(choice.capacity_bytes)}"
        partial = ", a partial gain (it still does not fit)" if choice.partial else ""
        lines.append(f"  {choice.what}{partial}: {room}")
        lines += [f"    {escape.plain(command)}" for command in choice.commands]
        lines += [f"    {part}" for how in choice.how for part in escape.wrap(how, 76, 4)]
    return "\n".join(lines)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:.1f} MiB"
