# SPDX-License-Identifier: Apache-2.0
"""A rendered policy, and the host's facts for its template. Needs no Jinja2, which loads slowly."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from iat_nova.model import HostFacts

FACTS: Mapping[str, str] = {
    "hostname": "the host's name",
    "ways": "LLC ways, the least over all cache domains; none without a cache domain",
    "way_bytes": "bytes of one LLC way, the least over all cache domains; none when unknown",
    "cores": "CPUs that are online",
    "sockets": "cache domains; one a socket where a socket has one LLC",
    "domains": "list of cache domains, each with id, cpus, ways, classes, min_ways, way_bytes",
    "nics": "list of network cards, each with address, name, numa_node, speed_gbps",
    "nic_speed_gbps": "speed of the fastest network card in Gb/s; none when unknown",
    "hour": "hour of the host's local time, 0 to 23",
    "weekday": "day of the host's local time: mon, tue, wed, thu, fri, sat, sun",
}
"""The names that a template may use, each with a description."""


MAX_CHARACTERS = 1 << 20
"""Maximum length of a rendered policy; a longer text is treated as a runaway loop."""

LINE_END = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""A line's end according to PyYAML."""

_NEWLINE = re.compile("\r\n|\r")  # Jinja2 writes all ends of lines as "\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Rendered:
    """The text after Jinja2; `lines[n]` is the file's line of rendered line n + 1.

    `lines` is empty when the lines are unknown. `asked`: names of the facts in the template.
    """

    text: str
    lines: tuple[int, ...]
    asked: tuple[str, ...] = ()

    def source_line(self, rendered: int) -> int | None:
        """Return the file's line of a rendered line (both from 1), None when unknown."""
        if not self.lines:
            return None
        return self.lines[min(rendered, len(self.lines)) - 1]


def unchanged(source: str) -> Rendered:
    """Return what Jinja2 makes of a text without any part of a template."""
    text = _NEWLINE.sub("\n", source)
    pieces = text.split("\n")
    numbers = [*range(1, len(pieces) + 1)]
    if len(pieces) > 1 and not pieces[-1]:
        numbers[-1] -= 1  # behind the last line's end
    lines = [
        number for number, piece in zip(numbers, pieces, strict=True) for _ in LINE_END.split(piece)
    ]
    return Rendered(text, tuple(lines))


def facts(host: HostFacts) -> dict[str, object]:
    """Return the host's facts for a template, by the names of `FACTS`."""
    way_bytes = [domain.way_bytes for domain in host.domains if domain.way_bytes is not None]
    speeds = [nic.speed_gbps for nic in host.nics if nic.speed_gbps is not None]
    return {
        "hostname": host.hostname,
        "ways": min((domain.ways for domain in host.domains), default=None),
        "way_bytes": min(way_bytes, default=None),
        "cores": len(host.online_cpus),
        "sockets": len(host.domains),
        "domains": host.domains,
        "nics": host.nics,
        "nic_speed_gbps": max(speeds, default=None),
        "hour": host.hour,
        "weekday": host.weekday,
    }
