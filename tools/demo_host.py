# SPDX-License-Identifier: Apache-2.0
"""The host of the quick start: five guests as Nova defines them, a switch, a NIC with a VF.

The CPUs and addresses are those of the scenario ``quickstart`` of the emulated server.
"""

from __future__ import annotations

import dataclasses
import pathlib
from xml.sax.saxutils import escape

NIC, VF = "0000:3b:00.0", "0000:3b:02.0"
PMD_CPU_MASK = "0xc"  # CPUs 2 and 3
DEDICATED, SHARED = "4-11", "12-15"
PROJECT = "3f9a2c54-0000-4000-8000-00000000aaaa"


@dataclasses.dataclass(frozen=True)
class Guest:
    """One guest: its number, its owner's name for it, its flavor, its CPUs, its device."""

    number: int
    name: str
    flavor: str
    extra_specs: dict[str, str]
    cpus: tuple[int, ...]  # empty: it floats over the shared set
    device: str  # libvirt's XML

    @property
    def uuid(self) -> str:
        """A UUID that a person can tell apart."""
        return f"{self.number:08d}-1a7a-4000-8000-{self.number:012d}"


def _mac(number: int) -> str:
    return f"<mac address='fa:16:3e:00:00:{number:02x}'/>"


def _vf(number: int) -> str:
    domain, bus, rest = VF.split(":")
    slot, function = rest.split(".")
    return (
        f"<interface type='hostdev' managed='yes'>{_mac(number)}<source><address type='pci' "
        f"domain='0x{domain}' bus='0x{bus}' slot='0x{slot}' function='0x{function}'/></source>"
        "</interface>"
    )


def _vhost_user(number: int, name: str) -> str:
    return (
        f"<interface type='vhostuser'>{_mac(number)}<source type='unix' "
        f"path='/run/openvswitch/{name}' mode='server'/><target dev='{name}'/>"
        "<model type='virtio'/></interface>"
    )


def _tap(number: int, name: str) -> str:
    return (
        f"<interface type='ethernet'>{_mac(number)}<target dev='{name}'/>"
        "<model type='virtio'/></interface>"
    )


_PINNED = {"hw:cpu_policy": "dedicated"}
_PC, _BE = _PINNED | {"iat:priority": "PC"}, _PINNED | {"iat:priority": "BE"}

GUESTS = (
    Guest(1, "web", "nfv.sriov", _PC | {"iat:io": "true"}, (4, 5), _vf(1)),
    Guest(2, "router", "nfv.vhost", _PC, (6, 7), _vhost_user(2, "vhu-router")),
    Guest(3, "db", "mem.pinned", _PC | {"iat:io": "false"}, (8, 9), _tap(3, "tap-db")),
    Guest(4, "batch", "batch.pinned", _BE, (10, 11), _tap(4, "tap-batch")),
    Guest(5, "dev", "m1.small", {}, (), _tap(5, "tap-dev")),
)


def domain_xml(guest: Guest, driver: str = "test") -> str:
    """Return the domain as Nova 32 and later write it."""
    specs = "".join(
        f"<nova:extraSpec name='{escape(key)}'>{escape(value)}</nova:extraSpec>"
        for key, value in guest.extra_specs.items()
    )
    if guest.cpus:
        vcpu = f"<vcpu placement='static'>{len(guest.cpus)}</vcpu>"
        pins = "".join(
            f"<vcpupin vcpu='{vcpu_number}' cpuset='{cpu}'/>"
            for vcpu_number, cpu in enumerate(guest.cpus)
        )
        emulator = ",".join(str(cpu) for cpu in guest.cpus)
        tune = f"<cputune>{pins}<emulatorpin cpuset='{emulator}'/></cputune>"
    else:
        vcpu, tune = f"<vcpu placement='static' cpuset='{SHARED}'>2</vcpu>", ""
    return f"""<domain type='{driver}'>
  <name>instance-{guest.number:08x}</name>
  <uuid>{guest.uuid}</uuid>
  <metadata>
    <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:package version="34.0.0"/>
      <nova:name>{escape(guest.name)}</nova:name>
      <nova:creationTime>2026-01-01 00:00:00</nova:creationTime>
      <nova:flavor name="{guest.flavor}" id="{guest.number}">
        <nova:memory>2048</nova:memory><nova:vcpus>2</nova:vcpus>
        <nova:extraSpecs>{specs}</nova:extraSpecs>
      </nova:flavor>
      <nova:owner>
        <nova:user uuid="{PROJECT}">demo</nova:user>
        <nova:project uuid="{PROJECT}">demo</nova:project>
      </nova:owner>
    </nova:instance>
  </metadata>
  <memory unit='MiB'>2048</memory>
  {vcpu}
  {tune}
  <os><type arch='x86_64'>hvm</type></os>
  <devices>{guest.device}</devices>
</domain>
"""


def switch_commands() -> list[str]:
    """Return the arguments of ovs-vsctl that make the switch: a NIC, and a port a guest."""
    commands = [
        f"set Open_vSwitch . other_config:dpdk-init=true other_config:pmd-cpu-mask={PMD_CPU_MASK}"
        " dpdk_initialized=true",  # as ovs-vswitchd would report
        "add-br br-int -- set bridge br-int datapath_type=netdev",
        "add-port br-int dpdk0 -- set interface dpdk0 type=dpdk"
        f" options:dpdk-devargs={NIC} options:n_rxq_desc=1024",
    ]
    for guest in GUESTS[1:]:
        vhost = guest.name == "router"
        port = "vhu-router" if vhost else f"tap-{guest.name}"
        commands.append(
            f"add-port br-int {port} -- set interface {port}"
            f" type={'dpdkvhostuserclient' if vhost else 'internal'}"
            f" external_ids:vm-uuid={guest.uuid}"
            f" external_ids:attached-mac=fa:16:3e:00:00:{guest.number:02x}"
        )
    return commands


def write_sysfs(root: pathlib.Path) -> None:
    """Write the few files of sysfs that tell of the emulated machine's CPUs and NIC."""
    cpu = root / "devices/system/cpu"
    cpu.mkdir(parents=True)
    (cpu / "online").write_text("0-17\n")
    devices = root / "bus/pci/devices"
    for address in (NIC, VF):
        folder = devices / address
        folder.mkdir(parents=True)
        (folder / "class").write_text("0x020000\n")
        (folder / "numa_node").write_text("0\n")
    (devices / VF / "physfn").symlink_to(f"../{NIC}")
    (devices / NIC / "net/ens1f0").mkdir(parents=True)
    net = root / "class/net/ens1f0"
    net.mkdir(parents=True)
    (net / "speed").write_text("40000\n")
