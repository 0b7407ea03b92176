# SPDX-License-Identifier: Apache-2.0
"""Watcher's goal: performance-critical guests lose little to their neighbours' use of the cache."""

from __future__ import annotations

from typing import Any

from watcher._i18n import _
from watcher.decision_engine.goal import base
from watcher.decision_engine.goal.efficacy import base as efficacy_base
from watcher.decision_engine.goal.efficacy import indicators
from watcher.decision_engine.solution import efficacy


class Count(indicators.IndicatorSpecification):  # type: ignore[misc]
    """A number of guests or hosts."""

    @property
    def schema(self) -> dict[str, Any]:
        """Return the schema of the value."""
        return {"type": "integer", "minimum": 0}


COUNTS = (
    Count(
        "short_guests_before",
        _("Critical guests that lose more than the threshold to other guests."),
    ),
    Count("short_guests_after", _("The same after the plan, as estimated.")),
    Count(
        "hosts_without_data",
        _("Hosts left out: no fresh metrics of an agent that enforces, or down."),
    ),
)


class Efficacy(efficacy_base.EfficacySpecification):  # type: ignore[misc]
    """The effect of a plan on short guests."""

    def get_indicators_specifications(self) -> list[indicators.IndicatorSpecification]:
        """Return the indicators set by the strategy."""
        return list(COUNTS)

    def get_global_efficacy_indicator(self, indicators_map: Any = None) -> list[Any]:
        """Return the share of short guests that are not short after the plan, in percent."""
        before = indicators_map.short_guests_before if indicators_map else 0
        lifted = before - indicators_map.short_guests_after if before else 0
        return [
            efficacy.Indicator(
                name="lifted_guests_ratio",
                description=_("Share of short guests that are not short after the plan."),
                unit="%",
                value=100.0 * lifted / before if before else 0,
            )
        ]


class Named:
    """The names of goal and strategy in Watcher's lists: entry points of the same name."""

    shown: str = _("Cache pressure")

    @classmethod
    def get_name(cls) -> str:
        """Return the name of the entry point."""
        return "iat_cache_pressure"

    @classmethod
    def get_display_name(cls) -> str:
        """Return the displayed name."""
        return cls.shown

    @classmethod
    def get_translatable_display_name(cls) -> str:
        """Return the key of the shown name's translation."""
        return cls.shown


class CachePressure(Named, base.Goal):  # type: ignore[misc]
    """Lift performance-critical guests with too little cache on their host."""

    @classmethod
    def get_efficacy_specification(cls) -> Efficacy:
        """Return the specification of the goal's indicators."""
        return Efficacy()
