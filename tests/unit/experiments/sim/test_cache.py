# SPDX-License-Identifier: Apache-2.0
"""The compiled cache against its rules."""

import dataclasses
import random
import unittest
from collections import Counter

import numpy as np

from iat_nova.experiments.engine import adaptive, cache
from iat_nova.experiments.engine.memory import memory_lines
from iat_nova.experiments.machines import machine
from iat_nova.model import WayMask
from tests.unit.experiments.sim.reference import ReferenceAdca, ReferenceCache

SMALL = dataclasses.replace(
    machine.GOLD_6140,
    cores=3,
    slices=2,
    llc_sets_per_slice=4,
    llc_ways=6,
    l2_bytes=64 * 4 * 3,
    l2_ways=3,
    ddio_ways=WayMask(0b110000),
    inclusive_ways=WayMask(0b000011),
)
EVERYONE = 0b111


def ways(mask):
    return {way for way in range(32) if mask >> way & 1}


def small(**changes):
    return cache.make(dataclasses.replace(SMALL, **changes), 1)


def monitored(c, choice, spacing_bits):
    """Give every 2^spacing_bits-th set of a small cache a monitor."""
    made = adaptive.make(choice, c.llc.shape[0], 6, 64 >> spacing_bits)
    return dataclasses.replace(c, adaptive=made)


def set_of(c):
    return lambda line: cache.llc_set(c, line)


def totals(c):
    return dict(zip(cache.TOTAL_NAMES, (int(n) for n in c.totals), strict=True))


def llc_lines(c):
    return {
        int(entry) >> 3: way for row in c.llc[:, 0] for way, entry in enumerate(row) if entry >= 0
    }


def dirty_lines(c):
    """Return the lines that the LLC or an L2 has dirty."""
    entries = np.concatenate((c.llc[:, 0].ravel(), c.l2[:, :, 0].ravel()))
    return {int(entry) >> 3 for entry in entries[(entries >= 0) & (entries & 1 == 1)]}


class TestAgainstReference(unittest.TestCase):
    """The kernel agrees with the obvious model to the last hit."""

    def run_trace(self, seed, inclusive=0b11, lines=120, accesses=4000, fills=False, choice=None):
        rng = random.Random(seed)
        changes = {"inclusive_ways": WayMask(inclusive), "llc_fills": fills}
        adca = None
        if choice:
            # Two of eight sets have a monitor.
            changes["io"] = machine.WriteTarget.ADCA
            adca = ReferenceAdca(choice, 6, 4)
        c = small(**changes, replacement="LRU" if fills else "QLRU")
        if choice:
            c = monitored(c, choice, 2)
        reference = ReferenceCache(
            3, 4, 3, c.llc.shape[0], 6, ways(SMALL.ddio_ways), ways(inclusive), set_of(c),
            fills, adca,
        )  # fmt: skip
        for step in range(accesses):
            if step % 500 == 0:  # masks move while lines lie everywhere
                for core in range(3):
                    low = rng.randrange(6)
                    mask = WayMask.span(low, rng.randint(1, 6 - low))
                    cache.set_mask(c, cache.MASKS + core, mask)
                    reference.masks[core] = ways(mask)
                low = rng.randrange(1, 6)
                cache.set_mask(c, cache.DDIO, WayMask.span(low, 6 - low))
                reference.ddio = set(range(low, 6))
            line = int(rng.triangular(0, lines, 0))
            match rng.randrange(10):
                case 0 | 1:
                    dca = int(rng.random() < 0.9)
                    cache.dma_write(c, line, EVERYONE, dca)
                    reference.dma_write(line, dca)
                case 2:
                    cache.dma_read(c, line, EVERYONE)
                    reference.dma_read(line)
                case 3:
                    core = rng.randrange(3)
                    before = c.prefetched[core].copy()
                    got = cache.prefetch(c, core, line, EVERYONE)
                    level = reference.prefetch(core, line)
                    self.assertEqual(cache.L2 if level is None else level, got)
                    expected = [n == level for n in range(cache.LEVELS)]
                    self.assertEqual(expected, (c.prefetched[core] - before).tolist())
                case _:
                    core, write = rng.randrange(3), int(rng.random() < 0.3)
                    got = cache.core_access(c, core, line, write, EVERYONE)
                    self.assertEqual(reference.access(core, line, write), got, f"access {step}")
            if step == accesses // 2:
                c.registers[cache.REGISTERS.clock] = max(
                    c.registers[cache.REGISTERS.clock], 1 << 30
                )
                cache.renumber(c)
        self.assertEqual({**dict.fromkeys(cache.TOTAL_NAMES, 0), **reference.counts}, totals(c))
        for core in range(3):
            self.assertEqual(
                [reference.served[core][level] for level in range(cache.LEVELS)],
                c.served[core].tolist(),
            )
        expected = {e["line"]: e["way"] for row in reference.llc for e in row}
        self.assertEqual(expected, llc_lines(c))
        return totals(c)

    def test_random_traces_with_masks_and_dma(self):
        """Every access is served by the same level and every line ends in the same way."""
        seen = [self.run_trace(seed) for seed in range(8)]
        never = {"filled", "written_through", "cleaned", "victims_merged"}  # of other machines
        for name in set(cache.TOTAL_NAMES) - never:
            self.assertGreater(sum(counts[name] for counts in seen), 0, f"{name} never happened")

    def test_llc_that_fills(self):
        """An LLC that takes in what cores miss agrees, too, and takes no clean victims."""
        counts = self.run_trace(5, inclusive=0, fills=True)
        self.assertGreater(counts["filled"], 0)
        self.assertGreater(counts["victims_merged"], 0)
        self.assertEqual(0, counts["moved"])

    def test_adca(self):
        """Whichever share ADCA takes, on either kind of LLC, lines end where the rules say."""
        seen = Counter()
        for seed, choice in enumerate(machine.AdcaChoice):
            for fills in (False, True):
                for inclusive in (0b11, 0):
                    lines = 60 + 40 * seed
                    seen += self.run_trace(seed, inclusive, lines, 6000, fills, choice)
        for name in ("written_through", "dma_write_backs", "dma_memory_writes", "filled"):
            self.assertGreater(seen[name], 0, f"{name} never happened")

    def test_two_sockets(self):
        """Cores and devices of two linked sockets use the same lines, and both LLCs agree."""
        rng = random.Random(11)
        described = dataclasses.replace(SMALL, cores=2, sockets=2)
        sockets = cache.make_sockets(described, 1)
        references = [
            ReferenceCache(4, 4, 3, 8, 6, ways(0b110000), ways(0b11), set_of(sockets[0]))
            for _ in sockets
        ]
        references[0].link(references[1], range(2), range(2, 4))
        everyone, levels = 0b1111, Counter()
        for step in range(12000):
            line, at = int(rng.triangular(0, 150, 0)), rng.randrange(2)
            match rng.randrange(8):
                case 0 | 1:
                    dca = int(rng.random() < 0.9)
                    cache.dma_write(sockets[at], line, everyone, dca)
                    references[at].dma_write(line, dca)
                case 2:
                    cache.dma_read(sockets[at], line, everyone)
                    references[at].dma_read(line)
                case 3:
                    core = 2 * at + rng.randrange(2)
                    cache.prefetch(sockets[at], core, line, everyone)
                    references[at].prefetch(core, line)
                case _:
                    core, write = 2 * at + rng.randrange(2), int(rng.random() < 0.3)
                    got = cache.core_access(sockets[at], core, line, write, everyone)
                    self.assertEqual(
                        references[at].access(core, line, write), got, f"access {step}"
                    )
                    levels[got] += 1
        self.assertEqual(set(range(cache.LEVELS)), set(levels))
        for c, reference in zip(sockets, references, strict=True):
            self.assertEqual({**dict.fromkeys(cache.TOTAL_NAMES, 0), **reference.counts}, totals(c))
            self.assertGreater(reference.counts["cleaned"], 0)
            expected = {e["line"]: e["way"] for row in reference.llc for e in row}
            self.assertEqual(expected, llc_lines(c))

    def test_machine_without_inclusive_ways(self):
        """Without inclusive ways a touched DMA line stays where it is."""
        self.assertEqual(0, self.run_trace(99, inclusive=0)["migrated"])


class TestRules(unittest.TestCase):
    """Single rules, each on its own."""

    def test_a_mask_limits_placement(self):
        """L2's victims lie in the ways of the core's mask only."""
        c = small()
        cache.set_mask(c, cache.MASKS, 0b001100)
        for line in range(500):
            cache.core_access(c, 0, line, 0, 0)
        self.assertEqual({2, 3}, set(llc_lines(c).values()))

    def test_a_mask_does_not_limit_hits(self):
        """A line placed under an old mask hits after the mask has moved away."""
        c = small()
        cache.set_mask(c, cache.MASKS, 0b001100)
        for line in range(40):
            cache.core_access(c, 0, line, 0, 0)
        kept = next(iter(llc_lines(c)))
        cache.set_mask(c, cache.MASKS, 0b000001)
        self.assertEqual(cache.LLC, cache.core_access(c, 0, kept, 0, 0))

    def test_ddio_allocates_in_its_ways_and_updates_anywhere(self):
        """A write to an absent line lands in DDIO's ways; to a present one it stays there."""
        c = small()
        cache.dma_write(c, 7, 0, 1)
        self.assertIn(llc_lines(c)[7], {4, 5})
        cache.set_mask(c, cache.DDIO, 0b000010)
        before = llc_lines(c)[7]
        cache.dma_write(c, 7, 0, 1)
        self.assertEqual(before, llc_lines(c)[7])
        self.assertEqual((1, 1), (totals(c)["ddio_hits"], totals(c)["ddio_misses"]))

    def test_a_touched_dma_line_migrates_to_the_inclusive_ways(self):
        """A core's first access moves the line to way 0 or 1 and leaves a copy in L2."""
        c = small()
        cache.dma_write(c, 7, 1, 1)
        self.assertEqual(cache.LLC, cache.core_access(c, 0, 7, 0, 1))
        self.assertIn(llc_lines(c)[7], {0, 1})
        self.assertEqual(cache.L2, cache.core_access(c, 0, 7, 0, 1))

    def test_a_read_dma_line_that_l2_gives_back_moves_to_the_ways_of_its_core(self):
        """There the device's next write finds it (A4, figure 7)."""
        c = small()
        cache.set_mask(c, cache.MASKS, 0b001100)
        cache.dma_write(c, 7, 1, 1)
        cache.core_access(c, 0, 7, 0, 1)
        self.assertIn(llc_lines(c)[7], {0, 1})
        for line in range(11, 11 + 4 * 40, 4):  # of the same set of L2
            cache.core_access(c, 0, line, 0, 0)
            if llc_lines(c)[7] in {2, 3}:
                break
        self.assertIn(llc_lines(c)[7], {2, 3})
        before = totals(c)["ddio_hits"]
        cache.dma_write(c, 7, 1, 1)
        self.assertEqual(before + 1, totals(c)["ddio_hits"])

    def test_a_dma_line_pushes_no_other_out_of_the_inclusive_ways(self):
        """With as many there as there is room for, each in an L2 too, the next leaves the LLC."""
        c = small(slices=1, llc_sets_per_slice=1, inclusive_ways=WayMask(0b000001))
        for line in (4, 5):
            cache.dma_write(c, line, 1, 1)
            cache.core_access(c, 0, line, 0, 1)
        self.assertEqual({4: 0}, llc_lines(c))
        self.assertEqual(0, totals(c)["recalled"])
        for line in (4, 5):
            self.assertEqual(cache.L2, cache.core_access(c, 0, line, 0, 1))

    def test_dca_off_writes_to_memory_and_drops_copies(self):
        """Without DCA neither cache holds the line after a device wrote it."""
        c = small()
        cache.core_access(c, 0, 7, 0, 1)
        cache.dma_write(c, 7, 1, 0)
        self.assertEqual(cache.MEMORY, cache.core_access(c, 0, 7, 0, 1))
        self.assertEqual(1, totals(c)["dma_memory_writes"])

    def test_traffic_by_port(self):
        """A device's dirty lines count when evicted, and what it reads from memory; no others."""
        owned = np.array([[100, 200, 1], [200, 300, 0]], np.int64)
        (c,) = cache.make_sockets(SMALL, 1, 2, owned)
        rows = [cache.MASKS + 3, cache.MASKS + 4]
        for row in rows:
            cache.set_mask(c, row, 0b010000)
        written = {0: range(200, 260), 1: range(100, 140)}
        for lines, row in zip((written[0], written[1]), rows, strict=True):
            for line in lines:
                cache.dma_write(c, line, 0, 1 + row)
        held = llc_lines(c)
        gone = [sum(line not in held for line in written[port]) for port in (0, 1)]
        self.assertEqual(gone, c.moved.tolist())
        self.assertTrue(all(gone))
        absent = next(line for line in written[1] if line not in held)
        for line in (absent, absent, 299, 5, 300):
            cache.dma_read(c, line, 0)
        self.assertEqual([gone[0] + 1, gone[1] + 2], c.moved.tolist())
        before = c.moved.copy()
        for core in range(3):
            cache.set_mask(c, cache.MASKS + core, 0b001100)
        for line in range(400, 600):  # a core's own lines are nobody's
            cache.core_access(c, 0, line, 1, 1)
        self.assertGreater(totals(c)["write_backs"], before.sum())
        self.assertEqual(before.tolist(), c.moved.tolist())
        for line in range(600, 700):  # a line that a core took alone is the core's
            cache.core_access(c, 1, next(iter(held)), 1, 0b111)
            cache.core_access(c, 1, line, 0, 0b111)
        self.assertEqual(before.tolist(), c.moved.tolist())

    def test_lru_stack_property(self):
        """Of an LLC that fills the hits of w ways are among those of w + 1: it replaces by LRU."""
        rng = random.Random(4)
        trace = [int(rng.triangular(0, 90, 0)) for _ in range(4000)]
        hits_before = set()
        for count in range(1, 7):
            c = small(replacement="LRU", inclusive_ways=WayMask(0))
            cache.set_mask(c, cache.DDIO, WayMask.span(0, count))
            hits = set()
            for step, line in enumerate(trace):
                before = c.totals[cache.TOTALS.ddio_hits]
                cache.dma_write(c, line, 0, 1)
                if c.totals[cache.TOTALS.ddio_hits] > before:
                    hits.add(step)
            self.assertLessEqual(hits_before, hits)
            self.assertGreater(len(hits), len(hits_before))
            hits_before = hits

    def test_a_stream_passes_lines_that_come_back(self):
        """What the LLC has served before stays while a stream of new lines goes through its ways.

        A working set that fits in LLC and L2 together, then one pass over as many lines as the
        caches hold several times, by another core on the same ways.
        """
        c = small(cores=2, slices=1)
        working = range(28)
        for _ in range(20):
            for line in working:
                cache.core_access(c, 0, line, 0, 0)
        before = c.served[0].copy()
        for number in range(400):
            cache.core_access(c, 1, 1000 + number, 0, 0)
            cache.core_access(c, 0, number % len(working), 0, 0)
        hits, misses = (c.served[0] - before)[[cache.LLC, cache.MEMORY]]
        self.assertGreater(hits, 9 * misses)

    def test_masks_apart_leave_each_other_alone(self):
        """What is replaced in ways that a core may not use does not age the lines of its own."""
        c = small(cores=2)
        cache.set_mask(c, cache.MASKS, 0b001100)
        cache.set_mask(c, cache.MASKS + 1, 0b110000)
        rng = random.Random(6)
        trace = [rng.randrange(90) for _ in range(500)]
        alone = small(cores=2)
        cache.set_mask(alone, cache.MASKS, 0b001100)
        for number, line in enumerate(trace):
            cache.core_access(c, 1, 5000 + number, 0, 0)
            self.assertEqual(
                cache.core_access(alone, 0, line, 0, 0), cache.core_access(c, 0, line, 0, 0)
            )

    def test_l2_drops_what_the_streamer_fetched_for_nobody(self):
        """A line fetched ahead leaves L2 for the LLC only if an instruction has asked for it."""
        for used, kept in ((False, set()), (True, {0})):
            c = small(slices=1)
            cache.prefetch(c, 0, 0, 0)
            if used:
                cache.core_access(c, 0, 0, 0, 0)
            for number in range(1, 4):  # L2 has three ways
                cache.core_access(c, 0, 4 * number, 0, 0)
            self.assertEqual(kept, set(llc_lines(c)))
            self.assertEqual(not used, bool(totals(c)["useless"]))

    def test_what_the_streamer_fetches_crosses_the_memory_bus_once(self):
        """A fetch from memory counts as traffic, one that finds the line in a cache does not."""
        c = small()
        for expected in (1, 1):
            cache.prefetch(c, 0, 5, 0)
            self.assertEqual(expected, memory_lines(c))
        self.assertEqual(0, c.served.sum())

    def test_conservation(self):
        """Lines that entered the LLC have left it or are there; dirty ones have been written back.

        A line that some cache had dirty, and none has any more, was written back, except the one
        that a device has just written to memory.
        """
        rng = random.Random(5)
        c = small()
        dirty, written_back = set(), 0
        for _ in range(6000):
            line, write, overwritten = rng.randrange(200), rng.randrange(2), set()
            if rng.random() < 0.3:
                write = int(rng.random() < 0.9)
                overwritten = set() if write else {line}
                cache.dma_write(c, line, EVERYONE, write)
            else:
                cache.core_access(c, rng.randrange(3), line, write, EVERYONE)
            before, dirty = dirty | ({line} if write else set()), dirty_lines(c)
            written_back += len(before - dirty - overwritten)
        n = totals(c)
        entered = n["ddio_placed"] + n["victims_placed"]
        self.assertEqual(entered, n["evicted"] + n["moved"] + n["flushed"] + len(llc_lines(c)))
        self.assertEqual(written_back, n["write_backs"])
        self.assertLess(written_back, n["evicted"])
        self.assertGreater(n["flushed"], 0)

    def test_counts_by_slice_add_up(self):
        """The slices' DDIO counters add up to the totals and share them about evenly."""
        c = small()
        for line in range(4000):
            cache.dma_write(c, line % 900, 0, 1)
        n = totals(c)
        self.assertEqual([n["ddio_hits"], n["ddio_misses"]], c.ddio.sum(axis=0).tolist())
        self.assertLess(abs(c.ddio[0].sum() / 4000 - 0.5), 0.05)


class TestSets(unittest.TestCase):
    """Where lines lie."""

    def test_slices_are_drawn_alike(self):
        """Every slice gets its share of the lines of one set, and sets differ as if by lot."""
        c = cache.make(machine.GOLD_6140, 32)
        sets = c.llc.shape[0]
        lines = np.array([cache.llc_set(c, 7 * sets + line) for line in range(40 * sets)])
        loads = np.bincount(lines, minlength=sets)
        self.assertEqual(sets, len(loads))
        # Of a Poisson distribution the variance is its mean.
        self.assertLess(abs(loads.var() / 40 - 1), 0.15)
        by_slice = loads.reshape(18, -1).sum(axis=1)
        self.assertLess(abs(by_slice / by_slice.mean() - 1).max(), 0.05)

    def test_an_even_hash_fills_each_set_once_in_a_block(self):
        """A block has a line for each set of the LLC; in another block slices come otherwise."""
        for slices in (14, 18, 20, 32):
            described = dataclasses.replace(machine.GOLD_6140, slices=slices, even_slices=True)
            c = cache.make(described, 32)
            sets = c.llc.shape[0]
            blocks = [
                [cache.llc_set(c, block * sets + line) for line in range(sets)]
                for block in (0, 7, cache.DRAWN_LINES // sets)
            ]
            for block in blocks:
                self.assertEqual(sets, len(set(block)))
            self.assertNotEqual(blocks[0], blocks[1])

    def test_pages_of_a_thread_lie_in_drawn_frames(self):
        """Lines of a page stay together and in their place; no two lines share a number."""
        for page_bytes, lines in ((4096, 2), (2 << 20, 1024)):
            described = dataclasses.replace(machine.GOLD_6140, page_bytes=page_bytes)
            c = cache.make(described, 32)
            placed = np.array([cache.frame_of(c, line) for line in range(8 * 1024)])
            self.assertEqual(len(placed), len(np.unique(placed)))
            self.assertGreaterEqual(placed.min(), cache.DRAWN_LINES)
            self.assertLess(placed.max(), 2 * cache.DRAWN_LINES)
            pages = placed.reshape(-1, lines)
            self.assertTrue((pages - pages[:, :1] == np.arange(lines)).all())
            self.assertTrue((pages[:, 0] % lines == 0).all())
            self.assertFalse((np.diff(pages[:, 0]) == lines).all())

    def test_large_pages_are_contiguous(self):
        """Memory in pages of 1 GiB is where it was reserved."""
        c = cache.make(machine.GOLD_6140, 32)
        self.assertEqual([0, 77, 12345], [cache.frame_of(c, line) for line in (0, 77, 12345)])

    def test_low_bits_name_the_set_in_a_slice(self):
        """Lines of one set of L2 stay in the sets of the LLC that are sampled with it."""
        for described in machine.MACHINES.values():
            for sampling in (1, 32):
                c = cache.make(described, sampling)
                each = described.llc_sets_per_slice // sampling
                for line in (0, 1, each, 12345, (1 << 28) - 1):
                    index = cache.llc_set(c, line)
                    self.assertEqual(line % each, index % each)
                    self.assertLess(index, c.llc.shape[0])


class TestSampling(unittest.TestCase):
    """Which lines stand for the others."""

    def test_offsets_are_spread(self):
        """Each of the 32 places in a group is chosen about equally often."""
        chosen = cache.sampled_offset(np.arange(32000, dtype=np.int64), 32)
        counts = np.bincount(chosen, minlength=32)
        self.assertTrue(np.all(np.abs(counts - 1000) < 200), counts)

    def test_sampling_must_be_a_power_of_two(self):
        """Anything else is refused with what is allowed."""
        with self.assertRaisesRegex(ValueError, "power of two"):
            cache.make(machine.GOLD_6140, 24)
