# SPDX-License-Identifier: Apache-2.0
"""Workloads: what runs on the emulated cores.

A workload is a set of threads, one a core. Each thread is a row of `threads.Threads` and one of
a few compiled kinds: `memory_bound` (X-Mem, an idle guest), `poller` (testpmd, l3fwd, a guest's
forwarder, Open vSwitch). The cycles of a unit of work are its own instructions plus the stalls by
the level that served each access. `profiles` holds the constants of each named workload with
their sources.
"""
