# SPDX-License-Identifier: Apache-2.0
"""Which guests the conditions of a class take, and which conditions take all that others take."""

import unittest

from iat_nova.model import AttachmentKind, DeviceModel, Priority
from iat_nova.nova.extra_specs import Io
from iat_nova.policy.rules import Asked, ClassRule, Match, WayBounds, model_of
from tests.unit.policy.hosts import attachment, guest

VF = guest(
    attachments=(attachment(AttachmentKind.VF),),
    image_properties={"os_type": "linux"},
    project_name="team",
)
ASKED = Asked(VF, {"hw:mem_page_size": "1GB", "iat:priority": "PC"}, (1,))

TAKEN = (
    {"extra_specs": {"hw:mem_page_size": ("2MB", "1*")}},
    {"image_properties": {"os_type": ("l?nux",)}},
    {"flavor": ("m2", "m1")},
    {"project": ("p[12]",)},
    {"project_name": ("team",)},
    {"instance": ("web",)},
    {"instance": ("instance-*",)},
    {"attachment": (AttachmentKind.TAP, AttachmentKind.VF)},
    {"model": (DeviceModel.SLICING,)},
    {"domain": ("0", "1")},
)
REFUSED = (
    {"extra_specs": {"hw:mem_page_size": ("2MB",)}},
    {"extra_specs": {"hw:cpu_policy": ("*",)}},
    {"image_properties": {"os_type": ("Linux",)}},
    {"image_properties": {"os_distro": ("*",)}},
    {"flavor": ("m2",)},
    {"project": ("team",)},
    {"project_name": ("p1",)},
    {"instance": ("we",)},
    {"attachment": (AttachmentKind.TAP,)},
    {"model": (DeviceModel.AGGREGATION,)},
    {"domain": ("0",)},
)


class TestReason(unittest.TestCase):
    def test_each_condition(self):
        """Met with the guest's value, or not met; as an exception the other way round."""
        for conditions in TAKEN:
            with self.subTest(conditions):
                reason = Match.of(**conditions).reason(ASKED)
                self.assertEqual("conditions-met", reason.code)
                self.assertEqual(1, len(reason.values["met"]))
                self.assertIsNone(Match.of(none_of=Match.of(**conditions)).reason(ASKED))
        for conditions in REFUSED:
            with self.subTest(conditions):
                self.assertIsNone(Match.of(**conditions).reason(ASKED))
                reason = Match.of(none_of=Match.of(**conditions)).reason(ASKED)
                self.assertEqual("conditions-not-met", reason.values["met"][0].code)

    def test_all_must_hold(self):
        """One condition that is not met refuses a guest that meets the others."""
        both = Match.of(flavor=("m1",), domain=("1",), none_of=Match.of(project=("p9",)))
        self.assertEqual(
            ["condition-met", "condition-met", "conditions-not-met"],
            [one.code for one in both.reason(ASKED).values["met"]],
        )
        for wrong in ({"flavor": ("m2",)}, {"domain": ("7",)}):
            self.assertIsNone(
                Match.of(**{"flavor": ("m1",), "domain": ("1",), **wrong}).reason(ASKED)
            )
        some = Match.of(project=("p9",), flavor=("m1",))  # any of them excludes
        self.assertIsNone(Match.of(none_of=some).reason(ASKED))

    def test_without_conditions(self):
        """Every guest; a value that is unknown meets no condition."""
        self.assertEqual("no-condition", Match().reason(ASKED).code)
        unknown = Asked(guest(flavor=None, image_properties=None), {})
        self.assertIsNone(Match.of(flavor=("*",)).reason(unknown))
        self.assertIsNone(Match.of(image_properties={"os_type": ("*",)}).reason(unknown))


class TestCovers(unittest.TestCase):
    def test_pairs(self):
        """Fewer or wider conditions cover; an exception covers the same exception alone."""
        narrow = Match.of(flavor=("m1", "m2"), project=("p1",))
        unless = Match.of(none_of=Match.of(flavor=("m9",)))
        for wide, other, expected in (
            (Match(), narrow, True),
            (narrow, Match(), False),
            (narrow, narrow, True),
            (Match.of(flavor=("m1", "m2", "m3")), narrow, True),
            (Match.of(flavor=("m1",)), narrow, False),
            (Match.of(flavor=("m?",)), narrow, True),
            (Match.of(flavor=("*",)), Match.of(flavor=("m*",)), True),
            (Match.of(flavor=("m?",)), Match.of(flavor=("m*",)), False),
            (Match.of(flavor=("m*",)), Match.of(flavor=("m*",)), True),
            (Match.of(project=("m*",)), Match.of(flavor=("m1",)), False),
            (Match.of(extra_specs={"a": ("*",)}), Match.of(extra_specs={"a": ("x",)}), True),
            (Match.of(extra_specs={"a": ("*",)}), Match.of(extra_specs={"b": ("x",)}), False),
            (Match.of(extra_specs={"a": ("*",)}), Match.of(image_properties={"a": ("x",)}), False),
            (unless, unless, True),
            (unless, narrow, False),
            (Match(), unless, True),
        ):
            with self.subTest(wide=wide, other=other):
                self.assertIs(expected, wide.covers(other))


class TestModel(unittest.TestCase):
    def test_of_a_guest(self):
        """The model of its devices."""
        self.assertIs(DeviceModel.SLICING, model_of(VF.attachments))


class TestValues(unittest.TestCase):
    def test_class(self):
        """A class limits no memory bandwidth and weighs its guests alike unless told otherwise."""
        rule = ClassRule("a", Match(), Priority.BE, Io.AUTO, WayBounds(1, 1))
        self.assertEqual((100, 1.0), (rule.bandwidth_min, rule.weight))
