# SPDX-License-Identifier: Apache-2.0
"""The gain of other ring sizes, more DDIO ways or a stack mempool, on an emulated host."""

from __future__ import annotations

import dataclasses

from iat_nova.experiments.sim.figures.bench import steady
from iat_nova.experiments.sim.machine import GOLD_6140, LINE_BYTES, MACHINES, Machine
from iat_nova.experiments.sim.scenario import (
    NicSpec,
    Scenario,
    ScenarioEvent,
    WireTraffic,
    Workload,
)
from iat_nova.experiments.sim.workloads.profiles import PROFILES
from iat_nova.model import WayMask
from iat_nova.report.advice import Advice, DeviceRings, Estimate

# For cards of unknown speed.
SPEED_GBPS = 25.0
# The load of a device, as a share of line rate: busy, without overload.
LOAD = 0.8
# The rate at which a core can forward full-sized packets; each queue has a core of its own.
QUEUE_GBPS = 30.0
WARM_S, RUN_S = 0.03, 0.02
PROFILE = "l3fwd"


def estimate(
    advice: Advice, rings: tuple[DeviceRings, ...], ddio_ways: int, pool_in_turn: bool
) -> Estimate:
    """Emulate the host with these rings and DDIO ways, each card at `LOAD` of its line rate.

    The devices of a card share the load evenly; a queue gets `QUEUE_GBPS` at most.

    One CPU per queue forwards the packets (`PROFILE`), and no other workload runs. A mempool whose
    buffers are used in turn is as large as the host's largest. Queues beyond the machine's CPUs are
    left out.
    """
    scenario = _scenario(advice, rings, ddio_ways, pool_in_turn)
    found = steady(scenario, 1, WARM_S, RUN_S)
    queues = sum(len(workload.cpus) for workload in scenario.workloads)
    return Estimate(
        found.ddio_miss_ratio,
        found.memory_read_bytes_per_s + found.memory_write_bytes_per_s,
        offered_gbps=sum(traffic.rate_bits_per_s for traffic in scenario.traffic) / 1e9,
        queues=queues,
        queues_left_out=sum(one.queues for one in rings) - queues,
    )


def _scenario(
    advice: Advice, rings: tuple[DeviceRings, ...], ddio_ways: int, pool_in_turn: bool
) -> Scenario:
    machine = _machine(advice)
    in_turn = max((pool.buffers for pool in advice.pools if pool.in_turn), default=0)
    cards, workloads, traffic = [], [], []
    cpu = 0
    for number, one in enumerate(rings):
        queues = min(one.queues, machine.cores - cpu)
        if queues <= 0:
            break
        name = f"device{number}"
        speed = (one.speed_gbps or SPEED_GBPS) * 1e9
        sharing = sum(1 for other in rings if one.card and other.card == one.card) or 1
        rate = min(LOAD * speed / sharing, queues * QUEUE_GBPS * 1e9)
        least = 4 * one.descriptors * queues
        ring = 1 << (one.descriptors - 1).bit_length()
        walked = pool_in_turn and not one.assumed and in_turn > least
        cards.append(NicSpec(name, f"0000:{number:02x}:00.0", None, speed))
        workloads.append(
            Workload(
                name,
                PROFILES[PROFILE],
                tuple(range(cpu, cpu + queues)),
                nic=name,
                ring=ring,
                send_ring=ring,
                buffers=in_turn if walked else max(8192, least),
                pool="ring" if walked else "stack",
            )
        )
        traffic.append(WireTraffic(name, name, name, rate, min(one.mtu + 14, 9216), flows=1000))
        cpu += queues
    return Scenario(
        name="advise",
        title="",
        machine=machine,
        length_s=WARM_S + RUN_S,
        seed=1,
        strategy="baseline",
        policy={},
        nics=tuple(cards),
        guests=(),
        switch=None,
        workloads=tuple(workloads),
        traffic=tuple(traffic),
        events=(ScenarioEvent(0.0, "ddio", "ways", float(ddio_ways)),),
        masks={},
        random_masks=False,
        sampling=32,
        compression=1.0,
        step_s=5e-6,
    )


def _machine(advice: Advice) -> Machine:
    """Return a socket with the host's LLC and the largest number of cores of any machine.

    The other properties are the testbed's.
    """
    per_slice = GOLD_6140.llc_sets_per_slice * LINE_BYTES
    return dataclasses.replace(
        GOLD_6140,
        name="host",
        cores=max(machine.cores for machine in MACHINES.values()),
        slices=max(1, round(advice.way_bytes / per_slice)),
        llc_ways=advice.ways,
        ddio_ways=WayMask.span(advice.ways - advice.ddio_ways, advice.ddio_ways),
        coerced_ways=WayMask(0),
    )
