# SPDX-License-Identifier: Apache-2.0
"""Domain XML in the shapes Nova gives it: for tests and for the quick start's guests."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable, Mapping
from xml.sax.saxutils import escape, quoteattr

NOVA = "http://openstack.org/xmlns/libvirt/nova/1.1"
PROJECT = "99999999-0000-4000-8000-000000000001"


def uuid_of(name: str) -> str:
    """Return the same UUID for the same name, always."""
    return str(uuids.uuid5(uuids.NAMESPACE_URL, name))


def metadata(
    display_name: str,
    flavor: str = "m1",
    extra_specs: Mapping[str, str] | None = None,
    image_properties: Mapping[str, str] | None = None,
) -> str:
    """Return `<metadata>`; `extra_specs` None leaves the element out, as Nova below 32 does."""
    specs = "" if extra_specs is None else _pairs("extraSpecs", "extraSpec", extra_specs)
    image = "" if image_properties is None else _pairs("properties", "property", image_properties)
    return f"""
<metadata><nova:instance xmlns:nova="{NOVA}">
  <nova:package version="34.0.0"/>
  <nova:name>{escape(display_name)}</nova:name>
  <nova:flavor name={quoteattr(flavor)} id="1"><nova:vcpus>2</nova:vcpus>{specs}</nova:flavor>
  <nova:image uuid="11111111-1111-4111-8111-111111111111">{image}</nova:image>
  <nova:owner><nova:user uuid="u">u</nova:user>
    <nova:project uuid="{PROJECT}">p</nova:project></nova:owner>
</nova:instance></metadata>"""


def _pairs(parent: str, child: str, pairs: Mapping[str, str]) -> str:
    children = "".join(
        f"<nova:{child} name={quoteattr(name)}>{escape(value)}</nova:{child}>"
        for name, value in pairs.items()
    )
    return f"<nova:{parent}>{children}</nova:{parent}>"


def cputune(pins: Mapping[int, str], emulator: str | None = None, more: str = "") -> str:
    """Return `<cputune>` with a `<vcpupin>` for each vCPU named."""
    inner = "".join(f"<vcpupin vcpu='{vcpu}' cpuset='{cpus}'/>" for vcpu, cpus in pins.items())
    if emulator is not None:
        inner += f"<emulatorpin cpuset='{emulator}'/>"
    return f"<cputune>{inner}{more}</cputune>"


def domain(
    name: str,
    *,
    kind: str = "test",
    run: int | None = None,
    vcpus: int = 2,
    plugged: int | None = None,
    cpuset: str | None = None,
    meta: str = "",
    tune: str = "",
    numatune: str = "",
    devices: Iterable[str] = (),
    machine: str | None = None,
    memory_mib: int = 32,
) -> str:
    """Return a domain of type `kind`; `run` gives it the id that libvirt shows while it runs.

    `plugged`: how many of its vCPUs it starts with; None: all.
    """
    run_id = "" if run is None else f" id='{run}'"
    placement = "" if cpuset is None else f" placement='static' cpuset='{cpuset}'"
    current = "" if plugged is None else f" current='{plugged}'"
    machine_type = "" if machine is None else f" machine='{machine}'"
    return f"""<domain type='{kind}'{run_id}>
<name>{escape(name)}</name><uuid>{uuid_of(name)}</uuid>
<memory unit='MiB'>{memory_mib}</memory><vcpu{placement}{current}>{vcpus}</vcpu>
{meta}{tune}{numatune}
<os><type{machine_type}>hvm</type></os>
<devices>{"".join(devices)}</devices></domain>"""


def vf(mac: str, address: str = "0000:3b:02.1") -> str:
    """Return an SR-IOV interface (binding `hw_veb`)."""
    return (
        f"<interface type='hostdev' managed='yes'><mac address='{mac}'/>"
        f"<source>{_address(address, ' type=' + quoteattr('pci'))}</source></interface>"
    )


def pci_device(address: str = "0000:5e:00.0") -> str:
    """Return a device of a flavor's PCI alias, or a whole NIC."""
    return (
        "<hostdev mode='subsystem' type='pci' managed='yes'>"
        f"<source>{_address(address)}</source></hostdev>"
    )


def _address(text: str, attributes: str = "") -> str:
    domain_, bus, rest = text.split(":")
    slot, function = rest.split(".")
    return (
        f"<address{attributes} domain='0x{domain_}' bus='0x{bus}' slot='0x{slot}'"
        f" function='0x{function}'/>"
    )


def macvtap(mac: str, source: str = "eth9") -> str:
    """Return a VF by way of macvtap."""
    return (
        f"<interface type='direct'><mac address='{mac}'/>"
        f"<source dev='{source}' mode='passthrough'/></interface>"
    )


def vdpa(mac: str, node: str = "/dev/vhost-vdpa-0") -> str:
    """Return a vDPA interface."""
    return f"<interface type='vdpa'><mac address='{mac}'/><source dev='{node}'/></interface>"


def vhost_user(mac: str, target: str = "vhu12345678-90", folder: str = "/run/vhu") -> str:
    """Return an interface of OVS-DPDK."""
    return (
        f"<interface type='vhostuser'><mac address='{mac}'/>"
        f"<source type='unix' path='{folder}/{target}' mode='server'/><target dev='{target}'/>"
        "<model type='virtio'/></interface>"
    )


def ethernet(mac: str, target: str = "tap12345678-90", model: str = "virtio") -> str:
    """Return an interface of OVS as Nova writes it since 2021: without virtualport."""
    return (
        f"<interface type='ethernet'><mac address='{mac}'/><target dev='{target}'/>"
        f"<model type='{model}'/></interface>"
    )


def bridge(mac: str, source: str, target: str, interface_id: str | None = None) -> str:
    """Return a bridged interface; with `interface_id` as older releases plug OVS."""
    port = ""
    if interface_id is not None:
        port = (
            "<virtualport type='openvswitch'>"
            f"<parameters interfaceid='{interface_id}'/></virtualport>"
        )
    return (
        f"<interface type='bridge'><mac address='{mac}'/><source bridge='{source}'/>{port}"
        f"<target dev='{target}'/></interface>"
    )
