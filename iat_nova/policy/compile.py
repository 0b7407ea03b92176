# SPDX-License-Identifier: Apache-2.0
"""From a valid document to rules and parameters, with the checks beyond the schema."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

from iat_nova.model import (
    HostFacts,
    Message,
    Parameters,
    Priority,
    WayMask,
    message,
)
from iat_nova.nova import extra_specs
from iat_nova.nova.extra_specs import Io
from iat_nova.policy import schema, units
from iat_nova.policy.document import Document
from iat_nova.policy.problems import Path, Problem, of_spec, of_specs, path_text
from iat_nova.policy.rendered import facts
from iat_nova.policy.rules import DEFAULT_CLASS, SPECS, ClassRule, Match, Rules, WayBounds


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """A policy's content; `problems` make the policy invalid, `warnings` do not."""

    parameters: Parameters
    rules: Rules
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def compile_policy(document: Document, value: Any, host: HostFacts) -> Compiled:
    """Compile the valid part of a document, as `validate` returned `value`, for a host."""
    return _Compiler(document, host).compile(value)


class _Compiler:
    """Walk the valid values once and collect contradictions between values."""

    def __init__(self, document: Document, host: HostFacts) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        known: dict[str, Any] = facts(host)
        self.ways: int | None = known["ways"]
        self.widths = sorted({domain.ways for domain in host.domains})
        self.way_bytes: int | None = known["way_bytes"]

    def compile(self, value: dict[str, Any]) -> Compiled:
        self.reserved = self._reserved_ways(value.get("reserved_ways", []))
        parameters, io_on, io_off = self._parameters(value.get("parameters", {}))
        own = dict(self._own_parameters(value.get("domains", {}), parameters))
        parameters = dataclasses.replace(parameters, domains=own)
        base = ClassRule(
            DEFAULT_CLASS, Match(), Priority.BE, Io.AUTO, WayBounds(*schema.default_ways("default"))
        )
        default = self._class(value.get("default", {}), ("default",), base)
        classes = self._classes(value.get("classes", []), default)
        host, pool = (value.get(name, {}) for name in ("host", "pool"))
        pool_priority = pool.get("priority", "BE")
        stack_ways, host_ways, pool_ways = (
            self._ways(
                value.get(name, {}).get("ways", {}),
                (name, "ways"),
                WayBounds(*schema.default_ways(name)),
            )
            for name in ("stack", "host", "pool")
        )
        rules = Rules(
            default=default,
            classes=tuple(rule for _, rule in classes),
            stack_ways=stack_ways,
            host_ways=host_ways,
            host_priority=Priority(host.get("priority", "BE")),
            pool_ways=pool_ways,
            pool_priority=None if pool_priority == "highest" else Priority(pool_priority),
            pool_bandwidth_min=_percent(pool.get("bandwidth_min", "100%")),
            flavors=self._flavors(value.get("flavors", {})),
            reserved_ways=self.reserved,
            io_on_packets_per_s=io_on,
            io_off_packets_per_s=io_off,
        )
        self._check_guarantees(rules, classes)
        return Compiled(parameters, rules, tuple(self.problems), tuple(self.warnings))

    @property
    def usable_ways(self) -> int | None:
        """LLC ways that are not reserved; None on a host without a cache domain."""
        return None if self.ways is None else self.ways - self.reserved.count

    def _complain(self, path: Path, said: Message) -> None:
        self.problems.append(self.document.problem(path, said))

    def _warn(self, path: Path, said: Message) -> None:
        self.warnings.append(self.document.problem(path, said))

    def _text(self, path: Path, value: object) -> str:
        """Return a scalar as written in the file: extra specs keep texts such as 010 and yes."""
        return self.document.texts.get(path, str(value))

    # ------------------------------------------------------------------ parameters

    def _parameters(self, value: dict[str, Any]) -> tuple[Parameters, float, float]:
        fields: dict[str, Any] = {
            field: schema.parameter(key, value)
            for key, field in schema.FIELDS.items()
            if key in value
        }
        if "ddio_ways_max" not in value and self.usable_ways is not None:
            # The default leaves at least one way of a small LLC free of DDIO.
            most = min(Parameters().ddio_ways_max, self.usable_ways - 1)
            fields["ddio_ways_max"] = max(most, 1)
        parameters = Parameters(**fields)
        on, off = schema.parameter("io_on", value), schema.parameter("io_off", value)
        if "io_off" not in value:
            off = min(off, on)
        section = ("parameters",)
        self._check_bounds(parameters, section)
        if off > on:
            said = message("io-off-above-io-on", found_per_s=off, io_on_per_s=on)
            self._complain((*section, "io_off"), said)
        return parameters, on, off

    def _own_parameters(
        self, value: dict[str, Any], base: Parameters
    ) -> Iterator[tuple[int, Parameters]]:
        """Yield the id and the parameters of each cache domain with settings of its own."""
        for name, given in value.items():
            path = ("domains", name)
            if not name.isascii() or not name.isdigit() or len(name) > 4:
                self._complain(path, message("domain-not-a-number", found=name))
                continue
            fields = {schema.FIELDS[key]: schema.parameter(key, given) for key in given}
            own = dataclasses.replace(base, **fields)
            self._check_bounds(own, path)
            yield int(name), own

    def _check_bounds(self, parameters: Parameters, section: Path) -> None:
        least, most = parameters.ddio_ways_min, parameters.ddio_ways_max
        if least > most:
            said = message("number-above", found=least, key="ddio_ways_max", most=most)
            self._complain((*section, "ddio_ways_min"), said)
        if self.usable_ways is not None and most > self.usable_ways:
            said = message("number-above-llc", found=most, allowed=self._usable())
            self._complain((*section, "ddio_ways_max"), said)
        if parameters.backoff_initial_s > parameters.backoff_max_s:
            said = message(
                "backoff-above",
                found_s=parameters.backoff_initial_s,
                most_s=parameters.backoff_max_s,
            )
            self._complain((*section, "backoff_initial"), said)

    def _usable(self) -> Message:
        if self.reserved:
            reserved = self.reserved.count
            return message("usable-less-reserved", ways=self.usable_ways, reserved=reserved)
        return message("usable", ways=self.usable_ways)

    # ------------------------------------------------------------------------ ways

    def _reserved_ways(self, numbers: list[int | None]) -> WayMask:
        mask = 0
        for position, number in enumerate(numbers):
            if number is None:
                continue
            if self.ways is not None and number >= self.ways:
                said = message("no-such-way", found=number, last=self.ways - 1)
                self._complain(("reserved_ways", position), said)
            else:
                mask |= 1 << int(number)
        for ways in self.widths if mask else ():
            if not WayMask((1 << ways) - 1 & ~mask).is_contiguous:
                self._complain(("reserved_ways",), message("reserved-in-the-middle"))
                return WayMask(0)
        return WayMask(mask)

    def _ways(self, value: dict[str, Any], path: Path, base: WayBounds) -> WayBounds:
        """Read way bounds; missing bounds come from `base`, adjusted to the given bounds."""
        given = {
            key: count
            for key in ("min", "initial", "max")
            if key in value and (count := self._count(value[key], (*path, key))) is not None
        }
        usable = self.usable_ways
        for key, count in given.items():
            if usable is not None and count > usable:
                said = message("ways-above-llc", found=count, allowed=self._usable())
                self._complain((*path, key), said)
        ordered = [key for key in ("min", "initial", "max") if key in given]
        for lower, upper in itertools.pairwise(ordered):
            if given[lower] > given[upper]:
                said = message("ways-above", found=given[lower], key=upper, most=given[upper])
                self._complain((*path, lower), said)
        ceiling = min(given.get("initial", math.inf), given.get("max", math.inf))
        least = given.get("min", int(min(base.min, ceiling)))
        most = given.get("max", base.max)
        initial = given.get("initial", max(base.initial, least))
        if "max" in given:
            initial = min(initial, given["max"])
        elif most is not None:
            most = max(most, initial)
        return WayBounds(least, initial, most)

    def _count(self, value: int | float | str, path: Path) -> int | None:
        """Turn a count or a size into a number of ways, rounded up."""
        if not isinstance(value, str):
            return int(value)
        if self.way_bytes is None:
            self._complain(path, message("size-of-way-unknown", found=value))
            return None
        return math.ceil(units.parse(units.Kind.SIZE, value) / self.way_bytes)

    def _check_guarantees(self, rules: Rules, classes: list[tuple[int, ClassRule]]) -> None:
        """Warn if one guest does not fit beside stack, host and pool, or if these do not fit."""
        if self.usable_ways is None or self.problems:
            return
        own = rules.stack_ways.min + rules.host_ways.min + rules.pool_ways.min
        if own > self.usable_ways:
            said = message("own-guarantees-share", ways=own, usable=self.usable_ways)
            self._warn((), said)
            return
        guests: list[tuple[Path, ClassRule]] = [(("default", "ways"), rules.default)]
        guests += [(("classes", position, "ways"), rule) for position, rule in classes]
        for path, rule in guests:
            if own + rule.ways.min > self.usable_ways:
                said = message(
                    "class-guarantees-share",
                    **{"class": rule.name},
                    ways=rule.ways.min,
                    own=own,
                    usable=self.usable_ways,
                )
                self._warn(path, said)

    # --------------------------------------------------------------------- classes

    def _classes(
        self, values: list[dict[str, Any] | None], default: ClassRule
    ) -> list[tuple[int, ClassRule]]:
        rules: list[tuple[int, ClassRule]] = []
        for position, value in enumerate(values):
            if value is None:
                continue
            path = ("classes", position)
            # A missing or wrong name is already among the problems.
            rule = self._class(value, path, dataclasses.replace(default, name=""))
            if rule.name in schema.RESERVED_CLASS_NAMES:
                self._complain((*path, "name"), message("class-name-taken", found=rule.name))
            for earlier_position, earlier in rules:
                where = path_text(("classes", earlier_position))
                if rule.name and earlier.name == rule.name:
                    said = message("class-name-used", found=rule.name, by=where)
                    self._complain((*path, "name"), said)
                if earlier.match.covers(rule.match):
                    self._warn(path, message("class-never-reached", by=where))
                    break
            rules.append((position, rule))
        return rules

    def _class(self, value: dict[str, Any], path: Path, base: ClassRule) -> ClassRule:
        io = value.get("io")
        return ClassRule(
            name=value.get("name", base.name),
            match=self._match(value.get("match", {}), (*path, "match")),
            priority=Priority(value["priority"]) if "priority" in value else base.priority,
            io=base.io if io is None else Io(str(io).lower()),
            ways=self._ways(value.get("ways", {}), (*path, "ways"), base.ways),
            bandwidth_min=_percent(value["bandwidth_min"])
            if "bandwidth_min" in value
            else base.bandwidth_min,
            weight=float(value.get("weight", base.weight)),
        )

    def _match(self, value: dict[str, Any], path: Path) -> Match:
        asked: dict[str, Any] = {
            kind: {
                name: tuple(self._texts(one, (*path, kind, name))) for name, one in wanted.items()
            }
            if kind in SPECS
            else tuple(self._texts(wanted, (*path, kind)))
            for kind, wanted in value.items()
            if kind != "not"
        }
        for name in asked.get("extra_specs", {}):
            if (problem := extra_specs.unknown(name)) is not None:
                self._complain((*path, "extra_specs", name), of_spec(problem))
        barred = value.get("not")
        none_of = None if barred is None else self._match(barred, (*path, "not"))
        return Match.of(none_of, **asked)

    def _texts(self, value: object, path: Path) -> Iterator[str]:
        if isinstance(value, list):
            for position, item in enumerate(value):
                if item is not None:
                    yield self._text((*path, position), item)
        else:
            yield self._text(path, value)

    def _flavors(self, value: dict[str, Any]) -> dict[str, dict[str, str]]:
        flavors = {}
        for flavor, values in value.items():
            path = ("flavors", flavor)
            specs = {name: self._text((*path, name), text) for name, text in values.items()}
            for key, problem in of_specs(specs):
                self._complain(path if key is None else (*path, key), problem)
            flavors[flavor] = specs
        return flavors


def _percent(value: int | float | str) -> int:
    """Turn a fraction into percent, rounded up because the value is a minimum."""
    return math.ceil(round(100 * units.parse(units.Kind.FRACTION, value), 6))
