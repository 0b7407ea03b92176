# SPDX-License-Identifier: Apache-2.0
"""The cache's rules once more, slow and obvious: lists in order of use, one dict a line.

Written against the rules in the documentation of `iat_nova.experiments.engine`, not
their code: no stamps, no packed entries, no hint of who may share a line (it looks in every L2).
"""

from __future__ import annotations

from collections import Counter

L2, LLC, PEER, MEMORY, REMOTE = range(5)


class ReferenceCache:
    """`l2[core][set]` and `llc[set]` are lists, least recently used first; LLC lines have ages.

    `link` joins two of them into a machine of two sockets, each of which has all L2s and cores.
    """

    def __init__(
        self, cores, l2_sets, l2_ways, llc_sets, llc_ways, ddio, inclusive, set_of,
        fills=False, adca=None,
    ):  # fmt: skip
        self.l2 = [[[] for _ in range(l2_sets)] for _ in range(cores)]
        self.llc = [[] for _ in range(llc_sets)]
        self.l2_ways = l2_ways
        self.masks = [set(range(llc_ways)) for _ in range(cores)]
        self.ddio = set(ddio)
        self.inclusive = set(inclusive)
        self.set_of = set_of
        self.fills = fills
        self.here = range(cores)
        self.other = None
        self.adca = adca
        self.counts = Counter()
        self.served = [Counter() for _ in range(cores)]

    def link(self, other, here, there):
        self.here, other.here = here, there
        self.other, other.other = other, self
        other.l2, other.served, other.masks = self.l2, self.served, self.masks

    def _llc_line(self, line):
        return next((e for e in self.llc[self.set_of(line)] if e["line"] == line), None)

    def _use(self, entry):
        ways = self.llc[self.set_of(entry["line"])]
        ways.remove(entry)
        ways.append(entry)
        entry["age"] = 1 if entry["next"] or entry["age"] >= 2 else 0
        entry["next"] = False

    def _renew(self, entry, age):
        self._use(entry)
        entry["age"] = age

    def _place(self, entry, allowed, age):
        ways = self.llc[self.set_of(entry["line"])]
        entry["next"] = False
        entry["age"] = age
        free = allowed - {e["way"] for e in ways}
        # A line that is to go next is as good as an empty way.
        due = {e["way"]: e for e in ways if e["next"] and e["way"] in allowed}
        free = sorted(free | due.keys())
        if free and free[-1] in due:
            self._evict(due[free[-1]])
        if free:
            entry["way"] = free[-1]  # any would do; the kernel takes the highest
        else:
            held = [e for e in ways if e["way"] in allowed]
            victim = held[0]
            if not self.fills:
                victim = max(held, key=lambda e: (e["age"], e["way"]))
                missing = 3 - victim["age"]
                for e in held:
                    e["age"] += missing
            self._evict(victim)
            entry["way"] = victim["way"]
        ways.append(entry)

    def _evict(self, victim):
        self.llc[self.set_of(victim["line"])].remove(victim)
        if victim["shared"] and self.inclusive and victim["owner"] is not None:
            copies = self._l2_set(victim["owner"], victim["line"])
            for copy in [e for e in copies if e["line"] == victim["line"]]:
                copies.remove(copy)
                victim["dirty"] = victim["dirty"] or copy["dirty"]
                self.counts["recalled"] += 1
        self.counts["evicted"] += 1
        self.counts["write_backs"] += victim["dirty"]
        self.counts["leaked"] += victim["unread"]

    def _done_with(self, entry):
        """A device's line that was read goes next, where ADCA has learnt so."""
        if self.adca and entry["shared"] and self.adca.prioritised:
            entry["next"] = True

    def _l2_set(self, core, line):
        return self.l2[core][line % len(self.l2[core])]

    def _take_from_other_l2s(self, line, but, cores=None):
        for core in range(len(self.l2)) if cores is None else cores:
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
                if write and entry["copied"] and self.inclusive:
                    entry["copied"] = False
                    found = self._llc_line(line)
                    if found:
                        self.llc[self.set_of(line)].remove(found)
                        self.counts["moved"] += 1
                entry["dirty"] |= write
                entry["ahead"] = False
                self.served[core][L2] += 1
                return L2
        level, dirty, copied, been = MEMORY, write, False, False
        other = self._take_from_other_l2s(line, core, self.here)
        if other:
            level, dirty = PEER, write or other["dirty"]
        elif self.other:
            other = self._take_from_other_l2s(line, core, self.other.here)
            if other:
                level, dirty = REMOTE, write or other["dirty"]
        found = self._llc_line(line)
        if self.adca:
            self.adca.core_used(self.set_of(line), line)
        if found:
            level = LLC
            devices = found["unread"] or found["shared"]
            if devices and not (self.inclusive and (write or not self._may_stay(found))):
                self._share(found, core)
                copied = True
            elif self.fills and not devices:
                self._use(found)
                copied = True
            else:
                dirty = dirty or found["dirty"]
                self.llc[self.set_of(line)].remove(found)
                self.counts["moved"] += 1
                been = not devices
        elif self.other and level != PEER:
            taken = self._take_from_afar(line, write)
            if taken is not None:
                level, dirty = REMOTE, dirty or taken
        if self.fills and not found:
            filled = {"line": line, "dirty": False, "unread": False, "shared": False}
            self._place(filled, self.masks[core], 1)
            self.counts["filled"] += 1
            copied = True
        self.served[core][level] += 1
        entry = {"line": line, "dirty": bool(dirty), "copied": copied, "been": been}
        mine.append(dict(entry, ahead=False))
        if len(mine) > self.l2_ways:
            self._spill(core, mine.pop(0))
        return level

    def prefetch(self, core, line):
        """Fetch a line that nobody asked for; return the level, None where L2 has it."""
        if any(entry["line"] == line for entry in self._l2_set(core, line)):
            return None
        level = self.access(core, line, False)
        self.served[core][level] -= 1
        self._l2_set(core, line)[-1]["ahead"] = level == MEMORY and not self.fills
        return level

    def _take_from_afar(self, line, write):
        """Return whether a line that the other socket's LLC has comes dirty; None: it has none."""
        found = self.other._llc_line(line)
        if found is None:
            return None
        if write:
            self.other.llc[self.set_of(line)].remove(found)
            self.other.counts["moved"] += 1
            return found["dirty"]
        self.counts["cleaned"] += found["dirty"]
        found.update(dirty=False, unread=False, shared=True, owner=None)
        return False

    def _may_stay(self, entry):
        """A device's line is not copied at the price of another that an L2 has as well."""
        ways = self.llc[self.set_of(entry["line"])]
        held = [e for e in ways if e["way"] in self.inclusive]
        empty = max(self.inclusive - {e["way"] for e in held}, default=-1)
        due = max((e for e in held if e["next"]), key=lambda e: e["way"], default=None)
        if entry["way"] in self.inclusive or empty > (due["way"] if due else -1):
            return True
        if due:
            going = due
        elif self.fills:
            going = held[0]
        else:
            going = max(held, key=lambda e: (e["age"], e["way"]))
        return not (going["shared"] and going["owner"] is not None)

    def _share(self, entry, core):
        entry["owner"] = core
        migrates = self.inclusive and entry["way"] not in self.inclusive
        entry["unread"], entry["shared"] = False, True
        if migrates:
            self.llc[self.set_of(entry["line"])].remove(entry)
            self._place(entry, self.inclusive, 3)
            self.counts["migrated"] += 1
        else:
            self._use(entry)
        self._done_with(entry)

    def _spill(self, core, victim):
        if self.fills and not victim["dirty"]:
            return
        if victim["ahead"] and not victim["dirty"]:
            self.counts["useless"] += 1
            return
        found = self._llc_line(victim["line"])
        if found and not self.inclusive:
            found["dirty"] |= victim["dirty"]
            self._renew(found, 3)
            self._done_with(found)
            self.counts["victims_merged"] += 1
            return
        entry = dict(victim, unread=False, shared=False)
        if found:  # from the inclusive ways to those of its reader
            entry["dirty"] |= found["dirty"]
            self.llc[self.set_of(victim["line"])].remove(found)
            self.counts["moved"] += 1
        self._place(entry, self.masks[core], 0 if victim["been"] else 3)
        self.counts["victims_placed"] += 1

    def dma_write(self, line, dca):
        in_l2 = self._take_from_other_l2s(line, None)
        found = self._llc_line(line)
        afar = self.other and self.other._llc_line(line)
        if afar:
            self.other.llc[self.set_of(line)].remove(afar)
            self.other.counts["flushed"] += 1
        if not dca:
            if found:
                self.llc[self.set_of(line)].remove(found)
                self.counts["flushed"] += 1
            self.counts["dma_memory_writes"] += 1
            return
        through = False
        if self.adca:
            self.adca.device_wrote(self.set_of(line), line)
            through = self.adca.prioritised
            held = [e for e in self.llc[self.set_of(line)] if e["unread"] or e["shared"]]
            if not found and len([e for e in held if not e["next"]]) >= self.adca.left:
                self.counts["dma_memory_writes"] += 1
                return
        self.counts["written_through"] += through
        if found:
            found.update(dirty=not through, unread=True, shared=False)
            self._renew(found, 1)
            self.counts["ddio_hits"] += 1
        else:
            before = self.counts["write_backs"]
            entry = {"line": line, "dirty": not through, "unread": True, "shared": False}
            self._place(entry, self.ddio, 1)
            self.counts["dma_write_backs"] += self.counts["write_backs"] - before
            self.counts["ddio_placed"] += 1
            self.counts["ddio_hits" if in_l2 else "ddio_misses"] += 1

    def dma_read(self, line):
        found = self._llc_line(line)
        if found:
            self._use(found)
            self.counts["dma_read_hits"] += 1
        else:
            in_l2 = any(
                e["line"] == line for c in range(len(self.l2)) for e in self._l2_set(c, line)
            )
            hit = in_l2 or (self.other and self.other._llc_line(line))
            self.counts["dma_read_hits" if hit else "dma_read_misses"] += 1


class ReferenceAdca:
    """ADCA's monitors: a dict a monitored set, stacks with the latest use last.

    Written against the rules in `iat_nova.experiments.engine.adaptive`'s documentation, not against
    its code.
    """

    def __init__(self, choice, ways, spacing):
        self.choice, self.ways, self.spacing = choice, ways, spacing
        self.monitors = {}
        self.left = ways
        self.counter, self.prioritised = 0, False

    def _monitor(self, index):
        if index % self.spacing:
            return None
        fresh = {"cores": [], "all": [], "watched": None, "deepest": 0, "room": None}
        return self.monitors.setdefault(index, fresh)

    def _end_watch(self, monitor):
        monitor["watched"] = None
        monitor["room"] = self.ways - monitor["deepest"]
        rooms = [m["room"] for m in self.monitors.values() if m["room"] is not None]
        mean = (max(rooms) + min(rooms)) // 2
        self.left = {"aggressive": max(rooms), "conservative": min(rooms), "normal": mean}[
            self.choice
        ]

    def _judge(self, entry):
        reads = entry["reads"]  # None for a line that no device wrote
        if reads:
            step = 1 if reads == 1 else -1
            self.counter = max(0, min(15, self.counter + step))
            self.prioritised = {0: False, 15: True}.get(self.counter, self.prioritised)

    def _enter(self, monitor, line, by_device):
        stack = monitor["all"]
        found = next((e for e in stack if e["line"] == line), None)
        if found:
            stack.remove(found)
            if by_device:
                self._judge(found)
            elif found["reads"] is not None:
                found["reads"] += 1
        elif len(stack) == self.ways:
            self._judge(stack.pop(0))
        entry = found or {"line": line, "reads": None}
        if by_device:
            entry["reads"] = 0
        stack.append(entry)

    def core_used(self, index, line):
        monitor = self._monitor(index)
        if monitor is None:
            return
        stack = monitor["cores"]
        depth = len(stack) - stack.index(line) if line in stack else 0
        if line in stack:
            stack.remove(line)
        stack.append(line)
        del stack[: -self.ways]
        self._enter(monitor, line, False)
        if monitor["watched"] == line:
            self._end_watch(monitor)
        elif monitor["watched"] is not None:
            monitor["deepest"] = max(monitor["deepest"], depth)

    def device_wrote(self, index, line):
        monitor = self._monitor(index)
        if monitor is None:
            return
        self._enter(monitor, line, True)
        if monitor["watched"] == line:
            self._end_watch(monitor)
        if monitor["watched"] is None:
            monitor["watched"], monitor["deepest"] = line, 0
