# SPDX-License-Identifier: Apache-2.0
"""Finished runs of strategies, one file per run, so that a stopped comparison can continue."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import cattrs

from iat_nova.common.plugins import SHIPPED_STRATEGIES
from iat_nova.experiments.rivals import ablation
from iat_nova.experiments.runs import performance, run, sources
from iat_nova.experiments.runs.performance import WorkloadResult
from iat_nova.experiments.runs.run import Result, Window
from iat_nova.experiments.scenarios.scenario import Scenario

_DROPPED: Mapping[str, Any] = {
    "metadata": {}, "transitions": (), "decisions": (), "last": None, "inventory": None,
}  # fmt: skip

Alone = Mapping[str, WorkloadResult]
"""Results, by name, of a workload that ran alone and of the workload's virtual switch."""


def measures(result: Result) -> Result:
    """Return a result without decisions and other parts that comparisons do not use."""
    return dataclasses.replace(result, **_DROPPED)


class KeptRuns:
    """The kept runs of one scenario, in a folder of its own.

    A run is valid for the same scenario and the same sources (`sources.closure`) of the run and of
    the strategy. Runs of plug-ins are not kept: their sources are not compared.
    """

    def __init__(self, folder: pathlib.Path, scenario: Scenario) -> None:
        self._folder = folder / scenario.name
        self._names = [workload.name for workload in scenario.workloads]
        self._identity = sources.digest_text(repr(scenario))

    def result(self, strategy: str, seed: int) -> Result | None:
        """Return the kept result of a strategy with a seed, or None."""
        row = self._read(self._of_strategy(strategy, seed), self._made_with(strategy))
        if row is None:
            return None
        lists = {
            "workloads": cattrs.structure(row["workloads"], tuple[WorkloadResult, ...]),
            "windows": cattrs.structure(row["windows"], tuple[Window, ...]),
            "moves": tuple(row["moves"]),
            "restarts": tuple(row["restarts"]),
        }
        return Result(**{**row, **lists, **_DROPPED})

    def alone(self, name: str) -> Alone | None:
        """Return the kept results of a workload alone, or None."""
        row = self._read(self._of_workload(name), self._made_with())
        return None if row is None else cattrs.structure(row, dict[str, WorkloadResult])

    def keep(self, result: Result) -> None:
        """Write the result if the strategy is built in."""
        if ablation.resolve(result.strategy)[0] in SHIPPED_STRATEGIES:
            row = {key: value for key, value in dataclasses.asdict(result).items()
                   if key not in _DROPPED}  # fmt: skip
            path = self._of_strategy(result.strategy, result.seed)
            self._write(path, self._made_with(result.strategy), row)

    def keep_alone(self, name: str, results: Alone) -> None:
        """Write the results of a workload alone."""
        row = {one: dataclasses.asdict(result) for one, result in results.items()}
        self._write(self._of_workload(name), self._made_with(), row)

    def _made_with(self, strategy: str | None = None) -> str:
        """Return the identity of the scenario and of the sources of a run."""
        modules = [performance.__name__]
        if strategy is not None:
            shipped = SHIPPED_STRATEGIES.get(ablation.resolve(strategy)[0], "")
            modules = [run.__name__, *filter(None, [shipped.partition(":")[0]])]
        return f"{sources.digest(sources.closure(*modules))}-{self._identity}"

    def _of_strategy(self, strategy: str, seed: int) -> pathlib.Path:
        return self._folder / f"{strategy.replace(' ', '-')}-{seed}.json"

    def _of_workload(self, name: str) -> pathlib.Path:
        return self._folder / f"alone-{self._names.index(name)}.json"

    def _read(self, path: pathlib.Path, made_with: str) -> Mapping[str, Any] | None:
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        if not isinstance(kept, dict) or kept.get("made_with") != made_with:
            return None
        row = kept.get("row")
        return row if isinstance(row, dict) else None

    def _write(self, path: pathlib.Path, made_with: str, row: Mapping[str, Any]) -> None:
        """Write a file atomically."""
        self._folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        text = json.dumps({"made_with": made_with, "row": row}, indent=1)
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(path)
