# SPDX-License-Identifier: Apache-2.0
"""The emulated server: a machine with CAT and DDIO in virtual time.

It needs numba and numpy, which the extra ``iat-nova[sim]`` brings; nothing outside this package
imports them. Importing this package without them raises `ImportError` with that advice.
"""

from iat_nova.sim.scenario import Scenario, ScenarioError, shipped
from iat_nova.sim.server import EmulatedServer
from iat_nova.sim.workload_metrics import WorkloadMetrics

__all__ = ["EmulatedServer", "Scenario", "ScenarioError", "WorkloadMetrics", "shipped"]
