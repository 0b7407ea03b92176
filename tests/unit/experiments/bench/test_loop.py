# SPDX-License-Identifier: Apache-2.0
"""The loop's bench: its cases in memory, and on a machine's own hardware."""

import io
import os
import unittest
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from iat_nova import conf
from iat_nova.agent import sources
from iat_nova.agent.ownership import Ownership
from iat_nova.cmd import main as program
from iat_nova.common.clock import SystemClock
from iat_nova.experiments.times import fake
from iat_nova.experiments.times import loop as bench
from iat_nova.experiments.times.software import SOFTWARE
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.counters import perf_event
from iat_nova.hardware.counters.perf import PerfCounters
from iat_nova.hardware.host.machine import Machine
from iat_nova.model import CacheDomain, WayMask
from tests.said import raises


def machine(processors=4):
    """A machine with its own number of CPUs, in memory."""
    here = min(os.sched_getaffinity(0))
    domain = CacheDomain(
        id=3, cpus=tuple(range(processors)), ways=11, classes=8, ddio_found=WayMask(0x600)
    )
    return Ownership(
        Machine(
            PerfCounters(
                SOFTWARE,
                SystemClock(),
                open_group=lambda events, cpu: perf_event.EventGroup(events, here),
            ),
            fake.FakeAllocator((domain,)),
            fake.FakeDdio((domain,)),
            SystemClock(),
        )
    )


class Loop(unittest.TestCase):
    """Rows, and what is left behind."""

    def test_on_a_machine(self):
        """Masks are written on the machine's own domain and given back; too many do not fit."""
        owned, notes = machine(), []
        rows = list(
            bench.rows((2, 4), (1, 2), ("unstable",), 3, notes.append, owned=owned, strategy="iat")
        )
        self.assertEqual([(2, 1), (2, 2), (4, 1)], [(r.tenants, r.cores_per_tenant) for r in rows])
        self.assertIn("tenants: 4, cores of each: 2: more than the cache domain has", notes)
        self.assertTrue(all(row.write_us > 0 and row.floor_us > 0 for row in rows), rows)
        self.assertTrue(owned.machine.allocator.writes)
        self.assertEqual({}, owned.machine.allocator.effective(3))
        self.assertEqual(0x600, owned.machine.ddio.read(3))

    def test_in_memory(self):
        """Without a machine nothing bounds the CPUs."""
        stable, unstable = bench.rows((64,), (2,), ("stable", "unstable"), 3, strategy="iat")
        self.assertEqual((64, 0.0, 1.0), (stable.tenants, stable.layouts, unstable.layouts))
        self.assertGreater(stable.decide_us, 0.0)

    def test_refused_counters(self):
        """What was refused is raised: an iteration that reads no counter is not measured."""
        refusal = mock.patch.object(perf_event, "_open", side_effect=HardwareError("no right"))
        with refusal, raises(self, HardwareError, "no right"):
            list(bench.rows((1,), (1,), ("stable",), 3))
        errors = io.StringIO()
        with refusal, redirect_stderr(errors), redirect_stdout(io.StringIO()):
            status = program.main(["bench", "loop", "--tenants", "1", "--iterations", "3"])
        self.assertEqual(1, status)
        self.assertIn("the counters cannot be opened: no right", errors.getvalue())

    def test_without_ddio_counters(self):
        """A host without DDIO's counters is measured on its CPUs'."""
        owned = machine()
        uncore = mock.Mock(
            **{"watch.side_effect": HardwareError("no uncore"), "read.return_value": {}}
        )
        owned.machine.counters._domains = uncore
        (row,) = bench.rows((2,), (1,), ("stable",), 3, owned=owned)
        self.assertGreater(row.floor_us, 0)

    def test_others_allocate_cache(self):
        """Where the agent would only observe, the bench does not write either."""
        with (
            mock.patch.object(sources, "machine", return_value=machine().machine),
            mock.patch.object(Ownership, "owners", return_value=("group x: theirs",)),
            raises(self, HardwareError, "group x: theirs"),
        ):
            bench.real_machine(conf.load([]))

    def test_without_such_hardware(self):
        """What is missing is told, and what can be done without it."""
        refusal = mock.patch.object(sources, "machine", side_effect=HardwareError("no resctrl"))
        errors = io.StringIO()
        with refusal, redirect_stderr(errors), redirect_stdout(io.StringIO()):
            status = program.main(["bench", "loop", "--hardware", "auto"])
        self.assertEqual(1, status)
        self.assertIn(
            "cannot be driven now: no resctrl; `iat-nova doctor` shows", errors.getvalue()
        )
