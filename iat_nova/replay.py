# SPDX-License-Identifier: Apache-2.0
"""Deciding a recorded iteration once more: its state, inventory and sample give its decision."""

from __future__ import annotations

from iat_nova.control.controller import Controller
from iat_nova.model import Decision, DomainInventory, Parameters, Switches
from iat_nova.records import Iteration


def replay(
    iteration: Iteration, inventory: DomainInventory, parameters: Parameters, switches: Switches
) -> Decision:
    """Return what the built-in controller decides from what a recorded iteration saw.

    Equal to `iteration.decision` when history and controller are both sound.
    """
    controller = Controller(parameters, switches)
    _, decision = controller.step(iteration.state, inventory, iteration.sample)
    return decision
