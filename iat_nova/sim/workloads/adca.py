# SPDX-License-Identifier: Apache-2.0
"""What ADCA was measured with on a Loongson 2K1000: netperf, and stand-ins for SPEC CPU2000."""

from __future__ import annotations

from iat_nova.sim.workloads.profile import Form, Profile

_KIB, _MIB = 1 << 10, 1 << 20

# Receiving over TCP in the kernel: a packet is read once, when it is copied out; acknowledgements
# and the caller's buffer (which stays in the cache) are not modelled. Its own cycles are calibrated
# on claim adca-6-alone; how often it goes to its own memory (the stack's code and data) on
# adca-6-dma, and how large that is (96 KB) on adca-9, which 160 KB do not meet.
NETPERF = Profile(
    "netperf",
    Form.NETWORK,
    1150.0,
    1400.0,
    overlap=(1.5, 1.0, 4.0, 4.0),
    payload_share=1.0,
    accesses=10.0,
    locality=((1.0, 96 * _KIB),),
    writes_percent=25,
    spin_ipc=0.0,
    sends=False,
)

# The mean of the suite's integer and of its floating-point programs; a unit of work is 100
# instructions. Chosen: 13 and 20 accesses per thousand instructions leave L1, most of them for
# what just fits in 1 MB, a tenth and a quarter for what fits in no cache.
SPEC_INT = Profile(
    "spec2000-int",
    Form.MEMORY,
    85.0,
    100.0,
    overlap=(1.5, 1.0, 1.0, 1.0),
    accesses=1.3,
    locality=((0.40, 160 * _KIB), (0.45, 768 * _KIB), (0.05, 2 * _MIB), (0.10, 24 * _MIB)),
    writes_percent=30,
)
SPEC_FP = Profile(
    "spec2000-fp",
    Form.MEMORY,
    100.0,
    100.0,
    overlap=(3.0, 1.0, 1.0, 1.0),
    accesses=2.0,
    locality=((0.30, 128 * _KIB), (0.35, 768 * _KIB), (0.10, 2 * _MIB), (0.25, 32 * _MIB)),
    writes_percent=30,
)
