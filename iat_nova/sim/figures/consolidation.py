# SPDX-License-Identifier: Apache-2.0
"""Figures 12 to 14 of IAT: applications consolidated with network functions, at random places.

Beside each application run either two Redis servers behind Open vSwitch or four FastClick
containers on VFs, in both cases sharing three ways, and two best-effort X-Mem. Each tenant keeps
its number of ways; where they lie at the start is drawn at random, and what becomes of that is
the strategy's affair.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from iat_nova.model import WayMask
from iat_nova.sim.figures.api import Point, Row
from iat_nova.sim.figures.summary import number
from iat_nova.sim.reader import read_scenario
from iat_nova.sim.run import Window, run
from iat_nova.sim.scenario import Scenario
from iat_nova.sim.workloads.stores import REDIS_MIXES, ROCKSDB_MIXES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPEC = ("bzip2", "gcc", "mcf", "milc", "zeusmp", "cactusADM", "leslie3d", "GemsFDTD", "lbm",
        "omnetpp", "astar", "sphinx3", "xalancbmk")  # fmt: skip
ROCKSDB = tuple(f"rocksdb-{letter}" for letter in ROCKSDB_MIXES if letter != "e")  # no scans
REDIS = tuple(f"redis-{letter}" for letter in REDIS_MIXES)
NETWORKS = ("redis", "fastclick")
STRATEGIES = ("solo", "baseline", "iat")

# Ways of each tenant, and the order in which seeds put them on DDIO's ways.
WAYS = {"app": 2, "net": 3, "be10": 2, "be1": 2}
LENGTH_S, SETTLED_S = 12.0, 8.0
COMPRESSION = 0.04
SETUP = (
    "As published, on an emulated socket: two ways for the application, three for the network "
    "functions, two for each best-effort X-Mem (1 MB, 10 MB). Who lies on DDIO's ways at the start "
    "goes round with the seed, so that few runs show every case; all else is drawn. Solo is the "
    f"application alone on its two ways. {LENGTH_S:g} s of which {COMPRESSION:.0%} are simulated, "
    f"measured after {SETTLED_S:g} s."
)


def start_masks(seed: int, ways: int = 11, ddio: int = 2) -> dict[str, WayMask]:
    """Return where each tenant of `WAYS` lies at the start of a run.

    The four and two idle ways follow one another at random; DDIO's ways go whole or not at all
    to a tenant, which is app, net, be10, be1 in turn for seeds 1, 2, 3, 4 and so on.
    """
    names = list(WAYS)
    top = names[(seed - 1) % len(names)]
    below: list[str | None] = [name for name in names if name != top]
    below += [None] * (ways - sum(WAYS.values()))
    random.Random(seed).shuffle(below)
    masks, at = {}, 0
    for name in [*below, top]:
        size = 1 if name is None else WAYS[name]
        if name is not None:
            masks[name] = WayMask.span(at, size)
        at += size
    assert masks[top].overlaps(WayMask.span(ways - ddio, ddio))
    return masks


_GUEST = """\
  - name: instance-{number:08d}
    display_name: {name}
    uuid: {number:08d}-1213-4000-8000-000000000000
    extra_specs: {{"iat:priority": {priority}, "iat:io": "{io}",
                  "iat:llc_ways": "{ways}", "iat:llc_ways_max": "{ways}"}}
    cpus: {cpus}
"""
_NETWORK = {
    "redis": """\
  ovs: {{profile: ovs, cpus: [0, 1], nic: nic0}}
  redis0: {{profile: {redis}, cpus: [2], switch: ovs}}
  redis1: {{profile: {redis}, cpus: [4], switch: ovs}}
""",
    "fastclick": """\
  nf0: {{profile: fastclick, cpus: [0], nic: nic0}}
  nf1: {{profile: fastclick, cpus: [1], nic: nic0}}
  nf2: {{profile: fastclick, cpus: [2], nic: nic1}}
  nf3: {{profile: fastclick, cpus: [3], nic: nic1}}
""",
}
_TRAFFIC = {
    "redis": """\
  redis0: {to: redis0, clients: 8, round_trip: 50us, flows: 8}
  redis1: {to: redis1, clients: 8, round_trip: 50us, flows: 8}
""",
    "fastclick": "".join(
        f"  nf{number}: {{to: nf{number}, rate: 20Gb/s, packet: 1500B, flows: 10000}}\n"
        for number in range(4)
    ),
}
_BEST_EFFORT = """\
  be1: {profile: xmem, cpus: [12], working_set: 1MiB}
  be10: {profile: xmem, cpus: [15], working_set: 10MiB}
"""
_CPUS = {"net": range(6), "app": range(6, 12), "be1": range(12, 15), "be10": range(15, 18)}


def scenario(
    network: str | None,
    app: str | None,
    masks: Mapping[str, WayMask],
    *,
    redis: str = "redis-a",
    best_effort: bool = True,
    step: str = "5us",
) -> Scenario:
    """Return a run of these figures; without a network or an application that is left out."""
    guests = "".join(
        _GUEST.format(
            number=number,
            name=name,
            priority="PC" if name in ("app", "net") else "BE",
            io=str(name == "net").lower(),
            ways=WAYS[name],
            cpus=list(cpus),
        )
        for number, (name, cpus) in enumerate(_CPUS.items(), 1)
    )
    workloads = _NETWORK[network].format(redis=redis) if network else ""
    workloads += f"  app: {{profile: {app}, cpus: [6]}}\n" if app else ""
    workloads += _BEST_EFFORT if best_effort else ""
    traffic = f"traffic:\n{_TRAFFIC[network]}" if network else ""
    parts = [line.split(":")[0].strip() for line in workloads.splitlines()]
    owners = {name: name if name in masks else "net" for name in parts}
    laid = "".join(f"  {name}: {masks[owner]:#x}\n" for name, owner in owners.items())
    text = (
        f"length: {LENGTH_S:g}s\ncompression: {COMPRESSION:g}\nstep: {step}\n"
        "policy: {ddio_ways_min: 1, ddio_ways_max: 6}\n"
        'nics:\n  nic0: {address: "0000:3b:00.0", speed: 40Gb/s}\n'
        '  nic1: {address: "0000:5e:00.0", speed: 40Gb/s}\n'
        f"guests:\n{guests}workloads:\n{workloads}{traffic}masks:\n{laid}"
    )
    name = "-".join(part for part in (app, network) if part)
    return read_scenario(text, name or "empty", "iat-12")


def settled(
    network: str | None,
    app: str | None,
    strategy: str,
    seed: int,
    *,
    redis: str = "redis-a",
    step: str = "5us",
) -> Window:
    """Run until the strategy has settled, and return what is measured from then on.

    ``solo`` is the application, or with none the network's servers, alone on their ways.
    """
    alone = strategy == "solo"
    masks = start_masks(seed)
    if alone:
        masks = {"app": WayMask.span(2, 2), "net": WayMask.span(4, 3)}
        network = None if app else network
    made = scenario(network, app, masks, redis=redis, best_effort=not alone, step=step)
    result = run(made, "baseline" if alone else strategy, seed, marks=(SETTLED_S,))
    return result.windows[-1]


def points(networks: Sequence[str], apps: Sequence[str], seeds: int) -> list[Point]:
    """List the runs of figures 12 and 13: the application solo, then beside each network."""
    made: list[Point] = []
    for seed, app in itertools.product(range(1, seeds + 1), apps):
        made.append({"app": app, "network": "none", "strategy": "solo", "seed": seed})
        made += [
            {"app": app, "network": network, "strategy": strategy, "seed": seed}
            for network, strategy in itertools.product(networks, STRATEGIES[1:])
        ]
    return made


def against_solo(
    rows: Sequence[Row], column: str, network: str, strategy: str
) -> dict[str, list[float]]:
    """Return by application the ratios of a column to the same seed's solo run."""
    solo = {
        (row["app"], row["seed"]): number(row, column) for row in rows if row["strategy"] == "solo"
    }
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["network"] == network and row["strategy"] == strategy:
            ratio = number(row, column) / solo[row["app"], row["seed"]]
            found.setdefault(str(row["app"]), []).append(ratio)
    return found


def ddio_traffic(rows: Sequence[Row], network: str) -> str:
    """Say how much the network puts through DDIO, which is what everything else follows from."""
    lines = [number(row, "ddio_lines_per_s") for row in rows if row["network"] == network]
    return f"beside {network} DDIO writes {statistics.median(lines) / 1e6:.1f} M lines/s"


def spread(values: Iterable[float]) -> tuple[float, float]:
    """Return the least and the largest."""
    listed = list(values)
    return min(listed), max(listed)


def bars(
    axes: Axes, labels: Sequence[str], groups: Mapping[str, Mapping[str, Sequence[float]]]
) -> None:
    """Draw for each label a bar of each group: the median, and a line from least to largest."""
    colours = {"baseline": "tab:gray", "iat": "tab:blue"}
    for position, (group, by_label) in enumerate(groups.items()):
        places = [place + (position - 0.5) * 0.4 for place in range(len(labels))]
        middles = [statistics.median(by_label[label]) for label in labels]
        reach = [
            [middle - min(by_label[label]) for label, middle in zip(labels, middles, strict=True)],
            [max(by_label[label]) - middle for label, middle in zip(labels, middles, strict=True)],
        ]
        axes.bar(
            places, middles, 0.38, yerr=reach, capsize=2, label=group, color=colours.get(group)
        )
    axes.set_xticks(range(len(labels)), labels, rotation=60, ha="right", fontsize=8)
    axes.axhline(0, color="black", linewidth=0.8)
