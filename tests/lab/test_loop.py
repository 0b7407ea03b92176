# SPDX-License-Identifier: Apache-2.0
"""Figure 7's examples with the loop closed across a real kernel."""

import contextlib
import dataclasses
import functools
import json
import math
import tempfile
from pathlib import Path

from iat_nova.experiments.runs.run import run as emulate
from iat_nova.experiments.scenarios.reader import load_scenario
from iat_nova.hardware.cat import limits
from iat_nova.model import AttachmentKind
from iat_nova.store.reader import HistoryReader
from iat_nova.strategies.registry import DEFAULT
from tests.lab import lab
from tests.lab.feeder import Feeder
from tests.lab.registers import Registers
from tools import demo_host

_MAC = "<mac address='fa:16:3e:00:00:{number:02x}'/>"
_DEVICE = {
    AttachmentKind.VF: "<interface type='hostdev' managed='yes'>" + _MAC + "<source>"
    "<address type='pci' domain='0x0000' bus='0x3b' slot='0x02' function='0x0'/></source>"
    "</interface>",
    AttachmentKind.VHOST_USER: "<interface type='vhostuser'>" + _MAC + "<source type='unix' "
    "path='/run/openvswitch/{device}' mode='server'/><target dev='{device}'/>"
    "<model type='virtio'/></interface>",
}


def guests_of(scenario):
    """Return the scenario's guests as those of a compute host."""
    return tuple(
        demo_host.Guest(
            number,
            guest.display_name,
            "m1.small",
            dict(guest.extra_specs, **{"hw:cpu_policy": "dedicated"}),
            guest.dedicated_cpus,
            "".join(
                _DEVICE[one.kind].format(number=number, device=one.device)
                for one in guest.attachments
            ),
        )
        for number, guest in enumerate(scenario.guests, start=1)
    )


def switch_of(scenario, guests):
    """Return the arguments of ovs-vsctl that make the scenario's switch."""
    switch = scenario.facts().switch
    if switch is None:
        return []
    mask = sum(1 << cpu for cpu in switch.pmd_cpus)
    commands = [
        f"set Open_vSwitch . other_config:dpdk-init=true other_config:pmd-cpu-mask={mask:#x}"
        " dpdk_initialized=true",
        "add-br br-int -- set bridge br-int datapath_type=netdev",
    ]
    by_uuid = {guest.uuid: one for guest, one in zip(scenario.guests, guests, strict=True)}
    for port in switch.ports:
        more = f" options:dpdk-devargs={port.cards[0]}" if port.cards else ""
        if port.vm_uuid:
            guest = by_uuid[port.vm_uuid]
            more += (
                f" external_ids:vm-uuid={guest.uuid}"
                f" external_ids:attached-mac=fa:16:3e:00:00:{guest.number:02x}"
            )
        commands.append(
            f"add-port br-int {port.name} -- set interface {port.name} type={port.type}{more}"
        )
    return commands


MISSES_LOW = "threshold_miss_low_per_s"


def described(scenario):
    """Return what the guest must be told."""
    guests = guests_of(scenario)
    keys = {MISSES_LOW: "threshold_miss_low"}  # in a policy's file, where these are others
    parameters = "".join(f"  {keys.get(key, key)}: {n}\n" for key, n in scenario.policy.items())
    return {
        "guests": [dataclasses.asdict(guest) for guest in guests],
        "switch": switch_of(scenario, guests),
        "dedicated": ",".join(str(cpu) for guest in guests for cpu in guest.cpus),
        "policy": f"parameters:\n{parameters}",
        "options": {"strategy": scenario.strategy, "cha_slices": 1},
        "seconds": scenario.length_s,
    }


def _masks(moment):
    """Return the masks of all CPUs at a moment."""
    return tuple(moment.cpus.values())


class Closed(lab.GuestCase):
    """Has the real agent decide in the guest on what an emulated server here counts."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()

    def check_two_sockets(self, name, strategy=None):
        """Run a scenario on the first of two sockets."""
        seen = self.check(name, sockets=2, strategy=strategy)
        self.assertEqual({0x600}, {int(one.ddio) for one in seen[1]})

    def check(self, name, *, sockets, strategy=None, misses_low_per_s=None):
        """Run a scenario; what the kernel did is what was decided, and as without a kernel."""
        scenario = load_scenario(name)
        if misses_low_per_s is not None:
            policy = {**scenario.policy, MISSES_LOW: misses_low_per_s}
            scenario = dataclasses.replace(scenario, policy=policy)
        if strategy is not None:
            scenario = dataclasses.replace(scenario, strategy=strategy)
        ((done, inventories),), feeder = self.go_through(
            described(scenario),
            functools.partial(Feeder, scenario=scenario, sockets=sockets),
            sockets=sockets,
            cpus=18 * sockets,
        )
        seen = feeder.seen
        self.compare_registers(done, inventories, seen[0])
        self.assertEqual(
            [number for _, number in emulate(scenario).transitions],
            [one.decision.rule for one in done if one.decision.rule is not None],
        )
        different = {one.ddio for one in seen[0]} | {*map(_masks, seen[0])}
        self.assertGreater(len(different), 3 if scenario.strategy == "iat" else 2)
        return seen

    def go_through(self, told, behind, *, domains=(0,), module="loop", **shape):
        """Have the agent decide in a guest of that shape on what `behind` feeds.

        Returns its iterations in each of these cache domains with that domain's inventories by
        their rows in the history; and the feeder.
        """
        with tempfile.TemporaryDirectory(prefix="iat-nova-loop-") as folder:
            share = Path(folder)
            feeders = []
            beside = functools.partial(self.beside, told, behind, feeders)
            self.guest(module, least=1, share=share, beside=beside, **shape)
            with HistoryReader(share / "history.sqlite") as reader:
                found = [self.in_domain(reader, domain) for domain in domains]
        return found, feeders[-1]

    @staticmethod
    def in_domain(reader, domain):
        """Return a cache domain's iterations in a history, and its inventories by their rows."""
        done = [one.iteration for one in reader.between(0.0, math.inf, domain)]
        rows = {one.inventory_id for one in done}
        return done, {row: reader.inventory(row).domains[domain] for row in rows}

    @contextlib.contextmanager
    def beside(self, told, behind, feeders, share):
        """Describe the host and feed a guest that is about to start."""
        (share / "host.json").write_text(json.dumps(told))
        with (
            contextlib.closing(Registers(share / "shm")) as registers,
            behind(registers, folder=share) as feeder,
        ):
            feeders.append(feeder)
            yield

    def compare_registers(self, done, inventories, seen, least=60):
        """At each second the registers hold the layout of the last decision, coerced ways too."""
        self.assertTrue(done, "the agent decided nothing")
        decided = {round(one.at_s, 3): one for one in done}
        compared = 0
        for moment in seen:
            one = decided.get(round(moment.at_s, 3))
            if one is None:
                continue
            inventory = inventories[one.inventory_id]
            compared += 1
            where = f"in the register of domain {one.domain} at {moment.at_s} s"
            self.assertEqual(one.decision.layout.ddio, moment.ddio, f"DDIO's ways {where}")
            for tenant in inventory.tenants:
                want = one.decision.layout.mask_of(tenant.id)
                want = limits.effective(inventory.domain, want)
                for cpu in tenant.cpus:
                    message = f"{tenant.name}'s mask, CPU {cpu}, {where}"
                    self.assertEqual(want, moment.cpus[cpu], message)
        self.assertNotIn(None, [one.effective for one in done], "it observed only")
        self.assertGreaterEqual(compared, least)


class Loop(Closed):
    """Both figures; tests/lab_full has the second one on a single socket."""

    def test_aggregation_on_one_socket(self):
        """Figure 7 A: the flow table outgrows the switch's ways; core demand, then back.

        With the policy's own threshold the sample in which the flows come, 1.00 M DDIO misses a
        second, would be on this side of it or on that by the rounding of the registers.
        """
        self.check("figure7-a", sockets=1, misses_low_per_s=1.5e6)

    def test_slicing_on_two_sockets(self):
        """Figure 7 B on the first of two sockets; the second one's ways of DDIO stay."""
        self.check_two_sockets("figure7-b")

    def test_aggregation_on_two_sockets(self):
        """The default strategy on figure 7 A's load; the second socket's ways of DDIO stay."""
        self.check_two_sockets("figure7-a", DEFAULT)
