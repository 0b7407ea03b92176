# SPDX-License-Identifier: Apache-2.0
"""Print a package's import graph: its places, their layers, and the arrows between places.

A place is a file or folder directly in the package. An arrow goes from a place to each other place
that its modules import. Layers are the longest chain of arrows, counted in places.

    python -m tools.import_graph iat_nova
    python -m tools.import_graph iat_nova.hardware
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping

import grimp


def arrows(package: str) -> Mapping[str, frozenset[str]]:
    """Return the places of a package, each with the places that its modules import."""
    graph = grimp.build_graph(package.partition(".")[0])
    places = graph.find_children(package)

    def imported(place: str) -> Iterator[str]:
        modules = {place, *graph.find_descendants(place)}
        for other in places - {place}:
            below = {other, *graph.find_descendants(other)}
            if any(graph.find_modules_directly_imported_by(one) & below for one in modules):
                yield other

    return {place: frozenset(imported(place)) for place in places}


def layers(graph: Mapping[str, frozenset[str]]) -> Mapping[str, int]:
    """Return each place's layer, 1 without arrows. Raises `RecursionError` for a cycle."""

    @functools.cache
    def layer(place: str) -> int:
        return 1 + max(map(layer, graph[place]), default=0)

    return {place: layer(place) for place in graph}


def main(package: str) -> None:
    """Print one line a place, highest layer first, and the three counts."""
    graph = arrows(package)
    found = layers(graph)
    for place in sorted(graph, key=lambda one: (-found[one], one)):
        names = sorted(one.removeprefix(f"{package}.") for one in graph[place])
        print(f"{found[place]}  {place.removeprefix(f'{package}.')}: {' '.join(names)}")
    count = sum(map(len, graph.values()))
    print(f"{len(graph)} places, {max(found.values())} layers, {count} arrows")


if __name__ == "__main__":
    main(*sys.argv[1:] or ["iat_nova"])
