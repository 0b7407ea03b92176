# SPDX-License-Identifier: Apache-2.0
"""Estimated losses beside true ones, on the emulated server: python -m tools.loss_check SCENARIO...

A workload's true loss is 1 less its performance in the scenario over that alone on the machine.
The estimates are means over the run of what the agent records in each iteration. Prints a CSV.
"""

from __future__ import annotations

import csv
import pathlib
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator

from iat_nova.experiments.runs import performance
from iat_nova.experiments.runs.run import run
from iat_nova.experiments.scenarios.reader import load_scenario
from iat_nova.experiments.scenarios.scenario import Scenario
from iat_nova.report import pressures
from iat_nova.store.reader import HistoryReader
from iat_nova.strategies.pressure import CycleLoss

STRATEGIES = ("unmanaged", "pollute-buffer")
SEED = 1


def estimated(path: pathlib.Path) -> dict[str, list[CycleLoss]]:
    """Return the losses of each iteration of a history, by the tenant's name."""
    found = defaultdict(list)
    with HistoryReader(path) as reader:
        for domain in reader.domains():
            for recorded in reader.between(float("-inf"), float("inf"), domain):
                picture = reader.inventory(recorded.iteration.inventory_id)
                inventory = picture.domains[domain]
                names = {tenant.id: tenant.name for tenant in inventory.tenants}
                for tenant, loss in pressures.losses(inventory, recorded.iteration).items():
                    found[names[tenant]].append(loss)
    return found


def rows(scenario: Scenario, strategy: str) -> Iterator[dict[str, object]]:
    """Yield a row for each workload that was estimated, and does work alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "history.sqlite"
        done = run(scenario, strategy, SEED, history_path=path)
        losses = estimated(path)
    results = {one.name: one for one in done.workloads}
    for name, known in losses.items():
        if name not in results:
            continue
        alone = performance.run_alone(scenario, name, SEED)
        reached = performance.performance(scenario, alone, name)
        if not reached:
            continue
        likely = [one.likely for one in known if one.likely is not None]
        yield {
            "scenario": scenario.name,
            "strategy": strategy,
            "workload": name,
            "true": round(1 - performance.performance(scenario, results, name) / reached, 3),
            "least": round(statistics.mean(one.least for one in known), 3),
            "likely": round(statistics.mean(likely), 3) if likely else "",
            "most": round(statistics.mean(one.most for one in known), 3),
        }


def main() -> None:
    """Print the rows as they are measured."""
    writer = None
    for name in sys.argv[1:]:
        for strategy in STRATEGIES:
            for row in rows(load_scenario(name), strategy):
                if writer is None:
                    writer = csv.DictWriter(sys.stdout, row)
                    writer.writeheader()
                writer.writerow(row)
                sys.stdout.flush()


if __name__ == "__main__":
    main()
