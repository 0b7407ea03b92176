# SPDX-License-Identifier: Apache-2.0
"""Small scenarios for tests, as text, and what was measured over a stretch of time."""

from __future__ import annotations

import threading

from iat_nova.experiments.scenarios.reader import read_scenario
from iat_nova.experiments.scenarios.scenario import Scenario
from iat_nova.experiments.server.server import EmulatedServer

HEAD = """\
length: 10s
nics:
  nic0: {address: "0000:3b:00.0", speed: 40Gb/s}
"""
FORWARDER = """\
workloads:
  fwd: {{profile: testpmd, cpus: [0, 1], nic: nic0, ring: {ring}}}
traffic:
  fwd: {{to: fwd, rate: {rate}, packet: {packet}B}}
"""
SWITCHED = """\
workloads:
  ovs: {{profile: ovs, cpus: [0, 1], nic: nic0}}
  guest: {{profile: virtio-forward, cpus: [2, 3], switch: ovs}}
masks: {{ovs: 0x00c, guest: 0x030}}
traffic:
  guest: {{to: guest, rate: 2Gb/s, packet: 256B, flows: {flows}}}
"""


def scenario(text: str) -> Scenario:
    """Read a scenario's text."""
    return read_scenario(text, "test", "test.yaml")


def server(text: str, **options: object) -> EmulatedServer:
    """Start an emulated server on a scenario's text."""
    return EmulatedServer(scenario(text), **options)


def run(machine: EmulatedServer, seconds: float) -> None:
    """Let time pass."""
    machine.wait(threading.Event(), seconds)


def measured(machine: EmulatedServer, warm_s: float, seconds: float) -> tuple[dict, dict]:
    """Return DDIO's counts and each workload's metrics over `seconds` after `warm_s`."""
    run(machine, warm_s)
    before, first = machine.read().domains[0], machine.metrics()
    run(machine, seconds)
    after, last = machine.read().domains[0], machine.metrics()
    counted = [name for name in after._fields if getattr(after, name) is not None]
    ddio = {name: getattr(after, name) - getattr(before, name) for name in counted}
    names = ("work", "packets", "dropped", "offered", "misses", "references", "access_cycles",
             "accesses", "latency_ns", "instructions", "cycles")  # fmt: skip
    workloads = {
        key: {name: getattr(last[key], name) - getattr(first[key], name) for name in names}
        for key in last
    }
    return ddio, workloads
