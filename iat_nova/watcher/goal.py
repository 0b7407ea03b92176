# SPDX-License-Identifier: Apache-2.0
"""Watcher's goal: performance-critical guests lose little to their neighbours' use of the cache."""

from __future__ import annotations

from typing import Any

from watcher._i18n import _
from watcher.decision_engine.goal import base
from watcher.decision_engine.goal.efficacy import base as efficacy_base
from watcher.decision_engine.goal.efficacy import indicators
from watcher.decision_engine.solution import efficacy


class ShortBefore(indicators.IndicatorSpecification):  # type: ignore[misc]
    """The number of critical guests with a loss above the threshold."""

    def __init__(self) -> None:
        super().__init__(
            name="short_guests_before",
            description=_("Critical guests that lose more than the threshold to other guests."),
            unit=None,
        )

    @property
    def schema(self) -> dict[str, Any]:
        """Return the schema of the value."""
        return {"type": "integer", "minimum": 0}


class ShortAfter(ShortBefore):
    """The estimated number of such guests after the plan."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "short_guests_after"
        self.description = _("The same after the plan, as estimated.")


class Unusable(ShortBefore):
    """The number of hosts left out of the plan."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "hosts_without_data"
        self.description = _("Hosts left out: no fresh metrics of an agent that enforces, or down.")


class Efficacy(efficacy_base.EfficacySpecification):  # type: ignore[misc]
    """The effect of a plan on short guests."""

    def get_indicators_specifications(self) -> list[indicators.IndicatorSpecification]:
        """Return the indicators set by the strategy."""
        return [ShortBefore(), ShortAfter(), Unusable()]

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


class CachePressure(base.Goal):  # type: ignore[misc]
    """Lift performance-critical guests with too little cache on their host."""

    @classmethod
    def get_name(cls) -> str:
        """Return the name of the entry point."""
        return "iat_cache_pressure"

    @classmethod
    def get_display_name(cls) -> str:
        """Return the displayed name."""
        return str(_("Cache pressure"))

    @classmethod
    def get_translatable_display_name(cls) -> str:
        """Return the key of the shown name's translation."""
        return "Cache pressure"

    @classmethod
    def get_efficacy_specification(cls) -> Efficacy:
        """Return the specification of the goal's indicators."""
        return Efficacy()
