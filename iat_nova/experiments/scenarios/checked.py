# SPDX-License-Identifier: Apache-2.0
"""A scenario's document, checked by a schema: valid values in base units, problems by path.

The schema is ``scenario.schema.yaml``; the messages of problems are the policy's.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonschema

from iat_nova.common import own_yaml
from iat_nova.common.untrusted import shortened
from iat_nova.model import Message, message, verbatim
from iat_nova.model.message import as_message
from iat_nova.policy import units
from iat_nova.policy.document import Document
from iat_nova.policy.problems import Path, Problem, nearest
from iat_nova.policy.schema import Schema
from iat_nova.policy.units import Kind
from iat_nova.policy.validate import VALIDATOR, complaints, found, validate

_BITS = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kKMG]?)(?:b/s|bps|bit/s)\s*")
_BYTES = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kKMG]?)B/s\s*")
_FACTORS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
RATES = {
    "bits": (_BITS, "a rate such as 8Gb/s or 500Mb/s"),
    "bytes": (_BYTES, "a bandwidth such as 3.2GB/s or 500MB/s"),
}

_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
PCI = "a PCI address such as 0000:3b:00.0"

Choices = Mapping[str, Sequence[object]]
"""The allowed names, by the schema's word for each kind of name."""


class Checked:
    """A document, the valid part of the document, and the problems so far."""

    def __init__(self, document: Document, choices: Choices, cpu_count: int) -> None:
        self.document = document
        self._validator = functools.partial(_validator, choices, cpu_count)
        right, problems = validate(document, self._validator(SCHEMA))
        self.problems: list[Problem] = [*document.problems, *problems]
        self.value: dict[str, Any] = plain(SCHEMA, right)

    def complain(self, path: Path, said: Message | str) -> None:
        """Add a problem at a path."""
        self.problems.append(self.document.problem(path, as_message(said)))

    def value_of(self, name: str, path: Path, value: object) -> Any:
        """Return a value in base units, checked by a definition of the schema; None if invalid."""
        schema = SCHEMA["$defs"][name]
        wrong = list(complaints(self._validator({**schema, "$defs": _DEFS}), value))
        for _, said in wrong:
            self.complain(path, said)
        return None if wrong else plain(schema, value)


def plain(schema: Schema, value: Any) -> Any:
    """Return a valid value in base units, with the names of fields as keys.

    Incomplete values (a required key is missing) are left out, or None in a list.
    """
    if "$ref" in schema:
        schema = {**_DEFS[schema["$ref"].rpartition("/")[2]], **schema}
    if "quantity" in schema:
        number = units.parse(Kind(schema["quantity"]), value)
        return int(number) if schema["quantity"] == Kind.SIZE else number
    if "rate" in schema:
        return _rate(schema["rate"], value)
    if isinstance(value, list):
        of = schema.get("items", {})
        return [plain(of, one) if _is_whole(of, one) else None for one in value]
    if not isinstance(value, dict):
        return value
    known, other = schema.get("properties", {}), schema.get("additionalProperties", {})
    parts = {key: known.get(key, other) for key in value}
    return {
        of.get("field", key): plain(of, value[key])
        for key, of in parts.items()
        if _is_whole(of, value[key])
    }


def _is_whole(schema: Schema, value: object) -> bool:
    """Tell whether a value has all required keys; wrong keys have been left out before."""
    required = schema.get("required", ())
    return not required or (isinstance(value, dict) and value.keys() >= set(required))


def _rate(of: str, value: object) -> float | None:
    """Return a rate in its base unit, None for an invalid rate."""
    match = RATES[of][0].fullmatch(value) if isinstance(value, str) else None
    return None if match is None else float(match[1]) * _FACTORS[match[2]]


def _check_rate(
    _validator: object, of: str, value: object, _schema: Schema
) -> Iterator[jsonschema.ValidationError]:
    rate = _rate(of, value)
    if rate is None or (of == "bytes" and rate == 0):
        yield _wrong(value, RATES[of][1])


def _check_power(
    _validator: object, _on: object, value: object, schema: Schema
) -> Iterator[jsonschema.ValidationError]:
    if "quantity" not in schema:
        least, most, number = schema["minimum"], schema["maximum"], value
    else:
        least, most = schema["least"], schema["most"]
        try:
            number = int(units.parse(Kind(schema["quantity"]), value))
        except units.UnitError:
            return  # the keyword `quantity` reports this
    if type(number) is int and least <= number <= most and number & (number - 1):
        yield _wrong(value, f"a power of two from {least} to {most}")


def _check_choice(
    choices: Choices, _validator: object, of: str, value: object, _schema: Schema
) -> Iterator[jsonschema.ValidationError]:
    names = choices[of]
    if isinstance(value, list | dict) or value not in names:
        words = [str(name) for name in names]
        near = nearest(str(value), words) if len(words) > 1 else None
        allowed = ", ".join(words) or "nothing, as the scenario has none"
        yield _wrong(value, allowed + (f"; did you mean {near}?" if near else ""))


def _check_cpus(
    cpu_count: int, _validator: object, _on: object, value: object, _schema: Schema
) -> Iterator[jsonschema.ValidationError]:
    if (
        not isinstance(value, list)
        or not value
        or len(set(map(str, value))) < len(value)
        or any(type(cpu) is not int or not 0 <= cpu < cpu_count for cpu in value)
    ):
        given = verbatim(shortened(json.dumps(value)))
        yield _not_allowed(given, f"a list of CPUs, 0 to {cpu_count - 1}, each once")


def _check_pci(
    _validator: object, _on: object, value: object, _schema: Schema
) -> Iterator[jsonschema.ValidationError]:
    if not isinstance(value, str) or not _PCI.fullmatch(value):
        yield _wrong(value, PCI)


def _wrong(value: object, allowed: str) -> jsonschema.ValidationError:
    return _not_allowed(found(value), allowed)


def _not_allowed(given: Message, allowed: str) -> jsonschema.ValidationError:
    """Return an error with a message of the policy in the place of its text."""
    said: Any = message("not-allowed", found=given, allowed=verbatim(allowed))
    return jsonschema.ValidationError(said)


def _validator(choices: Choices, cpu_count: int, schema: Schema) -> Any:
    extend: Any = jsonschema.validators.extend
    keywords = {
        "rate": _check_rate,
        "power": _check_power,
        "pci": _check_pci,
        "choice": functools.partial(_check_choice, choices),
        "cpus": functools.partial(_check_cpus, cpu_count),
    }
    return extend(VALIDATOR, keywords)(schema)


SCHEMA: Schema = own_yaml.load(
    pathlib.Path(__file__).with_name("scenario.schema.yaml").read_text(encoding="utf-8")
)
_DEFS: Mapping[str, Schema] = SCHEMA["$defs"]
