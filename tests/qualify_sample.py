# SPDX-License-Identifier: Apache-2.0
"""Rows as measured, made up for pages and tests: what good hardware shows, and what bad shows."""

from iat_nova.checks.qualify import bandwidth, ddio, mask, record, slices, write_time
from iat_nova.checks.qualify.api import Judgement, Outcome, Verdict
from iat_nova.checks.qualify.run import TESTS, outcome
from iat_nova.hardware.host.machine import ChosenInterface
from iat_nova.model import CacheDomain, WayMask, message

SIZES = (0.5, 1, 2, 3, 4, 6, 8, 12, 16)
WAY_BYTES = 1408 << 10


def obeys(ways, size):
    """A random walk hits what fits."""
    return max(0.02, 1 - ways / size) if size > ways else 0.02


def walks(misses, ways=(2, 4, 8, 11)):
    """Rows of the test of masks; `misses` gives the share from ways and the array's size."""
    return [
        mask.WalkRow(count, size, int(size * WAY_BYTES), share, 20.0 + 70.0 * share)
        for size in SIZES
        for count in ways
        for share in (misses(count, size),)
    ]


def stretches(*shares, lines=10e6, ours=True, reads=lambda asked: asked):
    """Rows of the test of DDIO: shares of misses with 2 and 6 ways in turn."""
    each = lines if isinstance(lines, list) else [lines] * len(shares)
    return [
        ddio.StretchRow(
            reads((2, 6)[n % 2]), (2, 6)[n % 2], total * (1 - share), total * share, ours
        )
        for n, (share, total) in enumerate(zip(shares, each, strict=True))
    ]


def counted(*lines, clusters=1):
    """Rows of the test of slices."""
    return [slices.SliceRow(0, number, count, clusters) for number, count in enumerate(lines)]


def streams(*rates):
    """Rows of the test of bandwidth, GB/s at 100, 50, 10 and again 100 per cent."""
    return [
        bandwidth.TrafficRow(percent, True, rate * 1e9)
        for percent, rate in zip((100, 50, 10, 100), rates, strict=True)
    ]


def writes():
    """Rows of the test of writes."""
    return [
        write_time.WriteRow(what, seconds * (1 + number % 5 / 10))
        for what, seconds in (("mask", 0.00012), ("DDIO", 0.00002))
        for number in range(20)
    ]


GOOD = {
    "mask": walks(obeys),
    "ddio": stretches(0.52, 0.04, 0.51, 0.05, 0.53, 0.04),
    "slices": counted(*(1_660_000 + 9_000 * (number * 7 % 18) for number in range(18))),
    "bandwidth": streams(12.4, 6.9, 1.6, 12.3),
    "write-time": writes(),
}
BAD = {
    "mask": walks(lambda ways, size: obeys(11, size)),
    "ddio": stretches(0.51, 0.5, 0.505, 0.51, 0.5, 0.505),
    "slices": counted(*[1_660_000] * 17, 900_000),
    "bandwidth": streams(12.4, 12.3, 12.5, 12.3),
    "write-time": writes(),
}


def sample(rows, missing=()):
    """Return the record of these rows, and of tests that could not be made."""
    outcomes = [outcome(TESTS[name], rows[name], TESTS[name].about_s) for name in rows]
    why = Judgement(
        Verdict.UNAVAILABLE, message("program-not-installed", program="stress-ng"),
        message("nothing-known"), message("install-program", program="stress-ng"),
    )  # fmt: skip
    outcomes = [
        Outcome(one.name, one.question, why, 0.0) if one.name in missing else one
        for one in outcomes
    ]
    return record.as_data(
        outcomes,
        version="1.0.0",
        at_s=1_795_390_000,
        kernel="6.12.57+deb13-amd64",
        cpu={
            "vendor": "GenuineIntel",
            "family": "6",
            "model": "85",
            "name": "Intel(R) Xeon(R) Gold 6140 CPU @ 2.30GHz",
            "stepping": "4",
            "microcode": "0x2007006",
        },
        choices=(
            ChosenInterface("cat", "resctrl", message("resctrl-arbitrates")),
            ChosenInterface("ddio", "msr", message("ddio-register-usable")),
            ChosenInterface("counters", "perf", message("perf-group-each-cpu")),
            ChosenInterface("ddio counters", "perf", message("cha-pmus-counted", pmus=18)),
        ),
        domain=CacheDomain(
            0, tuple(range(18)), 11, 8, ddio_found=WayMask(0x600), way_bytes=WAY_BYTES
        ),
    )
