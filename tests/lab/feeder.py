# SPDX-License-Identifier: Apache-2.0
"""The machine's side of a closed loop: what is behind the registers of a guest.

Time is handed over, not measured. The guest's clock writes up to when it wants to wait into the
first word of `CLOCK`; the feeder then advances what it feeds to that moment, under the masks
that the guest's kernel has put into its registers, feeds the counters, and writes the moment
reached into the second word. While either works the other's time stands still. Both words are
nanoseconds, little-endian, 64 bits; each has one writer.
"""

import dataclasses
import struct
import sys
import threading

from iat_nova.experiments.machines.machine import GOLD_6140
from iat_nova.experiments.server.server import EmulatedServer
from iat_nova.hardware.api import DEFAULT_CLASS, ClassMask
from iat_nova.model import WayMask

CLOCK = "clock"
WISH, REACHED = 0, 8  # offsets in bytes
LOOK_S = 0.002  # between two looks at the guest's wish
SLICES = 18


@dataclasses.dataclass(frozen=True)
class Seen:
    """What the registers of one socket showed when time moved on from `at_s`."""

    at_s: float
    ddio: WayMask
    cpus: dict[int, WayMask]  # of each CPU of the socket: the mask of its class


class Behind:
    """Keeps a guest's time in a thread of its own; a context manager, whose end raises a failure.

    `advance` is what happens between two of the guest's waits.
    """

    def __init__(self, folder):
        self._now_ns = 0
        self._path = folder / CLOCK
        self._path.write_bytes(bytes(16))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder")
        self.failure = None

    def advance(self, now_s, until_s):
        """Look at the registers, and feed what is counted until then."""
        raise NotImplementedError

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        if self.failure is not None:
            raise AssertionError("the feeder failed") from self.failure

    def _run(self):
        try:
            with open(self._path, "r+b", buffering=0) as clock:
                while not self._over.wait(LOOK_S):
                    clock.seek(WISH)
                    (wish_ns,) = struct.unpack("<Q", clock.read(8))
                    if wish_ns > self._now_ns:
                        self.advance(self._now_ns / 1e9, wish_ns / 1e9)
                        self._now_ns = wish_ns
                        clock.seek(REACHED)
                        clock.write(struct.pack("<Q", wish_ns))
        except (OSError, ValueError, LookupError) as error:
            self.failure = error
            print(f"feeder: {error!r}", file=sys.stderr)


class Feeder(Behind):
    """Runs a scenario's server behind socket 0 of a lab.

    `seen` holds what the registers showed at each of the guest's waits, by socket; the CPUs
    of a socket are numbered in a row, as the lab numbers them.
    """

    def __init__(self, lab, scenario, folder, *, sockets=1):
        super().__init__(folder)
        self._lab = lab
        self._server = EmulatedServer(scenario)
        self._cpus = GOLD_6140.cores
        self._server.watch(range(self._cpus))
        self._fed = self._server.read_counts()
        self._sockets = sockets
        self.seen = {socket: [] for socket in range(sockets)}

    def advance(self, now_s, until_s):
        """Run the server under the masks of socket 0."""
        for socket in range(self._sockets):
            self.seen[socket].append(self._look(socket))
        self._obey(self.seen[0][-1])
        self._server.wait(threading.Event(), until_s - self._server.now())
        self._feed(self._server.read_counts())

    def _look(self, socket):
        """Read what the guest has put into the registers of a socket."""
        first = socket * self._cpus
        masks = {
            cpu: WayMask(self._lab.cbm(self._lab.pqr_assoc(cpu)[0], socket))
            for cpu in range(first, first + self._cpus)
        }
        return Seen(self._server.now(), WayMask(self._lab.ddio_ways(socket)), masks)

    def _obey(self, seen):
        """Put the registers' masks on the emulated server: one class a mask."""
        default = ClassMask(DEFAULT_CLASS, (), WayMask(self._lab.cbm(0)))
        by_mask = {}
        for cpu, mask in seen.cpus.items():
            by_mask.setdefault(mask, []).append(cpu)
        classes = (ClassMask(f"{m:x}", tuple(cpus), m) for m, cpus in by_mask.items())
        self._server.apply(0, (default, *classes))
        self._server.write(0, seen.ddio)

    def _feed(self, now):
        """Add to the guest's counters what the server counted since the last time."""
        for cpu, counts in now.cores.items():
            before = self._fed.cores[cpu]
            self._lab.add_core(cpu, *(b - a for a, b in zip(before, counts, strict=True)))
        was, is_now = self._fed.domains[0], now.domains[0]
        # Spread over the slices only whole multiples arrive: the rest waits for the next time.
        hits = (is_now.ddio_hits - was.ddio_hits) // SLICES * SLICES
        misses = (is_now.ddio_misses - was.ddio_misses) // SLICES * SLICES
        self._lab.add_pcie(write_hits=hits, write_misses=misses)
        domain = is_now._replace(
            ddio_hits=was.ddio_hits + hits, ddio_misses=was.ddio_misses + misses
        )
        self._fed = dataclasses.replace(now, domains={0: domain})
