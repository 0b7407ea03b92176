# SPDX-License-Identifier: Apache-2.0
"""A4's testbed (ISCA 2025) as scenarios, out of parts that each of its experiments combines.

A receiver is four queues of one core each. A sender's flows never hash onto them evenly, and a
queue that gets more than its core can serve is full, while the others are empty: the published
means and 99th percentiles of latency show both kinds at once. Hence each queue is a workload of its
own with its share of the traffic. Every ring starts full, as when a sender is there before the
receiver: what waits in a full ring leaks from the cache, so that the ring stays full at rates that
an empty one would have borne.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from iat_nova.sim.figures.bench import Steady, llc_miss_ratio
from iat_nova.sim.reader import read_scenario
from iat_nova.sim.run import WorkloadResult
from iat_nova.sim.scenario import Scenario

LINK_GBPS = 100.0
# Each queue's share of the traffic, calibrated on figure 6: three of the rings are full beside
# storage and without DCA (mean latency 616 us, the fullest ring's 835), with DPDK alone two, or
# one: 312, 147 and 312 us with seeds 1 to 3.
QUEUE_SHARES = (0.30, 0.27, 0.245, 0.185)
# For so long every queue is offered half the link, twice the link together.
FILLING_MS = 2

Part = Mapping[str, Any]
"""Sections of a scenario file: mappings are merged, lists joined."""


def scenario(name: str, *parts: Part) -> Scenario:
    """Return a scenario made of parts."""
    document: dict[str, Any] = {"length": "10s"}
    for part in parts:
        for section, content in part.items():
            if isinstance(content, Mapping):
                document.setdefault(section, {}).update(content)
            else:
                document.setdefault(section, []).extend(content)
    text = yaml.safe_dump(document, sort_keys=False)
    return read_scenario(text, name, name)


def receiver(
    profile: str,
    cpus: Sequence[int],
    mask: int | None,
    *,
    packet_bytes: int = 1024,
    dca: bool = True,
) -> Part:
    """Return a DPDK receiver with rings of 2,048 at link rate; its cores, one a queue."""
    nic = {"address": "0000:3b:00.0", "speed": f"{LINK_GBPS:g}Gb/s", "dca": dca, "overload": True}
    part: dict[str, Any] = {
        "nics": {"nic0": nic},
        "workloads": {},
        "masks": {},
        "traffic": {},
        "events": [],
    }
    for number, (cpu, share) in enumerate(zip(cpus, QUEUE_SHARES, strict=True)):
        name = f"dpdk{number}"
        part["workloads"][name] = {
            "profile": profile, "cpus": [cpu], "nic": "nic0", "ring": 2048, "buffers": 8192,
        }  # fmt: skip
        if mask is not None:
            part["masks"][name] = mask
        rate = f"{LINK_GBPS * share:.6g}Gb/s"
        part["traffic"][name] = {"to": name, "rate": rate, "packet": f"{packet_bytes}B"}
        key = f"traffic.{name}.rate"
        part["events"] += [
            {"at": "0s", "set": key, "to": f"{LINK_GBPS / 2:g}Gb/s"},
            {"at": f"{FILLING_MS}ms", "set": key, "to": rate},
        ]
    return part


def fio(
    cpus: Sequence[int], mask: int | None, block_kib: int, *, dca: bool = True, writes: float = 0.0
) -> Part:
    """Return FIO's random reads, a job a core, 32 blocks each, on four striped disks."""
    work: dict[str, Any] = {
        "profile": "fio", "cpus": list(cpus), "disk": "raid0", "block": f"{block_kib}KiB",
        "depth": 32,
    }  # fmt: skip
    if writes:
        work["writes"] = f"{100 * writes:g}%"
    return {
        "disks": {"raid0": {"address": "0000:5e:00.0", "speed": "10.5GB/s", "dca": dca}},
        "workloads": {"fio": work},
        "masks": {} if mask is None else {"fio": mask},
    }


def memory(
    name: str, profile: str, cpus: Sequence[int], mask: int | None, **keys: str | int
) -> Part:
    """Return a workload that only uses memory; `keys` are more keys of its section."""
    return {
        "workloads": {name: {"profile": profile, "cpus": list(cpus), **keys}},
        "masks": {} if mask is None else {name: mask},
    }


def queues(found: Steady) -> list[WorkloadResult]:
    """Return what the receiver's queues achieved."""
    return [item for name, item in found.workloads.items() if name.startswith("dpdk")]


def network_row(found: Steady) -> dict[str, float]:
    """Return the receiver's columns; latency weighs queues alike, as one echo a queue and ms does.

    The 99th percentile is the fullest queue's: a ring stays nearly as full as it is.
    """
    every = queues(found)
    references = sum(queue.references_per_s for queue in every)
    misses = sum(queue.misses_per_s for queue in every)
    return {
        "dpdk_miss_percent": round(100.0 * misses / references, 2),
        "network_latency_us": round(sum(q.latency_us or 0.0 for q in every) / len(every), 1),
        "network_p99_us": round(max(queue.latency_p99_us or 0.0 for queue in every), 1),
        "network_mpps": round(sum(queue.work_per_s for queue in every) / 1e6, 3),
    }


def storage_row(found: Steady) -> dict[str, float]:
    """Return FIO's columns."""
    done = found.workloads["fio"]
    return {
        "storage_gbytes_per_s": round(done.gbps / 8, 2),
        "storage_latency_us": round(done.latency_us or 0.0, 1),
        "storage_miss_percent": round(100 * llc_miss_ratio(done), 2),
    }


def memory_row(found: Steady) -> dict[str, float]:
    """Return the columns of memory's bandwidth."""
    return {
        "memory_read_gbytes_per_s": round(found.memory_read_bytes_per_s / 1e9, 2),
        "memory_write_gbytes_per_s": round(found.memory_write_bytes_per_s / 1e9, 2),
    }
