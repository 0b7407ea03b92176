# SPDX-License-Identifier: Apache-2.0
"""Facts of the host itself: CPUs now online, NICs. Cache domains come from CAT."""

from __future__ import annotations

import pathlib
import socket
import time

from iat_nova.common.cpulist import parse_cpus
from iat_nova.inventory.pci import Pci
from iat_nova.model import CacheDomain, HostFacts


def online_cpus(root: str | pathlib.Path = "/sys") -> tuple[int, ...]:
    """Return the CPUs that are online. Raises `OSError`, `ValueError`."""
    text = (pathlib.Path(root) / "devices/system/cpu/online").read_text("ascii")
    return tuple(sorted(parse_cpus(text)))


WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def time_of_day(wall_s: float) -> tuple[int, str]:
    """Return hour and weekday of the host's local time, in the policies' format."""
    local = time.localtime(wall_s)
    return local.tm_hour, WEEKDAYS[local.tm_wday]


def read_host(
    domains: tuple[CacheDomain, ...],
    root: str | pathlib.Path = "/sys",
    *,
    wall_s: float,
    unseen_domains: int = 0,
) -> HostFacts:
    """Read the kernel's present facts, at `wall_s` of the wall clock.

    Raises `OSError` without a sysfs at `root`.
    """
    hour, weekday = time_of_day(wall_s)
    return HostFacts(
        hour=hour,
        weekday=weekday,
        hostname=socket.gethostname(),
        domains=domains,
        online_cpus=online_cpus(root),
        nics=Pci(root).nics(),
        unseen_domains=unseen_domains,
    )
