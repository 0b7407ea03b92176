# SPDX-License-Identifier: Apache-2.0
"""The list of all figures, in the order of display."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

from iat_nova.experiments.papers import charts, claims
from iat_nova.experiments.papers.api import REFUSED, ClaimFinding, Figure, Row
from iat_nova.experiments.papers.definition import Definition, read
from iat_nova.experiments.papers.heads import STEMS
from iat_nova.experiments.papers.measure import measure


@functools.cache
def figures() -> Mapping[str, Figure]:
    """Return all figures by name, in the order of the catalogue."""
    return {one.name: figure(one) for stem in STEMS for one in read(stem)}


def definitions() -> Mapping[str, Definition]:
    """Return the definitions of all figures by name."""
    return {one.name: one for stem in STEMS for one in read(stem)}


def figure(definition: Definition) -> Figure:
    """Return a figure that measures, judges and draws by its definition."""
    return Figure(
        name=definition.name,
        title=definition.title,
        source=definition.source,
        setup=definition.setup,
        points=definition.points,
        measure=functools.partial(measure, definition),
        judge=functools.partial(_judge, definition),
        draw=functools.partial(charts.draw, definition),
        alone=definition.alone,
        compression=definition.compression,
        stem=definition.stem,
    )


def _judge(definition: Definition, rows: Sequence[Row]) -> Iterable[ClaimFinding]:
    """Judge all rows; if a point could not be measured, judge no claim."""
    refused = next((row[REFUSED] for row in rows if REFUSED in row), None)
    if refused is not None:
        mine = [one.id for one in claims.load().values() if one.figure == definition.name]
        return [ClaimFinding(claim, None, f"not measured: {refused}") for claim in mine]
    if definition.judge is None:
        return []
    found: Iterable[ClaimFinding] = definition.function(definition.judge)(rows)
    return found
