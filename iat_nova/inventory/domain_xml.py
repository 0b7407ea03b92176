# SPDX-License-Identifier: Apache-2.0
"""Convert libvirt's domain XML to values. Pure; no content of a domain raises an exception.

A `LibvirtDomain` describes one guest by itself. Dedicated CPUs can only be determined beside all
other guests: `iat_nova.inventory.pinning`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
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
    the XML). `vcpus` is the maximum number of vCPUs; vCPUs that are not `plugged` run nowhere.
    `pins` holds only plugged vCPUs with a `<vcpupin>`; other vCPUs float over `cpuset`, or over all
    CPUs if `cpuset` is None. Pins to several CPUs are one set, the union. An unreadable pin or
    `cpuset` is empty. `emulator_cpus` are the CPUs to which the emulator and the I/O threads are
    pinned.

    `by_numad`: numad has chosen the CPUs of vCPUs without a pin, and the XML does not name them.
    `allowed`: the CPUs that the guest's control group allows, or None if unknown.
    """

    uuid: str
    run: int | None
    name: str
    vcpus: int = 0
    plugged: frozenset[int] = frozenset()
    pins: Mapping[int, frozenset[int]] = dataclasses.field(default_factory=dict)
    cpuset: frozenset[int] | None = None
    emulator_cpus: frozenset[int] = frozenset()
    numa_nodes: frozenset[int] = frozenset()
    devices: tuple[XmlDevice, ...] = ()
    cachetune: bool = False
    nova: NovaMetadata | None = None
    warnings: tuple[Message, ...] = ()
    by_numad: bool = False
    allowed: frozenset[int] | None = None

    def placed(self, cpus: Sequence[Sequence[bool]]) -> LibvirtDomain:
        """Return the domain with numad's CPUs; `cpus`: by vCPU, whether it may run on each CPU."""
        loose = (one for vcpu, one in enumerate(cpus) if vcpu in self.plugged - self.pins.keys())
        chosen = frozenset(cpu for one in loose for cpu, may in enumerate(one) if may)
        return dataclasses.replace(self, cpuset=chosen or None)


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
        by_numad = self._is_automatic("vcpu") or (
            self._root.find("vcpu[@placement]") is None and self._is_automatic("numatune/memory")
        )
        cpuset = None if vcpu is None or by_numad else vcpu.get("cpuset")
        vcpus = self._number(self._root.findtext("vcpu"), "number of vCPUs", _MOST_VCPUS) or 0
        plugged = self._plugged(vcpus)
        return LibvirtDomain(
            uuid=self._uuid,
            run=self._number(self._root.get("id"), "domain id"),
            name=self._name,
            vcpus=vcpus,
            plugged=plugged,
            pins=self._pins(plugged),
            cpuset=None if cpuset is None else self._list(cpuset, "vcpu cpuset"),
            emulator_cpus=self._union("cputune/emulatorpin") | self._union("cputune/iothreadpin"),
            numa_nodes=self._union("numatune/memnode", "nodeset")
            or self._union("numatune/memory", "nodeset"),
            devices=devices,
            cachetune=self._allocates_cache(),
            nova=nova,
            warnings=(*self._warnings, *unknown_devices, *(nova.warnings if nova else ())),
            by_numad=by_numad,
        )

    def _plugged(self, vcpus: int) -> frozenset[int]:
        """Return the vCPUs that are plugged.

        `<vcpus>` names each vCPU with its state. Without this list the first `current` vCPUs of
        `<vcpu current=...>` are plugged (libvirt, "CPU Allocation").
        """
        if states := self._root.findall("vcpus/vcpu"):
            absent = (
                self._number(state.get("id"), "vcpus vcpu id", _MOST_VCPUS)
                for state in states
                if state.get("enabled") == "no"
            )
            return frozenset(range(vcpus)).difference(absent)
        vcpu = self._root.find("vcpu[@current]")
        current = None if vcpu is None else self._number(vcpu.get("current"), "vcpu current", vcpus)
        return frozenset(range(current or vcpus))

    def _pins(self, plugged: frozenset[int]) -> dict[int, frozenset[int]]:
        vcpus: dict[str, list[int]] = {}  # by the text of the pin
        for pin in self._root.iterfind("cputune/vcpupin"):
            vcpu = self._number(pin.get("vcpu"), "vcpupin vcpu")
            if vcpu in plugged:
                vcpus.setdefault(pin.get("cpuset", ""), []).append(vcpu)
        pins: dict[int, frozenset[int]] = {}
        floating: list[int] = []
        union: set[int] = set()
        for text, members in vcpus.items():
            cpus = self._list(text, "vcpupin cpuset")
            if len(cpus) > 1:
                union |= cpus
                floating += members
            else:
                pins |= dict.fromkeys(members, cpus)
        return pins | dict.fromkeys(floating, frozenset(union))

    def _is_automatic(self, path: str) -> bool:
        return self._root.find(f"{path}[@placement='auto']") is not None

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
