# SPDX-License-Identifier: Apache-2.0
"""Print digests of the engine's state after traces and scenarios, for `test_native`."""

import dataclasses
import hashlib

import numpy as np

from iat_nova.experiments.engine import cache
from iat_nova.experiments.engine.layout import Block
from iat_nova.experiments.machines.machine import MACHINES
from iat_nova.experiments.scenarios.reader import load_scenario
from iat_nova.experiments.times import llc as bench
from tests.unit.experiments.sim import scenes

SCENARIOS = (
    "noisy-storage", "ports-unequal-rings", "redis-beside-batch", "short-bursts",
    "two-sockets-remote-vf",
)  # fmt: skip


def arrays(block):
    """Yield all arrays of a state."""
    for field in dataclasses.fields(block):
        value = getattr(block, field.name)
        yield from arrays(value) if isinstance(value, Block) else [value]


def show(name, block):
    digest = hashlib.sha256()
    for array in arrays(block):
        digest.update(np.ascontiguousarray(array).tobytes())
    print(name, digest.hexdigest()[:16])


for machine in ("gold-6140", "gold-6338", "loongson-2k1000"):
    for trace in bench.traces(20_000):
        caches = cache.make(MACHINES[machine], 32)
        cache.replay(caches, trace.kinds, trace.lines)
        caches.registers[cache.REGISTERS.clock] = 1 << 25
        cache.renumber(caches)
        show(f"{machine} {trace.name}", caches)
for name in SCENARIOS:
    scenario = load_scenario(name)
    described = dataclasses.replace(scenario.machine, even_slices=True, page_bytes=4096)
    for changed in (scenario, dataclasses.replace(scenario, machine=described)):
        server = scenes.EmulatedServer(changed)
        scenes.run(server, 0.002 / changed.compression)
        show(name, server.plant.state)
