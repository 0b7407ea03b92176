# SPDX-License-Identifier: Apache-2.0
"""Strategies that fail, each in its own way."""

import importlib.util
import pathlib

from iat_nova.model import Group, Layout, WayMask
from iat_nova.model.message import message
from iat_nova.strategies.layout.plan import LayoutError

EXAMPLE = pathlib.Path(__file__).parents[4] / "doc/source/examples/confine.py"
_spec = importlib.util.spec_from_file_location("confine", EXAMPLE)
confine = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(confine)


class Raises(confine.Confine):
    """Raises an error in each step."""

    def step(self, state, inventory, sample):
        raise ValueError("boom")


class NoDecision(confine.Confine):
    """Returns no decision."""

    def step(self, state, inventory, sample):
        return state


class NoRoom(confine.Confine):
    """Finds that its masks do not fit."""

    def step(self, state, inventory, sample):
        raise LayoutError(message("no-mask-fits", domain=0, least=2, open_ways=1))


class Impossible(confine.Confine):
    """Decides a mask beyond the cache."""

    def _layout(self, inventory, phase):
        everybody = tuple(tenant.id for tenant in inventory.tenants)
        return Layout(WayMask.span(0, 2), (Group(everybody, WayMask.span(0, 40)),))
