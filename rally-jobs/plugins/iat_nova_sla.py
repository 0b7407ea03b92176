# SPDX-License-Identifier: Apache-2.0
"""An SLA on the slowest: averages hide the one guest that waited."""

from rally import consts
from rally.task import sla


@sla.configure(name="iat_nova_max_duration_per_atomic")
class MaxDurationPerAtomic(sla.SLA):
    """No action of that name, in any iteration, may take more than so many seconds.

    One that never finished in any iteration fails it too.
    """

    CONFIG_SCHEMA = {
        "type": "object",
        "$schema": consts.JSON_SCHEMA,
        "additionalProperties": {"type": "number", "minimum": 0},
        "minProperties": 1,
    }

    def __init__(self, criterion_value):
        super().__init__(criterion_value)
        self.slowest = {}

    def add_iteration(self, iteration):
        """Note the iteration's actions, nested ones too; tell whether all is well so far."""
        self._note(iteration["atomic_actions"])
        return self._judge()

    def merge(self, other):
        """Take another runner's share."""
        for name, seconds in other.slowest.items():
            self.slowest[name] = max(seconds, self.slowest.get(name, 0.0))
        return self._judge()

    def result(self):
        """Judge at the end: an action that never finished has kept no limit."""
        self.success = self._judge() and set(self.criterion_value) <= set(self.slowest)
        return super().result()

    def details(self):
        """Name each limit and the slowest action it applies to; one never seen is said to be so."""
        parts = [
            f"{name}: {self.slowest[name]:.2f} s <= {limit:.2f} s"
            if name in self.slowest
            else f"{name}: never finished"
            for name, limit in sorted(self.criterion_value.items())
        ]
        return f"Slowest of each action: {', '.join(parts)}. Status: {self.status()}"

    def _note(self, actions):
        for action in actions:
            if action["name"] in self.criterion_value and not action.get("failed"):
                seconds = action["finished_at"] - action["started_at"]
                self.slowest[action["name"]] = max(seconds, self.slowest.get(action["name"], 0.0))
            self._note(action.get("children", ()))

    def _judge(self):
        self.success = all(
            self.slowest.get(name, 0.0) <= limit for name, limit in self.criterion_value.items()
        )
        return self.success
