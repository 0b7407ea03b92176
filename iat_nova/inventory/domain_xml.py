# SPDX-License-Identifier: Apache-2.0
"""Convert libvirt's domain XML to values. Pure; no content of a domain raises an exception.

A `LibvirtDomain` describes one guest by itself. Dedicated CPUs can only be determined beside all
other guests: `iat_nova.inventory.pinning`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from iat_nova.common.cpulist import parse_cpus
from iat_nova.common.untrusted import bounded_int, shortened
from iat_nova.inventory import attachments, nova_metadata
from iat_nova.inventory.attachments import XmlDevice
from iat_nova.inventory.nova_metadata import NovaMetadata
from iat_nova.model import Message, message
from iat_nova.model.message import as_message

_MOST_VCPUS = 16384  # QEMU's machines end at 4096; a slip must not use up memory
_MOST = 2**31 - 1  # libvirt's ids are C integers


@dataclasses.dataclass(frozen=True, slots=True)
class LibvirtDomain:
    """One domain as described by its live XML.

    `run` is libvirt's id, None for a domain that does not run (a stopped guest keeps its pins in
    the XML). `vcpus` is the maximum number of vCPUs, `unplugged` the vCPUs that are not plugged
    now. An unplugged vCPU runs nowhere, with or without a pin. `pins` holds only the vCPUs with a
    `<vcpupin>`; other vCPUs float over `cpuset`, or over all CPUs if `cpuset` is None. An
    unreadable pin or `cpuset` is empty. `emulator_cpus` are the CPUs to which the emulator and the
    I/O threads are pinned.
    """

    uuid: str
    run: int | None
    name: str
    vcpus: int = 0
    unplugged: frozenset[int] = frozenset()
    pins: Mapping[int, frozenset[int]] = dataclasses.field(default_factory=dict)
    cpuset: frozenset[int] | None = None
    emulator_cpus: frozenset[int] = frozenset()
    numa_nodes: frozenset[int] = frozenset()
    devices: tuple[XmlDevice, ...] = ()
    cachetune: bool = False
    nova: NovaMetadata | None = None
    warnings: tuple[Message, ...] = ()

    @property
    def plugged(self) -> frozenset[int]:
        """The vCPUs that are plugged now."""
        return frozenset(range(self.vcpus)) - self.unplugged


def parse(xml: str, *, uuid: str, name: str, run: int | None) -> LibvirtDomain:
    """Parse a domain's live XML.

    `uuid`, `name` and `run` come from libvirt's handle. `run` is used only if the XML cannot be
    read. Otherwise the XML's own id counts, because it is as recent as the rest of the XML.
    """
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        unreadable = message("domain-xml-unreadable", error=str(error))
        return LibvirtDomain(uuid, run, name, warnings=(unreadable,))
    return _Reading(root, uuid, name).domain()


class _Reading:
    """One pass over a domain's XML, with warnings about unreadable parts."""

    def __init__(self, root: ElementTree.Element, uuid: str, name: str) -> None:
        self._root = root
        self._uuid = uuid
        self._name = name
        self._warnings: list[Message] = []

    def domain(self) -> LibvirtDomain:
        nova = nova_metadata.parse(self._root)
        if nova is None:
            self._warnings.append(message("nova-metadata-absent"))
        devices, unknown_devices = attachments.parse(self._root)
        vcpu = self._root.find("vcpu")
        cpuset = None if vcpu is None else vcpu.get("cpuset")
        vcpus = self._number(self._root.findtext("vcpu"), "number of vCPUs", _MOST_VCPUS) or 0
        return LibvirtDomain(
            uuid=self._uuid,
            run=self._number(self._root.get("id"), "domain id"),
            name=self._name,
            vcpus=vcpus,
            unplugged=self._unplugged(vcpus),
            pins=dict(self._pins()),
            cpuset=None if cpuset is None else self._list(cpuset, "vcpu cpuset"),
            emulator_cpus=self._union("cputune/emulatorpin") | self._union("cputune/iothreadpin"),
            numa_nodes=self._union("numatune/memnode", "nodeset")
            or self._union("numatune/memory", "nodeset"),
            devices=devices,
            cachetune=self._allocates_cache(),
            nova=nova,
            warnings=(*self._warnings, *unknown_devices, *(nova.warnings if nova else ())),
        )

    def _unplugged(self, vcpus: int) -> frozenset[int]:
        """Return the vCPUs that are not plugged.

        `<vcpus>` names each vCPU with its state. Without this list the first `current` vCPUs of
        `<vcpu current=...>` are plugged (libvirt, "CPU Allocation").
        """
        states = self._root.findall("vcpus/vcpu")
        if states:
            named = (
                self._number(state.get("id"), "vcpus vcpu id", _MOST_VCPUS)
                for state in states
                if state.get("enabled") == "no"
            )
            return frozenset(vcpu for vcpu in named if vcpu is not None and vcpu < vcpus)
        vcpu = self._root.find("vcpu")
        if vcpu is None or not vcpus:
            return frozenset()
        current = self._number(vcpu.get("current"), "vcpu current", vcpus)
        return frozenset(range(current or vcpus, vcpus))

    def _pins(self) -> Iterator[tuple[int, frozenset[int]]]:
        for pin in self._root.iterfind("cputune/vcpupin"):
            vcpu = self._number(pin.get("vcpu"), "vcpupin vcpu")
            cpus = self._list(pin.get("cpuset", ""), "vcpupin cpuset")
            if vcpu is not None:
                yield vcpu, cpus

    def _allocates_cache(self) -> bool:
        """Tell whether libvirt programs CAT or MBA for a domain; `<monitor>` only monitors."""
        tune = ("cputune/cachetune/cache", "cputune/memorytune/node")
        return any(self._root.find(path) is not None for path in tune)

    def _union(self, path: str, attribute: str = "cpuset") -> frozenset[int]:
        sets = (
            self._list(element.get(attribute, ""), f"{path} {attribute}")
            for element in self._root.iterfind(path)
        )
        return frozenset[int]().union(*sets)

    def _list(self, text: str, what: str) -> frozenset[int]:
        try:
            return parse_cpus(text)
        except ValueError as error:
            said = message("domain-cpus-ignored", part=what, error=as_message(error))
            self._warnings.append(said)
            return frozenset()

    def _number(self, text: str | None, what: str, most: int = _MOST) -> int | None:
        if text is None:
            return None
        number = bounded_int(text, most)
        if number is None:
            said = message("domain-number-invalid", part=what, found=shortened(text), most=most)
            self._warnings.append(said)
        return number
