# SPDX-License-Identifier: Apache-2.0
"""The verdicts that turn when a constant of the emulated server moves by a quarter."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from iat_nova.experiments.papers import catalogue, claims
from iat_nova.experiments.papers.api import Figure, Row
from iat_nova.experiments.papers.claims import ClaimVerdict
from iat_nova.experiments.papers.constants import CONSTANTS, FACTORS

RECORD = "sensitivity.json"

Measure = Callable[[Sequence[Figure], pathlib.Path], Mapping[str, Sequence[Row]]]
"""A function that measures figures and keeps the points in a folder."""


@dataclasses.dataclass(frozen=True, slots=True)
class TurnedVerdict:
    """A verdict that differs once a constant is multiplied by `factor`."""

    constant: str
    factor: float
    before: ClaimVerdict
    after: ClaimVerdict


def run(names: Sequence[str], folder: pathlib.Path, measure: Measure) -> list[TurnedVerdict]:
    """Measure figures with each constant a quarter less and more; return the verdicts that turn.

    Figures that a constant does not affect are not measured again. Writes ``sensitivity.json`` to
    the folder, after each move of a constant.
    """
    plain = catalogue.figures()
    nominal = _verdicts([plain[name] for name in names], folder / "points", measure)
    turns: list[TurnedVerdict] = []
    moves = []
    for constant in CONSTANTS.values():
        for factor in FACTORS:
            figures = list(affected(names, constant.name, factor))
            where = folder / "sensitivity" / f"{constant.name}-{factor:g}"
            found = _verdicts(figures, where, measure) if figures else {}
            mine = [
                TurnedVerdict(constant.name, factor, nominal[claim], verdict)
                for claim, verdict in found.items()
                if verdict.met is not nominal[claim].met
            ]
            turns += mine
            moves.append(
                {
                    "constant": constant.name,
                    "meaning": constant.meaning,
                    "factor": factor,
                    "figures": [figure.name for figure in figures],
                    "claims": len(found),
                    "turns": [_recorded(turn) for turn in mine],
                }
            )
            _write(folder / RECORD, names, moves)
    return turns


def affected(names: Sequence[str], constant: str, factor: float) -> Iterator[Figure]:
    """Yield the figures that a constant changes, with the constant moved."""
    for name, definition in catalogue.definitions().items():
        if name not in names or not definition.scenario:
            continue
        other = dataclasses.replace(definition, moved=(constant, factor))
        if any(other.made(point) != definition.made(point) for point in definition.points(1)):
            yield catalogue.figure(other)


def _verdicts(
    figures: Sequence[Figure], folder: pathlib.Path, measure: Measure
) -> dict[str, ClaimVerdict]:
    rows = measure(figures, folder)
    found = {}
    for figure in figures:
        judged = claims.judge(figure.judge(rows[figure.name]))
        found.update({verdict.claim: verdict for verdict in judged})
    return found


def _recorded(turn: TurnedVerdict) -> dict[str, object]:
    return {
        "claim": turn.before.claim,
        "set": turn.before.set,
        "published": turn.before.published,
        "before": turn.before.measured,
        "after": turn.after.measured,
        "met": turn.after.met,
    }


def _write(path: pathlib.Path, names: Sequence[str], moves: Sequence[object]) -> None:
    record = {"figures": list(names), "moves": moves}
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
