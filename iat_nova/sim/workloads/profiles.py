# SPDX-License-Identifier: Apache-2.0
"""The named workloads and their constants: what a unit of work costs and touches.

*Own cycles* are those with every access served by L1; the stalls come on top. Where a constant
has no source it says *chosen*; own instructions are chosen throughout, about one to three a
cycle. Nothing here is fitted to what a strategy does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from iat_nova.sim.workloads import a4, adca, spec, stores
from iat_nova.sim.workloads.profile import NETWORKED, Form, Profile

__all__ = ["NETWORKED", "PROFILES", "Form", "Profile"]

# X-Mem's random read is a chain of loads, each of the address the one before has read
# (randomRead_Word64), hence no overlap and no more of its own than the 5 cycles of L1's load-to-use
# (Intel's optimisation manual). What it does with a counter in between: chosen.
_XMEM = Profile("xmem", Form.MEMORY, 5.0, 10.0, overlap=(1.0, 1.0, 1.0, 1.0))


def _vcmts(name: str, lower_cycles: float) -> Profile:
    """Return downstream DOCSIS: upper MAC, then lower MAC, on two hyper-threads of a core.

    The lower MAC encrypts each payload where it lies (AES-NI). The article on mempools gives the
    highest rates without loss, with the ring: 6.3 Gb/s (528 k packets/s), 5.5 Gb/s with the CRC. Of
    a core of 2.4 GHz its cycles are what is left there beside the stalls of 12 instances: with 100
    more packets begin to get lost. The upper MAC's are chosen: fewer. Of each
    subscriber's state (keys, service flows, statistics) `table_lines` are kept a stage, and a
    packet goes to 24 lines, four misses at a time: chosen; how many are kept is calibrated, on
    claim pool-crcoff5 at 12 instances.
    """
    upper = Profile(
        name,
        Form.PIPELINE,
        3000.0,
        6000.0,
        overlap=(4.0, 4.0, 8.0, 8.0),
        table_lines=104.0,
        table_touches=24.0,
    )
    lower = dataclasses.replace(
        upper,
        own_cycles=lower_cycles,
        own_instructions=9000.0,
        payload_share=1.0,
        payload_writes=True,
    )
    return dataclasses.replace(upper, then=lower)


PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        _XMEM,
        # A guest that mostly sleeps: chosen.
        dataclasses.replace(
            _XMEM,
            name="idle",
            own_instructions=16.0,
            working_set_bytes=512 << 10,
            writes_percent=20,
            duty=0.1,
        ),
        # testpmd swapping MAC addresses: 33 M packets/s at 2.3 GHz without stalls, about what
        # DPDK's performance reports give one core of Skylake-SP with an XL710. It writes the header
        # (macswap.c), so the line leaves the LLC and the next packet is placed in DDIO's ways.
        Profile("testpmd", Form.NETWORK, 70.0, 150.0, payload_writes=True),
        # l3fwd, exact match: rte_hash's bucket (a line) and its key (a line) a flow; 150 cycles
        # give 15 M packets/s, as in DPDK's performance reports. It looks eight packets up at a
        # time, prefetching (l3fwd_em_hlm.h), so as many misses of the table overlap. It writes
        # both MAC addresses into the header (process_packet).
        Profile(
            "l3fwd",
            Form.NETWORK,
            150.0,
            330.0,
            overlap=(8.0, 4.0, 8.0, 8.0),
            table_lines=2.0,
            table_touches=2.0,
            payload_writes=True,
        ),
        # A guest's forwarder on virtio: testpmd, header and all, plus the virtqueue's bookkeeping;
        # chosen.
        Profile("virtio-forward", Form.NETWORK, 110.0, 240.0, payload_writes=True),
        # A receiver that reads every byte and sends nothing heavier than it received (A4's
        # DPDK-T): 100 ns of work a packet.
        Profile("touch", Form.NETWORK, 230.0, 400.0, payload_share=1.0),
        # One of FIO's jobs with libaio: 3.75 us of system calls, block layer and interrupt a
        # command, 270,000 commands/s a core; chosen. The reading (or filling) of a block is a
        # stream that the prefetchers see: as many misses at a time as copying.
        Profile("fio", Form.STORAGE, 8600.0, 8600.0, overlap=(1.0, 8.0, 8.0, 8.0)),
        # Open vSwitch's PMD. The EMC holds 8,192 flows a PMD (EM_FLOW_HASH_ENTRIES). Of a UDP
        # packet's entry 88 B are compared (pointer, hash, length, two maps, seven values), 2.25
        # lines, and in a full EMC a quarter of the flows lie in their second place, after another
        # entry's first line; `dead`, statistics, actions and batch of dp_netdev_flow are two lines,
        # its actions one. These five and a half are taken for six, in three dependent steps, hence
        # two at a time.
        # More flows than the EMC holds share wildcarded datapath flows. 220 cycles without
        # copies give 4 to 5 M packets/s through a guest and back, as in published PVP results.
        Profile(
            "ovs",
            Form.SWITCH,
            220.0,
            480.0,
            overlap=(2.0, 4.0, 8.0, 8.0),
            table_lines=6.0,
            table_touches=6.0,
            flows_held=8192,
        ),
        *(_vcmts(name, cycles) for name, cycles in (("vcmts", 3200.0), ("vcmts-crc", 3900.0))),
        # FastClick on a VF: the firewall's classifier (a tree that L1 holds), AggregateIPFlows
        # (bucket, flow and its statistics) and NAPT (bucket, mapping, checksums), each of the six
        # one line that every packet touches: chosen, as are 1.5 misses at a time, since each
        # element waits for the bucket first. NAPT writes addresses, ports and checksums into the
        # header. 700 cycles are 3.3 M packets/s a core, the order of published chains of three such
        # elements.
        Profile(
            "fastclick",
            Form.NETWORK,
            700.0,
            1500.0,
            overlap=(1.5, 4.0, 8.0, 8.0),
            table_lines=6.0,
            table_touches=6.0,
            payload_writes=True,
        ),
        *a4.WORKLOADS,
        *spec.SURROGATES,
        adca.NETPERF,
        adca.SPEC_INT,
        adca.SPEC_FP,
        *stores.ROCKSDB,
        *stores.REDIS,
    )
}
