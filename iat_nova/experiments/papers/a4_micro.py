# SPDX-License-Identifier: Apache-2.0
"""A4, figures 3, 6 and 8: their judgement."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence

from iat_nova.experiments.papers import summary
from iat_nova.experiments.papers.api import ClaimFinding, Row

# DPDK's published miss rates in percent, by X-Mem's mask; the first four are in a claimed order.
CLAIMED_3B = {
    0x0C0: 17.2, 0x600: 23.4, 0x006: 72.5, 0x003: 83.8,
    0x300: 18.6, 0x180: 17.3, 0x060: 22.6, 0x030: 47.2, 0x018: 21.8, 0x00C: 17.3,
}  # fmt: skip
ORDERED_3B = list(CLAIMED_3B)[:4]
POINTS_3B = 5.0
ALONE = 0  # the block size, or the mask, of a run without storage
FIO_MASKS = (0x1E0, 0x1C0, 0x180, 0x100)


def judge_3a(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Compare misses and memory traffic of A4's figure 3a with the published values."""
    for claim, column in (
        ("a4-3a-dpdk", "dpdk_miss_percent"),
        ("a4-3a-xmem", "xmem_miss_percent"),
        ("a4-3a-read", "memory_read_gbytes_per_s"),
        ("a4-3a-write", "memory_write_gbytes_per_s"),
    ):
        for (mask,), measured in summary.medians(rows, ("xmem_mask",), column).items():
            yield ClaimFinding(claim, measured, "", f"{mask:#05x}")


def judge_3b(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge the order of DPDK's miss rates on four masks, and each of these rates."""
    misses = summary.by(rows, "xmem_mask", "dpdk_miss_percent")
    xmem = summary.by(rows, "xmem_mask", "xmem_miss_percent")
    seen = ", ".join(f"{mask:#05x}: {misses[mask]:.1f} %" for mask in ORDERED_3B)
    ordered = all(misses[a] < misses[b] for a, b in itertools.pairwise(ORDERED_3B))
    yield ClaimFinding("a4-3b-min", ordered, seen)
    for mask, published in CLAIMED_3B.items():
        yield ClaimFinding(
            "a4-3b-min",
            misses[mask],
            f"DPDK {misses[mask]:.1f} %, X-Mem {xmem[mask]:.1f} % (published 27 to 33 %)",
            part=f"{mask:#05x}",
            published=published,
            points=POINTS_3B,
        )


def _by_setting(rows: Sequence[Row], column: str) -> Mapping[tuple[str, int], float]:
    numbers = [row for row in rows if row[column] is not None]
    found = summary.medians(numbers, ("dca", "block_kib"), column)
    return {(str(dca), int(block)): value for (dca, block), value in found.items()}


def judge_6(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge network latency alone, with DCA and without, beside blocks of 64 KiB and more."""
    latency = _by_setting(rows, "network_latency_us")
    alone = latency["on", ALONE]
    large = [block for dca, block in latency if dca == "on" and block >= 64]
    holds = all(alone < latency["on", block] < latency["off", block] for block in large)
    both = ", ".join(
        f"{block} KiB: {latency['on', block]:.0f} and {latency['off', block]:.0f}"
        for block in large
    )
    yield ClaimFinding("a4-6-order", holds, f"alone {alone:.0f} us; on and off at {both}")


def judge_8a(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge the effect of disks without DCA on network latency and on small blocks."""
    latency = _by_setting(rows, "network_latency_us")
    blocks = [block for dca, block in latency if dca == "on"]
    changes = {
        block: summary.change(latency["storage off", block], latency["on", block])
        for block in blocks
        if block >= 64
    }
    seen = ", ".join(f"{block} KiB: {change:.0f} %" for block, change in changes.items())
    yield ClaimFinding("a4-8a", statistics.mean(changes.values()), f"the mean of {seen}")
    speed = _by_setting(rows, "storage_gbytes_per_s")
    kept = {block: speed["storage off", block] / speed["on", block] for block in blocks}
    holds = kept[16] < 0.97 and all(kept[block] > 0.97 for block in changes)
    seen = ", ".join(f"{block} KiB: {100 * share:.0f} %" for block, share in kept.items())
    yield ClaimFinding("a4-8a-small", holds, f"throughput left without DCA at {seen}")


def judge_8b(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge X-Mem's miss rate for each mask of FIO and without FIO, and FIO's throughput."""
    found = summary.by(rows, "fio_mask", "xmem_miss_percent")
    for mask in FIO_MASKS:
        yield ClaimFinding(
            "a4-8b",
            found[mask],
            f"{found[mask]:.1f} %, alone {found[ALONE]:.1f} % (published 16.6 %)",
            part=f"{mask:#05x}",
        )
    yield ClaimFinding("a4-8b-alone", found[ALONE], f"{found[ALONE]:.1f} %")
    with_fio = [row for row in rows if row["fio_mask"] != ALONE]
    speed = summary.by(with_fio, "fio_mask", "storage_gbytes_per_s")
    seen = ", ".join(f"{mask:#05x}: {speed[mask]:.2f} GB/s" for mask in FIO_MASKS)
    yield ClaimFinding("a4-8b-fio", summary.spread(speed.values()), seen)
