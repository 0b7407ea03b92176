# SPDX-License-Identifier: Apache-2.0
"""What a plan of migrations brings two emulated hosts: python -m tools.plan_gain FROM TO

Both scenarios run under the agent's default strategy. The plug-in's choice reads what the agents
recorded, as it reads Prometheus; the guests of its moves change the scenario, and both run again.
Prints a CSV: each guest's accesses per busy cycle before and after (1: alone on its host), and a
critical guest's loss before and after, as estimated. `doc/source/operator/watcher/plan.csv` is its
output.
"""

from __future__ import annotations

import copy
import csv
import dataclasses
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from iat_nova.experiments.runs import performance
from iat_nova.experiments.runs.run import WorkloadResult, run
from iat_nova.experiments.scenarios.reader import read_scenario
from iat_nova.experiments.scenarios.scenario import Scenario
from iat_nova.model import Priority
from iat_nova.report import pressures
from iat_nova.store.reader import HistoryReader
from iat_nova.watcher import choice, words
from iat_nova.watcher.hosts import Domain, Free, Guest, Host, Reading

STRATEGY, SEED = "pollute-buffer", 1
SETTLED_S, LENGTH_S = 30.0, 60.0  # measured between these moments
ALONE_S = 20.0  # a workload alone is steady
MEMORY_MB = 2048
FREE = Free(vcpus=0, pcpus=8, memory_mb=32768, disk_gb=100)
FIRST_CPU = 4  # of guests

Plain = dict[str, Any]
"""A scenario's YAML."""


@dataclasses.dataclass(frozen=True)
class Ran:
    """A host's run: the scenario, the results once settled, and what the plug-in sees of it."""

    scenario: Scenario
    results: Mapping[str, WorkloadResult]
    host: Host


def ran(name: str, plain: Plain) -> Ran:
    """Run a host."""
    scenario = read_scenario(yaml.safe_dump(plain, sort_keys=False), name, name)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "history.sqlite"
        done = run(
            scenario, STRATEGY, SEED, seconds=LENGTH_S, marks=(SETTLED_S,), history_path=path
        )
        host = seen(name, plain, path)
    return Ran(scenario, done.windows[-1].workloads, host)


def seen(name: str, plain: Plain, path: pathlib.Path) -> Host:
    """Return what the plug-in sees of a host, from the agent's history since it settled."""
    with HistoryReader(path) as reader:
        recorded = list(reader.between(float("-inf"), float("inf"), 0))
        inventory = reader.inventory(recorded[-1].iteration.inventory_id).domains[0]
    latest = [one.iteration for one in recorded[-int(LENGTH_S - SETTLED_S) :]]
    losses = [pressures.losses(inventory, one) for one in latest]
    fills = [pressures.fills(inventory, one) for one in latest]
    rooms = [pressures.newcomers(inventory, one) for one in latest]
    readings = {}
    for tenant in inventory.tenants:
        mine = [one[tenant.id] for one in losses if tenant.id in one]
        filled = [one[tenant.id].share for one in fills if tenant.id in one]
        if mine and filled:
            likely = [one.likely for one in mine if one.likely is not None]
            stalled = statistics.mean(one.stalled for one in mine)
            loss = min(likely) if len(likely) == len(latest) else None
            readings[tenant.uuid] = {0: Reading(stalled, statistics.mean(filled), loss)}
    ways = inventory.domain.ways
    room = {
        who is Priority.PC: min(one[who] for one in rooms) / ways
        for who in (Priority.PC, Priority.BE)
    }
    exhausted = statistics.mean(bool(pressures.exhausted(one)) for one in latest) >= 0.5
    guests = tuple(
        Guest(
            one["uuid"], one["display_name"], len(one["cpus"]), MEMORY_MB, 1,
            critical=one["extra_specs"]["iat:priority"] == "PC", pinned=True,
            readings=readings.get(one["uuid"], {}),
        )
        for one in plain["guests"]
    )  # fmt: skip
    return Host(name, guests, FREE, domains={0: Domain(exhausted, ways, room)})


def moved(plain: Mapping[str, Plain], moves: tuple[choice.Move, ...]) -> dict[str, Plain]:
    """Return the scenarios with the guests where the moves put them."""
    after = copy.deepcopy(dict(plain))
    for move in moves:
        source, there = after[move.source], after[move.destination]
        (guest,) = (one for one in source["guests"] if one["uuid"] == move.guest.uuid)
        source["guests"].remove(guest)
        used = {cpu for one in there["guests"] for cpu in one["cpus"]}
        free = (cpu for cpu in range(FIRST_CPU, 1 << 10) if cpu not in used)
        guest["cpus"] = [next(free) for _ in guest["cpus"]]
        workload = source["workloads"].pop(guest["display_name"])
        there["workloads"][guest["display_name"]] = {**workload, "cpus": guest["cpus"]}
        there["guests"].append(guest)
    return after


def rows(plain: Mapping[str, Plain]) -> Iterator[dict[str, object]]:
    """Yield a row for each guest; the reasons of the moves go to standard error."""
    before = {name: ran(name, one) for name, one in plain.items()}
    chosen = choice.choose([one.host for one in before.values()], choice.Limits())
    for left in chosen.left:
        print(words.left(left), file=sys.stderr)
    for move in chosen.moves:
        print(words.moved(move), file=sys.stderr)
    if not chosen.moves:
        sys.exit("no migration is proposed")
    after = {name: ran(name, one) for name, one in moved(plain, chosen.moves).items()}
    expected = {one.guest: one.after for move in chosen.moves for one in move.relieved}
    for name, one in before.items():
        alone_for = dataclasses.replace(one.scenario, length_s=ALONE_S)
        for guest in one.host.guests:
            (there,) = (n for n, its in after.items() if guest.uuid in _uuids(its.host))
            alone = performance.run_alone(alone_for, guest.name, SEED)
            whole = performance.performance(one.scenario, alone, guest.name)
            reached = [
                performance.performance(its.scenario, its.results, guest.name) / whole
                for its in (one, after[there])
            ]
            loss = guest.readings[0].loss if guest.critical and 0 in guest.readings else None
            yield {
                "Guest": guest.name,
                "Host before": name,
                "after": there,
                "Speed before": f"{reached[0]:.2f}",
                "after ": f"{reached[1]:.2f}",
                "Loss estimated before": "" if loss is None else f"{loss:.2f}",
                "expected after": f"{expected[guest.name]:.2f}" if guest.name in expected else "",
            }


def _uuids(host: Host) -> set[str]:
    return {one.uuid for one in host.guests}


def main() -> None:
    """Print the rows of the two scenarios that the arguments name."""
    plain = {
        pathlib.Path(path).stem: yaml.safe_load(pathlib.Path(path).read_text())
        for path in sys.argv[1:3]
    }
    found = list(rows(plain))
    writer = csv.DictWriter(sys.stdout, found[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)


if __name__ == "__main__":
    main()
