# SPDX-License-Identifier: Apache-2.0
"""Small hosts and guests for the policy's tests."""

from __future__ import annotations

import pathlib

from iat_nova.model import (
    Attachment,
    AttachmentKind,
    CacheDomain,
    Facts,
    Guest,
    HostFacts,
    Nic,
    SwitchPort,
    VirtualSwitch,
)

EXAMPLES = pathlib.Path(__file__).parent / "examples"
WAY_BYTES = 2_359_296  # Gold 6140: 24.75 MB in 11 ways


def domain(number: int = 0, ways: int = 11, cpus: range = range(8), **more: object) -> CacheDomain:
    """A cache domain as a Skylake has it."""
    values: dict[str, object] = {"way_bytes": WAY_BYTES, "numa_nodes": (number,), **more}
    return CacheDomain(number, tuple(cpus), ways, 16, **values)  # type: ignore[arg-type]


ONE = HostFacts("node1", (domain(),), tuple(range(8)), (Nic("0000:3b:00.0", "ens1", 0, 40.0),))
TWO = HostFacts(
    "node2",
    (domain(0, cpus=range(8)), domain(1, cpus=range(8, 16))),
    tuple(range(16)),
    (Nic("0000:3b:00.0", "ens1", 0, 40.0), Nic("0000:af:00.0", "ens2", 1, 100.0)),
)


def guest(name: str = "web", **facts: object) -> Guest:
    """A best-effort guest with two dedicated CPUs unless told otherwise."""
    values: dict[str, object] = {
        "uuid": f"00000000-0000-0000-0000-{sum(name.encode()):012d}",
        "run": 1,
        "name": f"instance-{name}",
        "display_name": name,
        "flavor": "m1",
        "extra_specs": {},
        "project": "p1",
        "dedicated_cpus": (2, 3),
        "floating_cpus": (),
        **facts,
    }
    return Guest(**values)  # type: ignore[arg-type]


def attachment(kind: AttachmentKind, device: str = "dev0", **facts: object) -> Attachment:
    """One device of a guest."""
    return Attachment(kind, device, **facts)  # type: ignore[arg-type]


def dpdk_switch(*pmd_cpus: int) -> VirtualSwitch:
    """Open vSwitch with a userspace datapath and a physical port."""
    ports = (SwitchPort("dpdk0", "br-ex", "dpdk", dpdk_device="0000:3b:00.0"),)
    return VirtualSwitch({"br-ex": "netdev", "br-int": "netdev"}, ports, pmd_cpus, "pmd-cpu-mask")


def facts(*guests: Guest, host: HostFacts = ONE, switch: VirtualSwitch | None = None) -> Facts:
    """A picture of a host."""
    return Facts(host, guests, switch)
