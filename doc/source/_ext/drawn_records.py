# SPDX-License-Identifier: Apache-2.0
"""What `iat-nova simulate compare` recorded on random hosts: guests under strategies, estimates."""

import csv
import json
import pathlib
import statistics

RECORD = pathlib.Path(__file__).parents[1] / "drawn" / "strategies.csv"
WORTH = RECORD.with_name("worth.json")
WORTH_SCENARIOS = RECORD.with_name("worth-scenarios.json")
NOTICEABLE = 0.01
"""Smallest change of a host's mean that counts, as a share."""
LEAST = 0.96
"""Share of its performance without an agent that no critical guest should fall below."""


def shares():
    """Return by strategy and priority each guest's share of its performance without an agent.

    Keys of the inner mapping: host and guest. Guests without any work have no share.
    """
    found = {}
    with RECORD.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["related"]:
                of = found.setdefault((row["strategy"], row["priority"]), {})
                of[row["scenario"], row["tenant"]] = float(row["related"])
    return found


def hosts(guests):
    """Return by host the geometric mean of its guests' shares; see `shares`."""
    found = {}
    for (host, _), share in guests.items():
        found.setdefault(host, []).append(share)
    return {host: statistics.geometric_mean(of) for host, of in found.items()}


def standing(strategy):
    """Return the figures of a strategy on all random hosts, as text, by name."""
    critical, best_effort = (shares()[strategy, priority] for priority in ("PC", "BE"))
    means = hosts(critical)
    better, worse = (
        sum(share * sign > sign + NOTICEABLE for share in means.values()) for sign in (1, -1)
    )
    below = sum(share < LEAST for share in critical.values())
    return {
        "strategy": strategy,
        "hosts": str(len(means)),
        "critical": f"{statistics.geometric_mean(means.values()):.3f}",
        "critical-median": f"{statistics.median(means.values()):.3f}",
        "better-worse": f"{better} / {worse}",
        "below": f"{below} of {len(critical)}",
        "critical-least": f"{min(critical.values()):.2f}",
        "best-effort": f"{statistics.geometric_mean(hosts(best_effort).values()):.3f}",
        "best-effort-least": f"{min(best_effort.values()):.2f}",
    }


def estimates(record):
    """Return (likely, came) by host, the lowest estimate first, of hosts with both."""
    rows = json.loads(record.read_text(encoding="utf-8"))
    pairs = [(row["likely"], row["came"]) for row in rows]
    return sorted(pair for pair in pairs if None not in pair)


def parts(pairs, count):
    """Yield the first and the second values of each of `count` parts of sorted pairs."""
    for number in range(count):
        first, last = (len(pairs) * one // count for one in (number, number + 1))
        yield zip(*pairs[first:last], strict=True)
