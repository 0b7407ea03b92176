# SPDX-License-Identifier: Apache-2.0
"""What of a picture of the host lasts."""

import dataclasses
import typing
import unittest

from iat_nova.model import (
    Attachment,
    AttachmentKind,
    Facts,
    Guest,
    HostFacts,
    PmdThread,
    SwitchPort,
    VirtualSwitch,
)

# Numbers of a host that stay until somebody changes it.
LASTING = {
    *("id", "cpus", "ways", "classes", "min_ways", "way_bytes", "numa_nodes", "numa_node"),
    *("online_cpus", "dedicated_cpus", "floating_cpus", "emulator_cpus", "pmd_cpus"),
    *("run", "rx_descriptors", "rx_queues", "mtu", "speed_gbps", "least", "step", "most"),
}


def look(value: int) -> Facts:
    """Return one look at a host of which everything that changes by itself has a value."""
    attachment = Attachment(
        AttachmentKind.TAP, "tap1", packets=value, packets_per_s=float(value), numa_node=1
    )
    guest = Guest("u", 1, "i-1", "web", None, None, None, (4,), (), attachments=(attachment,))
    port = SwitchPort("tap1", "br-int", "system", packets=value, drops=value, mtu=1500)
    thread = PmdThread(2, value / 10, value, value, value)
    switch = VirtualSwitch({}, (port,), (2,), pmd_threads=(thread,), drops_per_s=float(value))
    host = HostFacts("h", (), (2, 4), hour=value, weekday=("mon", "tue")[value])
    return Facts(host, (guest,), switch)


def numbers(kind, seen):
    """Yield the names of fields with numbers in a type, and in those of its fields."""
    if dataclasses.is_dataclass(kind) and kind not in seen:
        seen.add(kind)
        for name, hint in typing.get_type_hints(kind).items():
            inner = {hint, *typing.get_args(hint)}
            inner |= {one for part in inner for one in typing.get_args(part)}
            if inner & {int, float}:
                yield name
            for one in inner:
                yield from numbers(one, seen)


class TestLasting(unittest.TestCase):
    def test_two_looks_at_traffic(self):
        """What was counted, and when, differs; what lasts does not, and is there."""
        self.assertNotEqual(look(0), look(1))
        self.assertEqual(look(0).lasting, look(1).lasting)
        ((attachment,),) = (guest.attachments for guest in look(1).lasting.guests)
        self.assertEqual(
            ("tap1", 1, None), (attachment.device, attachment.numa_node, attachment.packets)
        )
        silent = dataclasses.replace(look(0), warnings=("a source is silent",))
        self.assertNotEqual(look(0).lasting, silent.lasting)

    def test_every_number(self):
        """Of a new one somebody has to say whether it lasts; if not, `look` gives it values."""
        changing = {"packets", "packets_per_s", "drops", "drops_per_s", "hour"}
        changing |= {field.name for field in dataclasses.fields(PmdThread)} - {"cpu"}
        self.assertEqual(LASTING | changing | {"cpu"}, set(numbers(Facts, set())))
