# SPDX-License-Identifier: Apache-2.0
import unittest

from iat_nova.inventory.cpu_policy import emulator_policy, is_silent, promised_vcpus

ALL = {0, 1, 2, 3}


class PromisedVcpusTest(unittest.TestCase):
    def test_rules(self):
        """Flavor, then image, then requested resources tell; silence tells nothing."""
        cases = [
            (None, {}, None),
            (None, None, None),
            ({}, {}, None),
            ({"hw:cpu_policy": "dedicated"}, {}, ALL),
            ({"hw:cpu_policy": "shared"}, {}, set()),
            ({}, {"hw_cpu_policy": "dedicated"}, ALL),
            (None, {"hw_cpu_policy": "dedicated"}, ALL),
            ({"hw:cpu_policy": "dedicated"}, {"hw_cpu_policy": "shared"}, ALL),
            ({"resources:PCPU": "4"}, {}, ALL),
            ({"resources1:PCPU": "4"}, {}, ALL),
            ({"resources:VCPU": "4"}, {}, set()),
            ({"resources:PCPU": "0"}, {}, None),
            ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}, {}, {1, 2, 3}),
            ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "2-3"}, {}, {2, 3}),
            ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "2-9"}, {}, {2, 3}),
            ({"hw:cpu_policy": "mixed", "hw:cpu_realtime_mask": "^0-1"}, {}, {2, 3}),
            ({"hw:cpu_policy": "mixed"}, {"hw_cpu_realtime_mask": "3"}, {3}),
            (None, {"hw_cpu_policy": "mixed"}, None),
        ]
        for specs, image, expected in cases:
            with self.subTest(specs=specs, image=image):
                self.assertEqual(expected, promised_vcpus(4, specs, image))

    def test_unknown_number_of_vcpus(self):
        """A guest whose number of vCPUs is unknown is promised none by a mask."""
        specs = {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}
        self.assertEqual(frozenset(), promised_vcpus(0, specs, {}))

    def test_silent(self):
        """Only a flavor and an image that are both known can be said to be silent."""
        cases = [
            ({}, {}, True),
            ({"iat:priority": "PC"}, {"hw_cpu_cores": "2"}, True),
            (None, {}, False),
            ({}, None, False),
            ({"hw:cpu_policy": "shared"}, {}, False),
            ({"resources:PCPU": "1"}, {}, False),
            ({}, {"hw_cpu_policy": "mixed"}, False),
        ]
        for specs, image, expected in cases:
            with self.subTest(specs=specs, image=image):
                self.assertEqual(expected, is_silent(specs, image))

    def test_nonsense(self):
        """A policy or a mask that Nova would refuse is refused here too."""
        for specs in (
            {"hw:cpu_policy": "bogus"},
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "first"},
        ):
            with self.subTest(specs), self.assertRaises(ValueError):
                promised_vcpus(4, specs, {})

    def test_emulator_threads(self):
        """The flavor's policy; None without one, and where the flavor is unknown."""
        key = "hw:emulator_threads_policy"
        for specs, expected in (({key: "share"}, "share"), ({}, None), (None, None)):
            with self.subTest(specs):
                self.assertEqual(expected, emulator_policy(specs))
