# SPDX-License-Identifier: Apache-2.0
"""Workloads: the programs on the emulated cores.

A workload is a set of threads, one per core (a pipeline has two). Each thread is a row of
`threads.Threads` and has one of a few kinds: memory-bound (X-Mem, an idle guest), poller (testpmd,
l3fwd, a guest's forwarder, Open vSwitch), storage (fio). The cycles of a unit of work are the
work's own cycles plus the stalls by the level that served each access. `profiles` holds the
constants of each named workload with their sources.
"""
