# SPDX-License-Identifier: Apache-2.0
"""Memory bandwidth on an EPYC: the policy's percentages are in the registers, in eighths of a GB/s.

The default strategy limits a best-effort stream behind which a database waits for memory.
"""

import dataclasses

from tests.lab import test_loop
from tests.lab.feeder import Behind
from tests.lab.lab import NEW_KERNEL
from tests.lab.registers import LINE
from tools import demo_host

SECONDS = 40.0
CPUS = 8  # of an L3 cache, of which there are two
GBPS, WHOLE = 47.6, 381  # what one of them can move, and in eighths
LEAST = 20  # percent
STREAM = 20e9  # bytes a second that the stream would move
CYCLES = 3e9  # a second, of a CPU
DATABASE, BATCH = (2, 3), (4, 5, 6, 7)


def guest(number, name, priority, cpus):
    """Return a guest without I/O."""
    specs = {"hw:cpu_policy": "dedicated", "iat:priority": priority, "iat:io": "false"}
    return demo_host.Guest(number, name, "m1.small", specs, cpus, "")


HOST = {
    "guests": [
        dataclasses.asdict(guest(1, "db", "PC", DATABASE)),
        dataclasses.asdict(guest(2, "batch", "BE", BATCH)),
    ],
    "switch": [],
    "dedicated": "2-7",
    "policy": f"default: {{bandwidth_min: {LEAST}%}}\n",
    "options": {"strategy": "pollute-buffer", "memory_bandwidth_gbps": GBPS},
    "seconds": SECONDS,
}


@dataclasses.dataclass(frozen=True)
class Limits:
    """The words that limit these guests' memory bandwidth, when time moved on from `at_s`."""

    at_s: float
    batch: int
    database: int


class Memory(Behind):
    """Memory for which a database waits the longer the more the stream moves. `seen`: `Limits`."""

    def __init__(self, lab, folder):
        super().__init__(folder)
        self._lab = lab
        self.seen = []

    def advance(self, now_s, until_s):
        """Feed what the two count under the stream's limit."""
        batch, database = (self._lab.mba(self._lab.pqr_assoc(c[0])[0]) for c in (BATCH, DATABASE))
        self.seen.append(Limits(now_s, batch, database))
        span_s = until_s - now_s
        moved = min(STREAM, batch / 8 * 1e9)
        misses = moved / LINE
        self._feed(BATCH, span_s, 4 * misses, misses / 0.9, misses)
        instructions = len(DATABASE) * CYCLES * (1.0 - 0.4 * moved / STREAM)
        self._feed(DATABASE, span_s, instructions, 0.02 * instructions, 0.006 * instructions)

    def _feed(self, cpus, span_s, instructions, references, misses):
        for cpu in cpus:
            each = (n / len(cpus) for n in (instructions, references, misses))
            of_it, *others = (round(n * span_s) for n in each)
            self._lab.add_core(cpu, of_it, round(CYCLES * span_s), *others)


class Epyc(test_loop.Closed):
    """The newer kernel, resctrl; what others set there comes back as it was."""

    def check_limits(self, module):
        """Each second the register has what was decided; at the end the limit that pays."""
        ((done, inventories),), feeder = self.go_through(
            HOST, Memory, module=module, kernel=NEW_KERNEL,
            options=("--cpu", "amd", "--ccx", str(CPUS)), cpus=2 * CPUS,
        )  # fmt: skip
        decided = {round(one.at_s, 3): one for one in done}
        compared = 0
        for moment in feeder.seen:
            one = decided.get(round(moment.at_s, 3))
            if one is None:
                continue
            (batch,) = (t for t in inventories[one.inventory_id].tenants if t.name == "batch")
            percent = one.decision.layout.bandwidth_of(batch.id)
            word = -(-percent * WHOLE // 100) if percent < 100 else 2047  # the default group's
            self.assertEqual((word, 2047), (moment.batch, moment.database), f"{moment.at_s} s")
            compared += 1
        self.assertGreater(compared, 30)
        words = [moment.batch for moment in feeder.seen]
        # Each limit is what best effort keeps (85 %) of the last, in whole percent: 85, 73, 63, 54
        # and 46 would not be felt by a stream of 42 %. The third, 29 %, does not pay.
        limits = [-(-percent * WHOLE // 100) for percent in (40, 34, 29)]
        self.assertEqual([2047, *limits], list(dict.fromkeys(words)))
        self.assertEqual({limits[1]}, set(words[-10:]))

    def test_a_stream_is_limited(self):
        """From what is counted to the register; back at the end."""
        self.check_limits("bandwidth.Ended")

    def test_killed(self):
        """Back after kill -9, by iat-nova restore."""
        self.check_limits("bandwidth.Killed")
