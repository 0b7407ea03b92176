# SPDX-License-Identifier: Apache-2.0
"""The chart of a comparison: a panel per measure, a row per strategy, a dot per seed."""

from __future__ import annotations

import pathlib
import statistics
from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure as Canvas

from iat_nova.experiments.compare.compare import REFERENCE, Row

PANELS = (
    ("pc_performance", "PC performance (alone: 1)"),
    ("be_throughput", "BE throughput ({against}: 1)"),
    ("memory_bandwidth", "memory bandwidth, GB/s"),
    ("way_changes_per_minute", "way changes a minute"),
    ("settle_s", "time to settle, s"),
)


def draw(path: pathlib.Path, title: str, rows: Sequence[Row], against: str = REFERENCE) -> None:
    """Draw the rows of a scenario: a dot for each seed, a vertical bar at the median."""
    strategies = list(dict.fromkeys(row.strategy for row in rows))
    with matplotlib.rc_context({"svg.hashsalt": "compare", "svg.fonttype": "none"}):
        height_in = 1.4 + 0.4 * len(strategies)
        canvas = Canvas(figsize=(12.0, height_in), layout="constrained")
        canvas.suptitle(title)
        panels = canvas.subplots(1, len(PANELS), sharey=True)
        for axes, (name, label) in zip(panels, PANELS, strict=True):
            axes.set_xlabel(label.format(against=against))
            axes.set_ylim(len(strategies) - 0.5, -0.5)
            axes.set_yticks(range(len(strategies)), strategies)
            axes.grid(axis="x", alpha=0.3)
            for number, strategy in enumerate(strategies):
                found = [getattr(row, name) for row in rows if row.strategy == strategy]
                values = [value for value in found if value is not None]
                if not values:
                    axes.text(
                        0.5, number, "none", transform=axes.get_yaxis_transform(), ha="center"
                    )
                    continue
                colour = f"C{number}"
                axes.plot(values, [number] * len(values), "o", alpha=0.4, color=colour)
                axes.plot(statistics.median(values), number, "|", ms=22, mew=3, color=colour)
            # Each axis begins at 0, so that noise does not look like a gain.
            axes.set_xlim(left=0)
            for line in axes.lines:
                line.set_clip_on(False)  # a symbol at the end of the axis is whole
        canvas.savefig(path, format="svg", metadata={"Date": None, "Creator": "iat-nova"})
