# SPDX-License-Identifier: Apache-2.0
"""The facts of a host as a file, to test policies elsewhere: in CI, or for another host."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Any

import yaml

from iat_nova.common.cpulist import format_cpus, parse_cpus
from iat_nova.common.readers import FACTS
from iat_nova.common.untrusted import whole
from iat_nova.model import WAYS_LIMIT, CacheDomain, Facts, message
from iat_nova.model.message import MessageError, as_message
from iat_nova.policy import PolicyError, document
from iat_nova.policy.rendered import Rendered
from iat_nova.store import records
from iat_nova.store.records import RecordError

ABOUT = "# iat-nova's facts of a host, for `iat-nova policy check --facts` elsewhere.\n"
_MOST = 1 << 16  # cache domains of a host, classes of a domain
_MOST_BYTES = 1 << 32  # per way
_CPUS = frozenset(
    ("cpus", "online_cpus", "dedicated_cpus", "floating_cpus", "emulator_cpus", "pmd_cpus")
)
_MASKS = frozenset(("coerced_ways", "reserved_ways", "ddio_found"))
_MESSAGE = {"code", "values"}  # the keys of a message: its values have other forms


class _Mask(int):
    """A number to be written in hexadecimal, as all other output has masks."""


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper, with `_Mask`."""


_Dumper.add_representer(
    _Mask, lambda dumper, mask: dumper.represent_scalar("tag:yaml.org,2002:int", hex(mask))
)


class FactsError(MessageError, RecordError):
    """A file has no valid facts; `message` has the reason."""


def dump(facts: Facts) -> str:
    """Return the facts as YAML, with CPUs as ranges and masks in hexadecimal."""
    plain = json.loads(json.dumps(records.unstructure(facts)))  # values of enumerations as text
    short = _changed(_changed(plain, _CPUS, format_cpus), _MASKS, _Mask)
    written: str = yaml.dump(short, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return ABOUT + written


def load(path: str | pathlib.Path) -> Facts:
    """Return the facts of a file. Raises `OSError`, `FactsError`."""
    text = FACTS.read(path).decode("utf-8-sig", "replace")
    try:
        found = document.read(Rendered(text, tuple(range(1, text.count("\n") + 2))))
        if found.problems:
            raise PolicyError(found.problems)
    except PolicyError as error:
        raise FactsError(message("facts-not-yaml", path=str(path), error=error.message)) from error
    plain = found.value
    if not isinstance(plain, dict) or "host" not in plain:
        raise FactsError(message("facts-of-no-host", path=str(path)))
    try:
        facts = records.structure(
            {"guests": [], "switch": None, **_changed(plain, _CPUS, _numbers)}, Facts
        )
        for domain in facts.host.domains:
            _check(domain)
    except (RecordError, ValueError) as error:
        said = message("of-source", source=str(path), problem=as_message(error))
        raise FactsError(said) from error
    return facts


def _check(domain: CacheDomain) -> None:
    """Raise `Unreadable` for a cache domain with impossible values."""
    plain = dataclasses.asdict(domain)
    whole(plain, "id", 0, _MOST)
    whole(plain, "ways", 1, WAYS_LIMIT)
    whole(plain, "classes", 1, _MOST)
    whole(plain, "min_ways", 1, WAYS_LIMIT)
    if domain.way_bytes is not None:
        whole(plain, "way_bytes", 1, _MOST_BYTES)


def _changed(part: Any, names: frozenset[str], form: Callable[[Any], Any]) -> Any:
    """Return the facts with values of these names in another form."""
    if isinstance(part, list):
        return [_changed(one, names, form) for one in part]
    if not isinstance(part, dict) or part.keys() == _MESSAGE:
        return part
    return {
        key: form(value) if key in names and value is not None else _changed(value, names, form)
        for key, value in part.items()
    }


def _numbers(value: Any) -> Any:
    return sorted(parse_cpus(str(value))) if isinstance(value, str | int) else value
