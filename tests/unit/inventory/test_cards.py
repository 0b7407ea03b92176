# SPDX-License-Identifier: Apache-2.0
"""The cards behind ports of Open vSwitch, in each spelling of its documentation and of DPDK's."""

import functools
import tempfile
import unittest

from hypothesis import given
from hypothesis import strategies as st

from iat_nova import policy
from iat_nova.inventory.pci import Pci
from iat_nova.model import (
    CacheDomain,
    DcaPort,
    DevicePort,
    DomainInventory,
    Facts,
    HostFacts,
    Parameters,
    Priority,
    Rates,
    Sample,
    VirtualSwitch,
    WayMask,
    message,
)
from iat_nova.report import advice
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import arrivals, moves
from iat_nova.strategies.pollute_buffer.plan import Plan
from iat_nova.strategies.pollute_buffer.view import View
from tests.unit.build import tenant
from tests.unit.inventory.test_ovs import bridge, interface, read
from tests.unit.inventory.test_pci import BOUND, DISK, PF, VF, Sysfs

MAC, VF_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
FAR = "0000:af:00.0"
ROOT = DcaPort("0000:3a:00.0", (PF, VF, BOUND))
OTHER = DcaPort("0000:ae:00.0", (FAR,))


def setUpModule():
    global PCI, HOST, POLICY  # noqa: PLW0603 - one sysfs for all examples
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    sysfs = Sysfs(folder.name)
    (sysfs.path(PF) / "net/eth0/address").write_text(f"{MAC}\n")
    (sysfs.path(VF) / "net/eth9/address").write_text(f"{VF_MAC.upper()}\n")
    sysfs.device(FAR, "0x020000", node=0, net="ens2", mbps="100000")
    for name, lower in (("bond0", ("eth0", "ens2")), ("bond0.7", ("bond0",)), ("loop0", ())):
        path = sysfs.root / "devices/virtual/net" / name
        path.mkdir()
        sysfs.link(sysfs.root / "class/net" / name, path)
        for one in lower:
            (path / f"lower_{one}").symlink_to(sysfs.root / "class/net" / one)
    (sysfs.path(BOUND) / "mlx5_core.sf.2").mkdir()
    sysfs.link(sysfs.root / "bus/auxiliary/devices/mlx5_core.sf.2",
               sysfs.path(BOUND) / "mlx5_core.sf.2")  # fmt: skip
    PCI = Pci(sysfs.root)

    def domain(number, root):
        ports = (DevicePort(root.devices[0], root.devices),)
        return CacheDomain(
            number, tuple(range(8 * number, 8 * number + 8)), 11, 16, way_bytes=1 << 20,
            ddio_found=WayMask(0x600), numa_nodes=(1 - number,), device_ports=ports,
            dca_ports=(root,),
        )  # fmt: skip

    HOST = HostFacts("h", (domain(0, ROOT), domain(1, OTHER)), tuple(range(16)), PCI.nics())
    POLICY = policy.default(HOST)


def switch(device, name="dpdk0", kind="dpdk"):
    options = {} if device is None else {"dpdk-devargs": device}
    tables = read(bridge("br", "netdev", interface(name, kind, **options)))
    return VirtualSwitch(tables.bridges, tables.ports, (2,), "pmd-rxq-show")


def cards(device, name="dpdk0", kind="dpdk"):
    return switch(device, name, kind).resolved(PCI.cards).ports[0].cards


@functools.cache
def outcome(device, name="dpdk0", kind="dpdk"):
    """Return tenants, moves and advice of a host with this port, and a guest's VF beside it."""
    facts = Facts(HOST, (), switch(device, name, kind).resolved(PCI.cards))
    found = POLICY.classify(facts, {}).domains
    rings = [len(advice.advise(facts, one, 2, Parameters()).rings) for one in HOST.domains]
    return [(one.tenants, one.elsewhere) for one in found.values()], [*moved(found)], rings


def moved(found):
    """Return the moves of ports offered in each domain, and what stays of moves made before."""
    for number, inventory in found.items():
        root = inventory.domain.dca_ports[0]
        vf = tenant("vf", 8 * number + 5, devices=(root.devices[0], VF), ports=(root.devices[0],))
        rest = tenant("pc", 8 * number + 6, priority=Priority.PC, io=True)
        seen = DomainInventory(
            inventory.domain, (*inventory.tenants, vf, rest), inventory.elsewhere
        )
        rates = {one.id: Rates(2e9, 2e9, 1.5e6, 1e6) for one in seen.tenants}
        rates["pc"] = Rates(2e9, 2e9, 8e7, 1e6)
        sample = Sample(0, 1.0, 1.0, rates, 9e6, 3e6)
        looks = readings.look(seen.tenants, sample)
        view = View(seen, Parameters(), sample, looks, None, settled=True)
        plan = Plan(frozenset(), 2, 2)
        wanted = moves.FAMILIES.keys() - {"port-dca", "ports-aside"}
        kept = arrivals.ports_in_use(
            Plan(frozenset(), 2, 2, dca_off=(root.address,), aside=frozenset(vf.ports)), seen
        )
        codes = [move.what.code for _, move in moves.candidates(view, plan, wanted)]
        yield sorted(codes), kept.dca_off, kept.aside


def at_any_port(found):
    return any(codes or off or aside for codes, off, aside in found)


@st.composite
def spellings(draw):
    """Draw one of the spellings of the card `PF`, with arguments."""
    arguments = draw(st.lists(st.sampled_from((
        "representor=[0]", "representor=vf[0-7,9]", "representor=pf0vf1", "representor=sf[0-3]",
        "dv_flow_en=2", "dv_esw_en=1", "txq_inline=128", "mac=00:00:00:00:00:09", "iface=loop0",
    )), max_size=3))  # fmt: skip
    address = draw(st.sampled_from((PF, PF[5:], "0:3b:0.0")))
    mac = draw(st.sampled_from((MAC, MAC.replace(":", ""), MAC.replace(":", "-"))))
    plain = [f"{bus}{address}" for bus in ("", "pci:", "PCI/")]
    layers = [f"bus=pci,{key}={address}" for key in ("addr", "id")]
    by_mac = [f"class=eth,mac={mac}", f"bus=pci/class=eth,mac={mac}"]
    text = draw(st.sampled_from((*plain, *layers, *by_mac)))
    if "=" in text and draw(st.booleans()):
        text += "/driver=net_mlx5"
    text = ",".join((text, *arguments))
    keys = ("bus", "pci", "addr", "id", "class", "eth", "mac", "driver", "representor")
    if draw(st.booleans()) and not any(key in text for key in keys):
        text = text.upper()
    return draw(st.sampled_from(("", " "))) + text


class SpellingTest(unittest.TestCase):
    @given(spellings())
    def test_one_device(self, text):
        """One device in any spelling, with any arguments: the same tenants, moves and advice."""
        self.assertEqual(outcome(PF), outcome(text))

    def test_cards(self):
        """Interfaces, virtual devices and other types of ports, as far as they have a card."""
        for device, expected in (
            (VF, (VF, PF)),
            (VF.upper(), (VF, PF)),
            (DISK, (DISK,)),
            ("0000:ff:00.0", ("0000:ff:00.0",)),
            ("10000:01:00.0", ("10000:01:00.0",)),
            (f"class=eth,mac={VF_MAC}", (VF, PF)),
            ("eth_af_packet0,iface=eth0", (PF,)),
            ("vdev:net_af_packet7,iface=bond0.7,blocksz=4096", (FAR, PF)),
            ("bus=vdev,name=net_af_packet0/driver=net_af_packet,iface=eth0", (PF,)),
            ("net_af_xdp0,iface=ens2,start_queue=1", (FAR,)),
            ("net_pcap0,rx_iface=eth0,tx_iface=tap0", (PF,)),
            ("net_pcap0,rx_pcap=a.pcap", ()),
            ("net_tap0,iface=dtap0", ()),
            ("net_tap_x,remote=eth0", (PF,)),
            ("eth_null0", ()),
            ("net_ring0", ()),
            ("net_vhost0,iface=/run/vhu1,queues=1", ()),
            ("virtio_user0,path=/dev/vhost-net,iface=v0", ()),
            ("net_virtio_user0,path=/dev/vhost-vdpa-0", (VF, PF)),
            (f"net_bonding0,mode=2,slave={PF[5:]},member={FAR},xmit_policy=l34", (PF, FAR)),
            (f"net_failsafe0,dev({PF},dv_flow_en=1),dev(net_tap0,remote=ens2)", (PF, FAR)),
            (f"net_vdev_netvsc0,mac={MAC.upper()}", (PF,)),
            ("auxiliary:mlx5_core.sf.2", (BOUND,)),
            ("bus=auxiliary,name=mlx5_core.sf.2", (BOUND,)),
            # unknown
            ("class=eth,mac=02:00:00:00:00:09", None),
            ("class=eth,mac=00:11:22:33:44:55:01", None),
            ("bus=pci/class=eth/driver=ice,representor=[0-3]", None),
            ("eth_af_packet0,iface=gone0", None),
            ("eth_af_packet0", None),
            ("net_bonding0,mode=1,slave=0", None),
            (f"net_failsafe0,dev({PF}),exec(/bin/true)", None),
            ("net_softnic0", None),
            ("dpni.2", None),
            ("../../3b", None),
            ("eth_af_packet0,iface=..", None),
        ):
            with self.subTest(device):
                self.assertEqual(expected, cards(device))
        for name, kind, expected in (
            ("eth0", "dpdk", (PF,)),
            ("dpdk0", "dpdk", None),
            ("ens2", "afxdp", (FAR,)),
            ("bond0", "", (FAR, PF)),
            ("eth9", "afxdp-nonpmd", (VF, PF)),
            ("tap0", "system", ()),
            ("gone0", "system", None),
            ("dpdkr0", "dpdkr", ()),
            ("vhu1", "dpdkvhostuserclient", ()),
            ("vx", "vxlan", ()),
            ("x", "some-type-of-tomorrow", None),
        ):
            with self.subTest(name, kind=kind):
                self.assertEqual(expected, cards(None, name, kind))

    def test_of_a_host_without_sysfs(self):
        """An emulated host, and a file of facts, know cards by name, MAC and address."""
        for device, name in (
            ("3B:00.0,a=b", "dpdk0"), (None, "eth0"), (f"class=eth,mac={MAC}", "dpdk0"),
        ):  # fmt: skip
            (port,) = Facts(HOST, (), switch(device, name)).switch.ports
            self.assertEqual(((PF,), None), (port.cards, port.dpdk_device))


class UnknownTest(unittest.TestCase):
    def test_an_unknown_card_may_be_any(self):
        """No port is moved in any cache domain, moves made before are undone, a warning tells."""
        self.assertTrue(at_any_port(outcome(DISK)[1]))
        for device in ("class=eth,mac=02:00:00:00:00:09", None):
            found, ports, rings = outcome(device)
            self.assertFalse(at_any_port(ports))
            self.assertEqual([1, 1], rings)
            told = message("port-card-unknown", port="dpdk0", device=device or "dpdk0")
            self.assertEqual((told,), found[0][0][0].warnings)

    def test_a_card_of_another_domain(self):
        """A port stays where an owner of its devices has no CPU in the domain."""
        here, there = outcome(FAR)[1]
        self.assertTrue(at_any_port([here]))
        self.assertFalse(at_any_port([there]))

    def test_a_port_that_was_not_opened(self):
        """It has no device, whatever its options say."""
        port = interface("dpdk0", "dpdk", **{"dpdk-devargs": "net_softnic0"})
        port.ofport = [-1]
        tables = read(bridge("br", "netdev", port))
        self.assertEqual((), tables.ports[0].cards)
