# SPDX-License-Identifier: Apache-2.0
"""The plug-in's sentences: reasons for a move, for leaving a host unchanged, for no plan."""

from __future__ import annotations

from collections.abc import Mapping

from .choice import Left, Move

LEFT: Mapping[str, str] = {
    "no-agent": "no metrics of iat-nova; install the agent, or check the scrape and its host label",
    "stale": "the agent's last iteration is too old; run `iat-nova status` there",
    "observing": "the agent writes no masks; set [iat] mode = enforce there first",
    "down": "nova-compute is down or disabled",
    "not-said": "the agent's strategy does not say whether a layout is left; use pollute-buffer",
    "not-exhausted": "the agent still has layouts to try",
    "most-moves": "the plan has as many migrations as the audit allows; run the next audit later",
    "no-candidate": "no guest there can be moved, or which of them fills the cache is not known",
    "no-destination": "no host has the room, CPUs, memory, disk and aggregates for its guests",
    "not-enough": "the possible migrations would bring no short guest's loss below the threshold",
    "cost": "the migrations would cost more CPU time than they bring",
}
"""By code, why the short guests of a host stay as they are, with what to do."""


def moved(move: Move) -> str:
    """Return the reason of a migration in words."""
    relieved = ", ".join(
        f"{one.guest} {one.before:.0%} -> {one.after:.0%}" for one in move.relieved
    )
    kind = "performance-critical" if move.guest.critical else "best-effort"
    passed = ""
    if move.passed is not None:
        passed = "; moving {} instead would leave {:.0%}".format(*move.passed)
    return (
        f"{move.guest.name} ({kind}) from {move.source} to {move.destination}: estimated loss of "
        f"cycles to other guests on {move.source}: {relieved}; gain {move.gain_cpu_s:.0f} CPU s, "
        f"cost {move.cost_cpu_s:.0f} CPU s{passed}"
    )


def left(one: Left) -> str:
    """Return the reason, in words, for leaving a host unchanged."""
    names = ", ".join(one.short)
    return f"{one.host}, cache domain {one.domain}: {names} short, no migration: {LEFT[one.code]}"
