# SPDX-License-Identifier: Apache-2.0
"""Under Nova's Python: guests' domain XML from Nova's own libvirt configuration classes.

Metadata come from the libvirt driver's own method, interfaces from its VIF driver as far as that
needs no hardware; vCPU pins and NUMA are set as `LibvirtDriver._get_guest_numa_config` sets them.

In: {"guests": [{"name", "uuid", "flavor", "vcpus", "extra_specs", "cpuset", "pins", "emulator",
"cell", "image_properties", "devices"}, ...]}. Out: {name: XML}. Extra specs that are null are left
out, as Nova below 32 leaves them out.
"""

import json
import sys

import nova.conf
import os_vif
from lxml import etree
from nova import objects
from nova.network import model
from nova.virt import driver as virt_driver
from nova.virt.libvirt import config, designer, driver, vif

CONF = nova.conf.CONF
CONF([], project="nova", default_config_files=[], default_config_dirs=[])
objects.register_all()
os_vif.initialize()

PROJECT = "6f70656e737461636b206e6f766100aa"
PORT = "51515151-0000-4000-8000-000000000011"
MAC = "fa:16:3e:00:00:11"


def network_vif(vif_type, vnic_type="normal", details=None, profile=None):
    """Return a bound port as Nova's network code hands it to the VIF driver."""
    network = model.Network(
        id="aaaaaaaa-0000-4000-8000-000000000000", bridge="br-int", subnets=[], mtu=1500
    )
    return model.VIF(
        id=PORT, address=MAC, network=network, type=vif_type, vnic_type=vnic_type,
        devname=f"tap{PORT[:11]}", ovs_interfaceid=PORT, details=details or {},
        profile=profile or {},
    )  # fmt: skip


def interface(kind, instance, flavor, image):
    """Return the configuration of one device: from the VIF driver, or the designer below it."""
    ports = {
        "ethernet": network_vif("ovs"),
        "hybrid": network_vif("ovs", details={"port_filter": True, "ovs_hybrid_plug": True}),
        "vhostuser": network_vif(
            "vhostuser",
            details={
                "vhostuser_mode": "server",
                "vhostuser_socket": f"/var/run/openvswitch/vhu{PORT[:11]}",
                "vhostuser_ovs_plug": True,
            },
        ),
        "vf": network_vif(
            "hw_veb", "direct", {"vlan": "100"}, {"pci_slot": "0000:3b:02.1"}
        ),
        "pf": network_vif(
            "hostdev_physical", "direct-physical", profile={"pci_slot": "0000:3b:00.0"}
        ),
    }  # fmt: skip
    if kind in ports:
        return vif.LibvirtGenericVIFDriver().get_config(
            instance, ports[kind], image, flavor, "qemu"
        )
    device = config.LibvirtConfigGuestInterface()
    designer.set_vif_guest_frontend_config(device, MAC, "virtio", None, None, None, None)
    if kind == "vdpa":
        designer.set_vif_host_backend_vdpa_config(device, "/dev/vhost-vdpa-0")
    elif kind == "macvtap":
        designer.set_vif_host_backend_direct_config(device, "ens1f0v3", "passthrough")
    else:
        raise SystemExit(f"no such device: {kind}")
    return device


def metadata(guest, flavor, ports):
    """Return what LibvirtDriver writes into <metadata>."""
    image = "11111111-1111-4111-8111-111111111111"
    properties = guest.get("image_properties", {})
    return driver.LibvirtDriver._get_guest_config_meta(
        None,
        virt_driver.InstanceDriverMetadata(
            root_type="image",
            root_id=image,
            instance_meta=virt_driver.NovaInstanceMeta(f"vm-{guest['name']}", guest["uuid"]),
            owner=virt_driver.OwnerMeta("user", "admin", PROJECT, "admin"),
            image=virt_driver.ImageMeta(image, "empty", "bare", "raw", "0", "0", properties),
            flavor=virt_driver.FlavorMeta(
                name=flavor.name, flavorid=flavor.flavorid, memory_mb=flavor.memory_mb,
                vcpus=flavor.vcpus, root_gb=0, ephemeral_gb=0, swap=0,
                extra_specs=flavor.extra_specs,
            ),
            network_info=model.NetworkInfo(ports),
        ),
    )  # fmt: skip


def cputune(guest):
    """Return <cputune>: the pins by vCPU and the emulator's."""
    tune = config.LibvirtConfigGuestCPUTune()
    for vcpu, cpus in guest["pins"].items():
        pin = config.LibvirtConfigGuestCPUTuneVCPUPin()
        pin.id, pin.cpuset = int(vcpu), set(cpus)
        tune.vcpupin.append(pin)
    tune.emulatorpin = config.LibvirtConfigGuestCPUTuneEmulatorPin()
    tune.emulatorpin.cpuset = set(guest["emulator"])
    return tune


def numatune(host_cell):
    """Return <numatune> of the guest's one cell."""
    tune = config.LibvirtConfigGuestNUMATune()
    tune.memory = config.LibvirtConfigGuestNUMATuneMemory()
    node = config.LibvirtConfigGuestNUMATuneMemNode()
    tune.memory.nodeset = node.nodeset = [host_cell]
    tune.memnodes.append(node)
    return tune


def topology(asked):
    """Return <cpu> with one guest cell that holds all vCPUs."""
    cpu = config.LibvirtConfigGuestCPU()
    cpu.mode = "host-model"
    cpu.numa = config.LibvirtConfigGuestCPUNUMA()
    cell = config.LibvirtConfigGuestCPUNUMACell()
    cell.id, cell.cpus, cell.memory = 0, set(range(asked["vcpus"])), 128 * 1024
    cpu.numa.cells.append(cell)
    return cpu


def domain(asked):
    """Return one guest's XML."""
    flavor = objects.Flavor(
        name=asked["flavor"], flavorid="7", memory_mb=128, vcpus=asked["vcpus"],
        extra_specs=asked["extra_specs"] or {},
    )  # fmt: skip
    instance = objects.Instance(uuid=asked["uuid"], display_name=asked["name"], project_id=PROJECT)
    image = objects.ImageMeta.from_dict({"properties": asked.get("image_properties", {})})
    guest = config.LibvirtConfigGuest()
    guest.virt_type, guest.os_type = "test", "hvm"
    guest.uuid, guest.name = asked["uuid"], asked["name"]
    guest.memory, guest.vcpus = 128 * 1024, asked["vcpus"]
    guest.cpuset = set(asked["cpuset"]) if asked.get("cpuset") else None
    if asked.get("pins"):
        guest.cputune = cputune(asked)
    if asked.get("cell") is not None:
        guest.numatune, guest.cpu = numatune(asked["cell"]), topology(asked)
    guest.devices = [interface(kind, instance, flavor, image) for kind in asked.get("devices", ())]
    guest.metadata = [metadata(asked, flavor, [network_vif("ovs")])]
    xml = guest.to_xml()
    if asked["extra_specs"] is None:
        # What releases below 32 write; they have no element for extra specs at all.
        root = etree.fromstring(xml)
        (specs,) = root.iter(f"{{{config.NOVA_NS}}}extraSpecs")
        specs.getparent().remove(specs)
        xml = etree.tostring(root, encoding="unicode")
    return xml


print(json.dumps({each["name"]: domain(each) for each in json.loads(sys.argv[1])["guests"]}))
