# SPDX-License-Identifier: Apache-2.0
"""The cache's rules once more, slow and obvious: lists in order of use, one dict a line.

Written against the rules in `iat_nova.sim.cache`'s documentation, not against its code: no
stamps, no packed entries, no hint of who may share a line (it looks in every L2).
"""

from __future__ import annotations

from collections import Counter

L2, LLC, PEER, MEMORY = range(4)


class ReferenceCache:
    """`l2[core][set]` and `llc[set]` are lists, least recently used first."""

    def __init__(self, cores, l2_sets, l2_ways, llc_sets, llc_ways, ddio, inclusive, set_of):
        self.l2 = [[[] for _ in range(l2_sets)] for _ in range(cores)]
        self.llc = [[] for _ in range(llc_sets)]
        self.l2_ways = l2_ways
        self.masks = [set(range(llc_ways)) for _ in range(cores)]
        self.ddio = set(ddio)
        self.inclusive = set(inclusive)
        self.set_of = set_of
        self.counts = Counter()
        self.served = [Counter() for _ in range(cores)]

    def _llc_line(self, line):
        return next((e for e in self.llc[self.set_of(line)] if e["line"] == line), None)

    def _use(self, entry):
        ways = self.llc[self.set_of(entry["line"])]
        ways.remove(entry)
        ways.append(entry)

    def _place(self, entry, allowed):
        ways = self.llc[self.set_of(entry["line"])]
        free = sorted(allowed - {e["way"] for e in ways})
        if free:
            entry["way"] = free[-1]  # any would do; the kernel takes the highest
        else:
            victim = next(e for e in ways if e["way"] in allowed)
            ways.remove(victim)
            self.counts["evicted"] += 1
            self.counts["write_backs"] += victim["dirty"]
            self.counts["leaked"] += victim["unread"]
            entry["way"] = victim["way"]
        ways.append(entry)

    def _l2_set(self, core, line):
        return self.l2[core][line % len(self.l2[core])]

    def _take_from_other_l2s(self, line, but):
        for core in range(len(self.l2)):
            for entry in self._l2_set(core, line):
                if entry["line"] == line and core != but:
                    self._l2_set(core, line).remove(entry)
                    return entry
        return None

    def access(self, core, line, write):
        mine = self._l2_set(core, line)
        for entry in mine:
            if entry["line"] == line:
                mine.remove(entry)
                mine.append(entry)
                entry["dirty"] |= write
                self.served[core][L2] += 1
                return L2
        level, dirty = MEMORY, write
        other = self._take_from_other_l2s(line, core)
        if other:
            level, dirty = PEER, write or other["dirty"]
        found = self._llc_line(line)
        if found:
            level = LLC
            if found["unread"] or found["shared"]:
                self._share(found)
            else:
                dirty = dirty or found["dirty"]
                self.llc[self.set_of(line)].remove(found)
                self.counts["moved"] += 1
        self.served[core][level] += 1
        mine.append({"line": line, "dirty": bool(dirty)})
        if len(mine) > self.l2_ways:
            self._spill(core, mine.pop(0))
        return level

    def _share(self, entry):
        migrates = self.inclusive and entry["way"] not in self.inclusive
        entry["unread"], entry["shared"] = False, True
        if migrates:
            self.llc[self.set_of(entry["line"])].remove(entry)
            self._place(entry, self.inclusive)
            self.counts["migrated"] += 1
        else:
            self._use(entry)

    def _spill(self, core, victim):
        found = self._llc_line(victim["line"])
        if found:
            found["dirty"] |= victim["dirty"]
            self._use(found)
            self.counts["victims_merged"] += 1
        else:
            entry = dict(victim, unread=False, shared=False)
            self._place(entry, self.masks[core])
            self.counts["victims_placed"] += 1

    def dma_write(self, line, dca):
        self._take_from_other_l2s(line, None)
        found = self._llc_line(line)
        if not dca:
            if found:
                self.llc[self.set_of(line)].remove(found)
                self.counts["flushed"] += 1
            self.counts["dma_memory_writes"] += 1
        elif found:
            found.update(dirty=True, unread=True, shared=False)
            self._use(found)
            self.counts["ddio_hits"] += 1
        else:
            self._place({"line": line, "dirty": True, "unread": True, "shared": False}, self.ddio)
            self.counts["ddio_misses"] += 1

    def dma_read(self, line):
        found = self._llc_line(line)
        if found:
            self._use(found)
            self.counts["dma_read_hits"] += 1
        elif any(e["line"] == line for c in range(len(self.l2)) for e in self._l2_set(c, line)):
            self.counts["dma_read_hits"] += 1
        else:
            self.counts["dma_read_misses"] += 1
