# SPDX-License-Identifier: Apache-2.0
"""What the samples of a trial decide, by figures done by hand."""

import dataclasses
import unittest

from iat_nova.model import (
    DcaPort,
    DevicePort,
    DomainInventory,
    Parameters,
    Priority,
    Sample,
    message,
)
from iat_nova.strategies.pollute_buffer import trial
from iat_nova.strategies.pollute_buffer.judge import Now
from iat_nova.strategies.pollute_buffer.plan import Limit, Move, Plan
from iat_nova.strategies.pollute_buffer.state import Phase, State
from iat_nova.strategies.readings import Look
from tests.unit.build import domain, tenant

NIC, DISK, ROOT = "0000:3b:00.0", "0000:5e:00.0", "0000:5d:00.0"
C = tenant("c", 1, priority=Priority.PC)
B = tenant("b", 2)
IO = tenant("io", 3, priority=Priority.PC, io=True, devices=(NIC,), ports=(NIC,))
D = tenant("d", 4, devices=(DISK,), ports=(DISK,))
CACHE = domain(
    device_ports=(DevicePort(NIC, (NIC,)), DevicePort(DISK, (DISK,))),
    dca_ports=(DcaPort("0000:3a:00.0", (NIC,)), DcaPort(ROOT, (DISK,))),
)
WHAT = message("confine", tenant="b")
PLAIN = Plan(frozenset(), 2, 2)


def look(speed):
    """A reading of the same load at this speed; a tenth of the cycles is stalled."""
    return Look(speed, 0.1, 1e6, 1e7 * speed, cycles_per_s=1e9)


def on_trial(after, before=PLAIN, **more):
    """A state with the plan `after` on trial; all speeds are 1 without it."""
    looks = {one.id: look(1.0) for one in (C, B, IO, D)}
    begun = State(3, CACHE, (), before, phase=Phase.TRIAL, looks=looks, counted=3)
    return dataclasses.replace(begun, trial=Move("b", after, WHAT), **more)


def shown(state, speeds, tenants=(C, B)):
    """What the trial shows with a further sample of these speeds."""
    looks = {one: look(speed) for one, speed in speeds.items()}
    sample = Sample(0, 9.0, 1.0, {})
    now = Now(DomainInventory(CACHE, tenants), sample, looks)
    return trial.shown(state, now, Parameters())


class VerdictTest(unittest.TestCase):
    CONFINED = dataclasses.replace(PLAIN, confined=frozenset("b"))

    def test_gain(self) -> None:
        """3 % at once, 0.6 % in the mean of three samples; nothing gained ends the trial."""
        for samples, deviation, speed, keep, code in (
            (1, 0.0, 1.04, True, "speeds-most"),
            (1, 0.0, 1.02, None, "trial-goes-on"),
            (1, 0.0, 1.001, None, "trial-goes-on"),
            (1, 0.0, 1.0, False, "speeds-most"),
            (1, 0.0, 0.99, False, "speeds-most"),
            (2, 0.0, 1.04, True, "speeds-most"),
            (2, 0.0, 1.02, None, "trial-goes-on"),
            (3, 0.0, 1.007, True, "speeds-most"),
            (3, 0.0, 1.005, False, "gained-too-little"),
            (3, 0.0, 0.99, False, "speeds-most"),
            (1, 0.096, 1.05, None, "trial-goes-on"),
            (1, 0.096, 1.07, True, "speeds-most"),
            (3, 0.096, 1.007, False, "gained-too-little"),
            (3, 0.096, 1.013, True, "speeds-most"),
        ):
            with self.subTest(samples=samples, deviation=deviation, speed=speed):
                state = on_trial(
                    self.CONFINED,
                    trial_looks={"c": look(speed)},
                    trial_counted=samples - 1,
                    deviation=deviation,
                )
                found = shown(state, {"c": speed}, (C,))
                self.assertEqual((keep, code), (found.keep, found.why.code))
                self.assertEqual((samples, None, ()), (found.counted, found.other, found.changed))
                values, unrest = found.why.values, 2.0 if deviation else 1.0
                cause = values.get("cause", found.why).values
                self.assertAlmostEqual(speed - 1.0, cause["gain"])
                self.assertEqual("c", cause["tenant"])
                self.assertAlmostEqual(speed - 1.0, cause["change"])
                if code == "gained-too-little":
                    self.assertEqual((3, 0.006 * unrest), (values["samples"], values["limit"]))
                if code == "trial-goes-on":
                    self.assertEqual(
                        (WHAT, samples, 3, 0.03 * unrest),
                        tuple(values[one] for one in ("move", "number", "samples", "kept_above")),
                    )

    def test_mean(self) -> None:
        """Of the trial's samples."""
        state = on_trial(self.CONFINED, trial_looks={"c": look(1.3)}, trial_counted=2)
        self.assertAlmostEqual(1.2, shown(state, {"c": 1.0}, (C,)).looks["c"].speed)

    def test_nobody_measured(self) -> None:
        """Gains nothing."""
        found = shown(on_trial(self.CONFINED, looks={}), {}, (C,))
        self.assertEqual((False, "speeds", 0.0),
                         (found.keep, found.why.code, found.why.values["gain"]))  # fmt: skip

    def test_another_load(self) -> None:
        """The first tenant with another load, and all of them."""
        state = on_trial(self.CONFINED)
        looks = {"c": look(1.0), "b": Look(1.0, 0.1, 1e6, 2e7, cycles_per_s=1e9)}
        now = Now(DomainInventory(CACHE, (B, C, D)), Sample(0, 9.0, 1.0, {}), looks)
        found = trial.shown(state, now, Parameters())
        self.assertEqual(("b", ("b", "d")), (found.other, found.changed))

    def test_minimum_speeds(self) -> None:
        """What lacks of them counts; a move that gives back may cost critical tenants speed."""
        clear = dataclasses.replace(self.CONFINED, clear=True)
        limited = dataclasses.replace(self.CONFINED, limits=(Limit("b", 50),))
        larger = dataclasses.replace(self.CONFINED, buffer=4)
        slow = {"c": look(1.0), "b": look(0.5)}
        for before, after, keep in (
            (self.CONFINED, PLAIN, True),
            (clear, self.CONFINED, True),
            (limited, self.CONFINED, True),
            (self.CONFINED, larger, False),
            (PLAIN, self.CONFINED, False),
            (self.CONFINED, clear, False),
            (self.CONFINED, limited, False),
            (dataclasses.replace(self.CONFINED, confined=frozenset("d")), self.CONFINED, False),
        ):
            with self.subTest(before=before, after=after):
                state = on_trial(after, before, looks=slow, found={"b": look(1.0)})
                found = shown(state, {"c": 0.9, "b": 0.8})
                self.assertEqual(keep, found.keep)
                self.assertEqual("speeds-and-floors" if keep else "speeds-most", found.why.code)
                self.assertLess(found.why.values["gain"], 0.0)
                if keep:
                    self.assertGreater(found.why.values["counted"], 0.03)


class SufferingTest(unittest.TestCase):
    def test_limit(self) -> None:
        """A twentieth, or the usual deviation, of one that is protected and was measured."""
        for speeds, protected, deviation, loser in (
            ({"b": 0.94}, "b", 0.0, "b"),
            ({"b": 0.96}, "b", 0.0, None),
            ({"b": 0.94}, "b", 0.1, None),
            ({"b": 0.89}, "b", 0.1, "b"),
            ({"b": 0.94}, "c", 0.0, None),
            ({"b": 1.5}, "b", 0.0, None),
            ({"b": 0.5, "c": 0.5}, "cb", 0.0, "b"),
            ({"c": 0.5}, "bc", 0.0, "c"),
            ({"new": 0.5}, ("new",), 0.0, None),
        ):
            with self.subTest(speeds=speeds, protected=protected, deviation=deviation):
                looks = {one: look(speed) for one, speed in speeds.items()}
                state = on_trial(PLAIN, deviation=deviation)
                told = trial.suffering(state, looks, frozenset(protected))
                self.assertEqual(loser, told and told.values["tenant"])
                if told:
                    self.assertEqual("would-lose", told.code)
                    self.assertAlmostEqual(1.0 - speeds[loser], told.values["loss"])
                    self.assertEqual(deviation or 0.05, told.values["limit"])

    def test_who_is_protected(self) -> None:
        """Lenders; owners of a device below a port whose writes bypass the LLC."""
        off = dataclasses.replace(PLAIN, dca_off=(ROOT,))
        lent = dataclasses.replace(PLAIN, lenders=("b",))
        both = dataclasses.replace(off, lenders=("b",))
        slow = {"c": 1.2, "b": 1.0, "d": 1.0}
        for before, after, loser, keep in (
            (PLAIN, off, "d", False),
            (off, PLAIN, "d", False),
            (PLAIN, off, "b", True),
            (PLAIN, lent, "b", False),
            (PLAIN, both, "b", False),
            (PLAIN, lent, "d", True),
            (PLAIN, dataclasses.replace(PLAIN, ddio=4), "d", True),
        ):
            with self.subTest(before=before, after=after, loser=loser):
                found = shown(on_trial(after, before), {**slow, loser: 0.9}, (C, B, D))
                self.assertEqual(keep, found.keep)
                self.assertEqual(keep, found.why.code != "would-lose")


class SwitchedTest(unittest.TestCase):
    def test_whose_lines_lie_elsewhere(self) -> None:
        """All readers with other ways of DDIO; owners behind or below the ports that changed."""
        aside, both = frozenset((DISK,)), frozenset((DISK, NIC))
        for before, after, expected in (
            ({}, {}, set()),
            ({}, {"confined": frozenset("b")}, set()),
            ({}, {"ddio": 4}, {"io", "d"}),
            ({"ddio": 4}, {}, {"io", "d"}),
            ({"ddio": 4, "aside": both}, {"aside": both}, {"io", "d"}),
            ({}, {"aside": aside}, {"d"}),
            ({"aside": aside}, {}, {"d"}),
            ({"aside": aside}, {"aside": both}, {"io"}),
            ({"aside": both}, {"aside": both}, set()),
            ({}, {"dca_off": (ROOT,)}, {"d"}),
            ({"dca_off": (ROOT,)}, {}, {"d"}),
            ({"dca_off": (ROOT,)}, {"dca_off": (ROOT, "0000:3a:00.0")}, {"io"}),
            ({"dca_off": (ROOT,)}, {"dca_off": (ROOT,), "clear": True}, set()),
        ):
            with self.subTest(before=before, after=after):
                was, plan = (dataclasses.replace(PLAIN, **one) for one in (before, after))
                inventory = DomainInventory(CACHE, (C, B, IO, D))
                self.assertEqual(expected, trial._switched(on_trial(plan, was), inventory))
