# SPDX-License-Identifier: Apache-2.0
"""The workloads of A4's experiments (ISCA 2025) that others do not have."""

from __future__ import annotations

import dataclasses

from iat_nova.sim.workloads.profile import Form, Profile

# A receiver that drops what it has served, as A4's: 150 ns of waiting a packet (345 cycles at
# 2.3 GHz) and the 70 that testpmd takes to receive one. How many lines it has under way at a time
# is calibrated on the latencies of figure 6's DPDK alone, which are no claim: with DCA its four
# cores are just able to serve the link (8,192 descriptors in 682 us; here the fullest ring takes
# 630, 591 and 644 us with seeds 1 to 3). So near to its limit the point has two states: of the four
# rings two stay full with seeds 1 and 3, one with seed 2 (mean latency 312, 147 and 312 us).
# Instructions are chosen.
_NOT_TOUCHING = Profile(
    "dpdk-nt", Form.NETWORK, 415.0, 600.0, overlap=(1.0, 6.2, 6.2, 6.2), sends=False
)
# It copies the payload to a buffer of its own, which stays in L1 and L2.
_TOUCHING = dataclasses.replace(_NOT_TOUCHING, name="dpdk-t", payload_share=1.0)

WORKLOADS = (
    _NOT_TOUCHING,
    _TOUCHING,
    # Figures 7, 11 and 12 wait 100 ns.
    dataclasses.replace(_TOUCHING, name="dpdk-t-100ns", own_cycles=300.0),
    # X-Mem's sequential access is a stream for the prefetchers: as many misses at a time as
    # copying; its own cycles are chosen. Its lines are drawn at random all the same. In order it
    # misses 57 % where nobody else uses its ways (published 27, drawn at random 44), and the order
    # of figure 3b's masks is lost.
    Profile("xmem-stream", Form.MEMORY, 4.0, 10.0, overlap=(8.0, 1.0, 1.0, 1.0)),
)
