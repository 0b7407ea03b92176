# SPDX-License-Identifier: Apache-2.0
"""Dedicated CPUs of one guest, and CPUs over which its other vCPUs float; pure.

A `<vcpupin>` to a single CPU is not enough: if the shared set of a cell holds one CPU, floating
vCPUs look the same. Such vCPUs are in mixed guests, or in guests with a NUMA topology. A vCPU is
therefore dedicated when pinned to one CPU and, first answer counts,

1. the instance's CPU policy (flavor or image) gives the vCPU a dedicated CPU; or, the
   policy being silent or unknown,
2. the CPU is in ``[compute] cpu_dedicated_set``; or, without this option,
3. the CPU is not in ``cpu_shared_set``, no other guest is pinned to the CPU, and flavor and image
   are not known to be silent: without a policy Nova guarantees nothing.

A vCPU that is not plugged has no CPU and floats nowhere.

The CPUs of emulator and I/O threads belong to the guest when ``hw:emulator_threads_policy`` is
``isolate``: Nova reserves such a CPU for the guest. With ``share`` the threads run on
``cpu_shared_set``, for all guests. Without a policy Nova pins the threads to the CPUs of the
guest's own vCPUs (`_get_emulatorpin_cpuset`). If the policy is silent or unknown, a CPU of
``cpu_dedicated_set`` with emulator threads and without vCPU is therefore a reserved CPU.

When two guests claim one CPU, the guest that started first keeps the CPU. The other guest's vCPU
counts as floating over the CPU; both get a warning. A dedicated vCPU comes before emulator threads.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping

from iat_nova.common.cpulist import format_cpus
from iat_nova.inventory.cpu_policy import CpuSets, emulator_policy, is_silent, promised_vcpus
from iat_nova.inventory.domain_xml import LibvirtDomain
from iat_nova.model import Message, message
from iat_nova.model.message import as_message


@dataclasses.dataclass(frozen=True, slots=True)
class PinnedCpus:
    """CPUs of one guest. The sets are disjoint.

    `dedicated`: CPUs of one vCPU each; `floating`: CPUs over which the other vCPUs float;
    `emulator`: CPUs reserved for the guest's emulator and I/O threads. All three are online.
    `offline`: dedicated or reserved CPUs that are offline, and the floating set if all offline.
    """

    dedicated: frozenset[int]
    floating: frozenset[int]
    emulator: frozenset[int] = frozenset()
    warnings: tuple[Message, ...] = ()
    offline: frozenset[int] = frozenset()


def place(
    guests: Iterable[tuple[LibvirtDomain, Mapping[str, str] | None]],
    cpusets: CpuSets,
    online: frozenset[int],
) -> tuple[PinnedCpus, ...]:
    """Return the placements of running guests, given with extra specs (None: unknown), in order."""
    drafts = [_Draft(domain, specs) for domain, specs in guests]
    users = _users_of_cpus(drafts)
    for draft in drafts:
        draft.claim(cpusets, users)
    _settle_conflicts(drafts)
    return tuple(draft.placement(online, cpusets.shared) for draft in drafts)


class _Draft:
    """One guest while conflicting claims are resolved.

    `claims` maps a vCPU to its claimed CPU. `emulator` holds the CPUs claimed for emulator and I/O
    threads.
    """

    def __init__(self, domain: LibvirtDomain, specs: Mapping[str, str] | None) -> None:
        self.domain = domain
        self.specs = specs
        self.image_properties = domain.nova.image_properties if domain.nova else None
        self.claims: dict[int, int] = {}
        self.emulator: frozenset[int] = frozenset()
        self.warnings: list[Message] = []

    def claim(self, cpusets: CpuSets, users: Mapping[int, set[str]]) -> None:
        promised = self._promised()
        for vcpu, pin in sorted(self.domain.pins.items()):
            if len(pin) != 1:
                continue
            (cpu,) = pin
            if vcpu in promised if promised is not None else self._owns(cpu, cpusets, users):
                self.claims[vcpu] = cpu
        unkept = (promised or frozenset()) - self.claims.keys()
        if unkept:
            self.warnings.append(message("vcpus-not-pinned", vcpus=format_cpus(unkept)))
        self.emulator = self._reserved(cpusets)

    def _reserved(self, cpusets: CpuSets) -> frozenset[int]:
        """Return the CPUs that Nova reserved for emulator and I/O threads."""
        if not self.claims:  # Nova isolates only the threads of guests with dedicated vCPUs
            return frozenset()
        own = self.domain.emulator_cpus - frozenset(self.claims.values())
        match emulator_policy(self.specs):
            case "isolate":
                return own
            case "share":
                return frozenset()
            case _:
                return own & (cpusets.dedicated or frozenset())

    def _promised(self) -> frozenset[int] | None:
        try:
            promised = promised_vcpus(self.domain.vcpus, self.specs, self.image_properties)
        except ValueError as error:
            self.warnings.append(message("cpu-policy-unknown", error=as_message(error)))
            return None
        return None if promised is None else promised & self.domain.plugged

    def _owns(self, cpu: int, cpusets: CpuSets, users: Mapping[int, set[str]]) -> bool:
        if cpusets.dedicated is not None:
            return cpu in cpusets.dedicated
        if cpusets.shared is not None and cpu in cpusets.shared:
            return False
        if is_silent(self.specs, self.image_properties):
            return False
        others = users[cpu] - {self.domain.name}
        if others:
            guests = tuple(sorted(others))
            self.warnings.append(message("pin-unassigned", cpu=cpu, guests=guests))
        return not others

    def placement(self, online: frozenset[int], shared: frozenset[int] | None) -> PinnedCpus:
        dedicated = frozenset(self.claims.values())
        own = dedicated | self.emulator
        allowed = self._allowed(online, shared)
        offline = own - online
        if not allowed & online:
            offline |= allowed
        return PinnedCpus(
            dedicated=dedicated & online,
            floating=(allowed - own) & online,
            emulator=self.emulator & online,
            warnings=tuple(self.warnings),
            offline=offline,
        )

    def _allowed(self, online: frozenset[int], shared: frozenset[int] | None) -> frozenset[int]:
        """Return the CPUs on which vCPUs without a claim may run.

        For a vCPU without a pin the guest's `cpuset` counts, or all CPUs. If the pin or `cpuset` is
        unreadable, Nova's shared set is the better guess. The guest's control group may allow less.
        """
        guess = shared or online
        anywhere = online if self.domain.cpuset is None else self.domain.cpuset or guess
        loose = [pin for vcpu, pin in self.domain.pins.items() if vcpu not in self.claims]
        if len(self.domain.pins) < len(self.domain.plugged):
            loose.append(anywhere)
            if self.domain.by_numad and self.domain.cpuset is None:
                self.warnings.append(message("cpus-of-numad-unknown"))
        cpus = frozenset[int]().union(*(pin or self.domain.cpuset or guess for pin in loose))
        return cpus & (self.domain.allowed or cpus) or cpus


def _users_of_cpus(drafts: Iterable[_Draft]) -> Mapping[int, set[str]]:
    """Map each CPU to the guests with an explicit pin to it, alone or in a set."""
    users: dict[int, set[str]] = collections.defaultdict(set)
    for draft in drafts:
        for cpu in frozenset[int]().union(*draft.domain.pins.values()):
            users[cpu].add(draft.domain.name)
    return users


def _settle_conflicts(drafts: Iterable[_Draft]) -> None:
    owners: dict[int, _Draft] = {}
    # libvirt's domain ID rises with each started guest.
    by_start = sorted(drafts, key=lambda draft: (draft.domain.run or 0, draft.domain.uuid))
    for draft in by_start:
        for vcpu, cpu in list(draft.claims.items()):
            if (owner := owners.setdefault(cpu, draft)) is draft:
                continue
            del draft.claims[vcpu]
            first, second = owner.domain.name, draft.domain.name
            draft.warnings.append(message("cpu-of-an-earlier", cpu=cpu, owner=first, vcpu=vcpu))
            owner.warnings.append(message("cpu-pinned-by-a-later", cpu=cpu, guest=second))
    for draft in by_start:
        for cpu in sorted(draft.emulator):
            if (owner := owners.setdefault(cpu, draft)) is draft:
                continue
            draft.emulator -= {cpu}
            first, second = owner.domain.name, draft.domain.name
            draft.warnings.append(message("emulator-on-a-cpu-of", cpu=cpu, owner=first))
            owner.warnings.append(message("emulator-of-another", cpu=cpu, guest=second))
