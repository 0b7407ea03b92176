# SPDX-License-Identifier: Apache-2.0
"""The meaning of the flavor extra specs ``iat:*``, and nothing else.

nova-api imports this module through the validators, so only the standard library is imported here,
and the language is that of Python 3.9, as in the other modules that Nova loads.
Parsing never raises: problems come back as values beside the usable part. A value must be spelled
as listed (``PC``, not ``pc``): nova-api refuses other spellings, and a policy class that matches
``PC`` compares texts.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
from collections.abc import Mapping
from typing import Union

NAMESPACE = "iat:"
PRIORITY = "iat:priority"
IO = "iat:io"
LLC_WAYS = "iat:llc_ways"
LLC_WAYS_MAX = "iat:llc_ways_max"

RESOURCE_CLASS = "CUSTOM_IAT_LLC_WAY"
"""Guaranteed ways in Placement: offered by a host, requested by a flavor's ``resources:...``."""

RESOURCE = f"resources:{RESOURCE_CLASS}"
"""The extra spec by which a flavor requests guaranteed ways from Placement."""

WAYS_LIMIT = 64
"""More ways than any LLC has, as in `iat_nova.model`, which nova-api does not import."""


_SHOWN = 60  # characters of a wrong value
_MOST_RESOURCES = 10**9  # of one extra spec; no host has as many ways


class Io(str, enum.Enum):
    """Whether a guest counts as I/O, i.e. as network-intensive."""

    __str__ = str.__str__

    TRUE = "true"
    FALSE = "false"
    AUTO = "auto"  # its attachments and their packet rates decide


PRIORITIES = ("PC", "BE")
"""Performance-critical, best effort."""


@dataclasses.dataclass(frozen=True)
class Key:
    """One extra spec: its name, its meaning, and its allowed values.

    `values` lists all allowed values. `values` is empty for a whole number between `least` and
    `most`.
    """

    name: str
    description: str
    values: tuple[str, ...] = ()
    least: int = 1
    most: int = WAYS_LIMIT

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        return " or ".join(self.values) or f"a whole number from {self.least} to {self.most}"


KEYS: tuple[Key, ...] = (
    Key(
        PRIORITY,
        "Who is served first: PC (performance-critical) or BE (best effort).",
        PRIORITIES,
    ),
    Key(
        IO,
        "Whether the guest is network-intensive. auto: its attachments and their traffic decide.",
        tuple(Io),
    ),
    Key(LLC_WAYS, "LLC ways the guest starts with and never falls below."),
    Key(LLC_WAYS_MAX, "LLC ways the guest never exceeds."),
)

_BY_NAME: Mapping[str, Key] = {key.name: key for key in KEYS}


SpecValue = Union[str, int, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class SpecProblem:
    """Why an extra spec is not used: the code of a message, and its values."""

    code: str
    values: Mapping[str, SpecValue]


@dataclasses.dataclass(frozen=True)
class Wishes:
    """The extra specs of a flavor; None: the flavor has no such extra spec, or no usable value.

    `problems` has one entry for each ``iat:`` extra spec that could not be used.
    """

    priority: str | None = None  # one of PRIORITIES
    io: Io | None = None
    llc_ways: int | None = None
    llc_ways_max: int | None = None
    problems: tuple[SpecProblem, ...] = ()


def parse(extra_specs: Mapping[str, str]) -> Wishes:
    """Read the ``iat:`` keys of a flavor's extra specs.

    Of other namespaces only the ways that Placement counts are read: a flavor without
    ``iat:llc_ways`` is guaranteed this number.
    """
    found: dict[str, str] = {}
    problems: list[SpecProblem] = []
    for name, text in extra_specs.items():
        if (wrong := unknown(name)) is not None:
            problems.append(wrong)
        elif (key := _BY_NAME.get(name)) is not None:
            if (value := _value(key, text)) is None:
                problems.append(_refused(key, text))
            else:
                found[name] = value
    ways, most = (int(found[k]) if k in found else None for k in (LLC_WAYS, LLC_WAYS_MAX))
    said = LLC_WAYS
    counted = placement_ways(extra_specs)
    if ways is None and counted is not None and 1 <= counted <= WAYS_LIMIT:
        ways, said = counted, RESOURCE
    if ways is not None and most is not None and ways > most:
        values: dict[str, SpecValue] = {
            "name": LLC_WAYS_MAX,
            "most": most,
            "by": said,
            "ways": ways,
        }
        problems.append(SpecProblem("extra-spec-above", values))
        most = None
    return Wishes(
        priority=found.get(PRIORITY),
        io=Io(found[IO]) if IO in found else None,
        llc_ways=ways,
        llc_ways_max=most,
        problems=tuple(problems),
    )


def placement_ways(extra_specs: Mapping[str, str]) -> int | None:
    """Return how many guaranteed ways a flavor requests from Placement, or None without a request.

    Numbered and named groups (``resources1:``, ``resources_CACHE:``) request the same resource; the
    amounts are added.
    """
    asked = [_number(text) for name, text in extra_specs.items() if _asks(name)]
    amounts = [one for one in asked if one is not None and 0 <= one <= _MOST_RESOURCES]
    return sum(amounts) if amounts else None


def _asks(name: str) -> bool:
    group, _, resource_class = name.partition(":")
    return group.startswith("resources") and resource_class == RESOURCE_CLASS


def _value(key: Key, text: str) -> str | None:
    if key.values:
        return text if text in key.values else None
    number = _number(text)
    return str(number) if number is not None and key.least <= number <= key.most else None


def _number(text: str) -> int | None:
    """Return the whole number in a text as Nova's validators read it: ``+3`` is 3. None: none."""
    try:
        return int(text)
    except ValueError:
        return None


def _refused(key: Key, text: str) -> SpecProblem:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    if not key.values:
        bounds: dict[str, SpecValue] = {"least": key.least, "most": key.most}
        return SpecProblem("extra-spec-no-number", {"name": key.name, "found": shown, **bounds})
    spelled = {value.lower(): value for value in key.values}
    given: dict[str, SpecValue] = {
        "name": key.name,
        "found": shown,
        "allowed": tuple(map(str, key.values)),
    }
    if near := spelled.get(text.strip().lower()):
        return SpecProblem("extra-spec-misspelt", {**given, "near": str(near)})
    return SpecProblem("extra-spec-not-one-of", given)


def unknown(name: str) -> SpecProblem | None:
    """Return the error in an extra spec's name; None for known names and other namespaces."""
    if not name.startswith(NAMESPACE) or name in _BY_NAME:
        return None
    # Compare without the namespace: with the common prefix, any two names would look alike.
    tail = name.removeprefix(NAMESPACE)
    tails = [known.removeprefix(NAMESPACE) for known in _BY_NAME]
    close = [known for known in tails if tail and known.startswith(tail)]
    close = close or difflib.get_close_matches(tail, tails, n=1)
    if close:
        near = f"{NAMESPACE}{close[0]}"
        return SpecProblem("extra-spec-unknown-near", {"name": name, "near": near})
    return SpecProblem("extra-spec-unknown", {"name": name, "known": tuple(_BY_NAME)})
