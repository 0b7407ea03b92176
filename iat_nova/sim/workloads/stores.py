# SPDX-License-Identifier: Apache-2.0
"""Key-value stores under YCSB: RocksDB in its memtable, and Redis behind a network.

The mixes are YCSB's core workloads (Cooper et al., SoCC 2010), keys by Zipf with exponent 0.99.
What an operation costs without stalls is chosen, with the reason beside it; what it touches is
counted from each store's data structures.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from iat_nova.sim.workloads.locality import mixed, uniform, zipf
from iat_nova.sim.workloads.profile import Form, Profile


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One type of operation: own cycles, accesses beyond L1, bytes of its frames on the wire."""

    name: str
    own_cycles: float
    accesses: float
    request_bytes: int = 0
    reply_bytes: int = 0


Mix = Mapping[Operation, float]
"""Operations by their share; all together 1."""


def mean(mix: Mix, field: str) -> float:
    """Return the mean of a field of the operations of a mix."""
    return sum(share * float(getattr(operation, field)) for operation, share in mix.items())


# ---------------------------------------------------------------------------- RocksDB
# 10,000 records of 1 KB in the memtable, a skip list whose nodes hold key and value. A search
# passes about 10 nodes beyond those that L1 holds (branching 4, 6 to 7 levels, 2 to 3 comparisons
# a level, the upper levels hot), one line each; the record is 17 lines. A microsecond for a read:
# chosen, db_bench's order for a small memtable; an insertion with its sequence number and arena
# twice that.
_READ = Operation("read", 2300.0, 27.0)
_UPDATE = Operation("update", 4600.0, 27.0)
_INSERT = Operation("insert", 4600.0, 27.0)
# YCSB's scans are 1 to 100 records, here the mean of 50: each a node and its record.
_SCAN = Operation("scan", 2300.0 + 50 * 300.0, 10.0 + 50 * 18.0)
_MODIFY = Operation("read-modify-write", 6900.0, 54.0)

ROCKSDB_MIXES: Mapping[str, Mix] = {
    "a": {_READ: 0.5, _UPDATE: 0.5},
    "b": {_READ: 0.95, _UPDATE: 0.05},
    "c": {_READ: 1.0},
    "d": {_READ: 0.95, _INSERT: 0.05},
    "e": {_SCAN: 0.95, _INSERT: 0.05},
    "f": {_READ: 0.5, _MODIFY: 0.5},
}
# Of 27 accesses 17 (63 %) go to the record, by count; how the search's ten are shared out between
# the nodes of popular records and the upper levels, and those between two levels, is chosen, as are
# the overlap and the shares of writes.
_RECORDS = 10_000
_NODE = zipf(_RECORDS, 128)  # where a node starts: what a search sees of the records it passes
_RECORD = zipf(_RECORDS, 1100)
_UPPER = mixed((0.6, uniform(_RECORDS / 4 * 128)), (0.4, uniform(_RECORDS / 16 * 128)))
_POINT = mixed((0.2, _NODE), (0.17, _UPPER), (0.63, _RECORD))
# Keys are hashed, so the records that follow one another are anywhere.
_SCANNED = mixed((0.02, _UPPER), (0.98, uniform(_RECORDS * 1100)))


def _rocksdb(letter: str, mix: Mix) -> Profile:
    own = mean(mix, "own_cycles")
    return Profile(
        name=f"rocksdb-{letter}",
        form=Form.MEMORY,
        own_cycles=own,
        own_instructions=own * 1.5,
        # A search waits for each node; a record's lines come five at a time.
        overlap=(2.0, 1.0, 1.0, 1.0),
        accesses=mean(mix, "accesses"),
        writes_percent=30 if letter in "af" else 5,
        locality=_SCANNED if letter == "e" else _POINT,
    )


ROCKSDB = tuple(_rocksdb(letter, mix) for letter, mix in ROCKSDB_MIXES.items())

# ------------------------------------------------------------------------------ Redis
# YCSB keeps a record as a hash of 10 fields of 100 B, too long for Redis's compact form: a table
# entry, a key and a value of 2 to 3 lines each, and 8 lines of the record's own: 48 lines beyond
# L1 for a whole record, 20 to change one field. Beside them some 40 lines of sockets, buffers and
# the event loop, which L2 holds. 10 us for a read through the kernel's TCP: chosen, 100,000
# requests/s a core, what redis-benchmark shows without pipelining. Frames: 66 B of headers and
# the protocol's text.
_HGETALL = Operation("read", 23_000.0, 88.0, 110, 1300)
_HMSET = Operation("update", 19_000.0, 60.0, 260, 80)
_NEW = Operation("insert", 30_000.0, 100.0, 1370, 80)

REDIS_MIXES: Mapping[str, Mix] = {
    "a": {_HGETALL: 0.5, _HMSET: 0.5},
    "b": {_HGETALL: 0.95, _HMSET: 0.05},
    "c": {_HGETALL: 1.0},
    "d": {_HGETALL: 0.95, _NEW: 0.05},
    # A read-modify-write is two requests of the client.
    "f": {_HGETALL: 2 / 3, _HMSET: 1 / 3},
}
# A million records of 1 KB are 1.9 KB each with their keys, entries and the allocator's rounding.
# The weights are HGETALL's, 40 of 88 lines and 48, for all operations, and 400 KiB of sockets and
# buffers: chosen, as are the overlap and the share of writes.
_DATASET = mixed((0.45, uniform(400 << 10)), (0.55, zipf(1_000_000, 1900)))


def _redis(letter: str, mix: Mix) -> Profile:
    own = mean(mix, "own_cycles")
    return Profile(
        name=f"redis-{letter}",
        form=Form.NETWORK,
        own_cycles=own,
        own_instructions=own,
        overlap=(2.0, 4.0, 8.0, 8.0),
        accesses=mean(mix, "accesses"),
        writes_percent=25,
        locality=_DATASET,
        payload_share=1.0,
        request_bytes=round(mean(mix, "request_bytes")),
        reply_bytes=round(mean(mix, "reply_bytes")),
    )


REDIS = tuple(_redis(letter, mix) for letter, mix in REDIS_MIXES.items())
