# SPDX-License-Identifier: Apache-2.0
"""Validation of a document by the schema: problems with line, path and allowed values."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jsonschema

from iat_nova.common.untrusted import shortened
from iat_nova.model import Message, message, verbatim
from iat_nova.model.message import as_message
from iat_nova.policy import units
from iat_nova.policy.document import Document
from iat_nova.policy.problems import Path, Problem, nearest
from iat_nova.policy.schema import SCHEMA, WAYS_LIMIT, Schema
from iat_nova.policy.units import Kind

_TYPES: Mapping[str, str] = {
    "object": "a-mapping",
    "array": "a-list",
    "string": "a-text",
    "integer": "a-whole-number",
    "number": "a-number",
    "boolean": "true-or-false",
}
"""Message codes of JSON Schema's types."""


def validate(document: Document, validator: Any = None) -> tuple[object, list[Problem]]:
    """Return the valid part of the document's value, and the problems of the invalid parts.

    `validator` is a `VALIDATOR` with a schema, the policy's by default.

    The valid part satisfies the schema and can be compiled and checked further. A wrong item of a
    list becomes None, a wrong value of a mapping is left out. An empty section (for example with
    comments alone) counts as absent.
    """
    value = document.value
    if isinstance(value, dict):
        value = {key: section for key, section in value.items() if section is not None}
    problems: list[Problem] = []
    wrong: list[Path] = []
    for path, said in complaints(validator or _POLICY, value):
        wrong.append(path)
        problems.append(document.problem(path, said))
    return _without(value, wrong), problems


def complaints(validator: Any, value: object) -> Iterator[tuple[Path, Message]]:
    """Yield each violation of a schema once: path and message."""
    found = {place: None for error in validator.iter_errors(value) for place in _complaints(error)}
    yield from found


def found(value: object) -> Message:
    """Return a short form of a value for messages; a mapping or a list by its type alone."""
    if value is None:
        return message("nothing")
    if isinstance(value, dict):
        return message("a-mapping")
    if isinstance(value, list):
        return message("a-list")
    return verbatim(shortened(json.dumps(value, ensure_ascii=False)))


def allowed(schema: Mapping[str, Any]) -> Message:
    """Return the allowed values of a schema."""
    if "quantity" in schema:
        kind = Kind(schema["quantity"])
        least, most = (units.text(kind, schema[key]) for key in ("least", "most"))
        return message("quantity-from-to", quantity=units.ALLOWED[kind], least=least, most=most)
    if "ways" in schema:
        return message("ways-or-size", most=WAYS_LIMIT, size=units.ALLOWED[Kind.SIZE])
    if "enum" in schema:
        words = (one if isinstance(one, str) else json.dumps(one) for one in schema["enum"])
        return message("one-of", words=tuple(words))
    if "then" in schema:
        return message("or-a-list", one=allowed(schema["then"]))
    types = schema.get("type", "object")
    kinds = tuple(message(_TYPES[one]) for one in ([types] if isinstance(types, str) else types))
    said = kinds[0] if len(kinds) == 1 else message("either", kinds=kinds)
    if "minimum" in schema:
        said = message("number-from-to", kind=said, least=schema["minimum"], most=schema["maximum"])
    if "pattern" in schema:
        said = message("of-the-form", kind=said, form=schema["pattern"].strip("^$"))
    return said


def _complaints(error: jsonschema.ValidationError) -> Iterator[tuple[Path, Message]]:
    path = tuple(error.absolute_path)
    value: Any = error.instance
    schema: Any = error.schema
    match error.validator:
        case "additionalProperties":
            known = schema["properties"]
            for key in value:
                if key not in known:
                    yield (*path, key), unknown_key(key, known)
        case "required":
            for key in schema["required"]:
                if key not in value:
                    yield path, message("key-missing", key=key)
        case "minItems" | "minProperties" | "minLength":
            yield path, message("nothing-in-it")
        case "uniqueItems":
            yield path, message("value-twice")
        case str(keyword) if keyword in _OURS:
            yield path, _OURS[keyword](value, schema) or _not_allowed(value, schema)
        case keyword if keyword not in jsonschema.Draft202012Validator.VALIDATORS:
            yield path, as_message(error.message)  # a keyword of the schema of scenarios
        case _:
            yield path, _misspelt(value, schema) or _not_allowed(value, schema)


def unknown_key(key: str, known: Iterable[str]) -> Message:
    """Return the message of an unknown key, with the nearest known key or all known keys."""
    near = nearest(key, known)
    if near is None:
        return message("key-unknown", known=tuple(known))
    return message("key-misspelt", near=near)


def _not_allowed(value: object, schema: Schema) -> Message:
    return message("not-allowed", found=found(value), allowed=allowed(schema))


def _misspelt(value: object, schema: Schema) -> Message | None:
    """Return a message with the allowed word nearest to a wrong word, or None."""
    if "enum" not in schema or not isinstance(value, str):
        return None
    near = nearest(value, [one for one in schema["enum"] if isinstance(one, str)])
    if near is None:
        return None
    return message("misspelt", problem=_not_allowed(value, schema), near=near)


def _of_quantity(value: object, schema: Schema) -> Message | None:
    try:
        number = units.parse(Kind(schema["quantity"]), value)
    except units.UnitError as error:
        return message("wrong-unit", found=found(value), problem=error.message)
    return None if schema["least"] <= number <= schema["most"] else _not_allowed(value, schema)


def _of_ways(value: object, schema: Schema) -> Message | None:
    """Return the problem of a count of ways or of a size, or None.

    The number of ways of a size depends on the host.
    """
    if isinstance(value, str):
        try:
            size = units.parse(Kind.SIZE, value)
        except units.UnitError as error:
            return message("wrong-unit-or-count", found=found(value), problem=error.message)
        good = size > 0
    else:
        good = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= WAYS_LIMIT
    return None if good else _not_allowed(value, schema)


_OURS: Mapping[str, Callable[[Any, Schema], Message | None]] = {
    "quantity": _of_quantity,
    "ways": _of_ways,
}
"""This project's own keywords, each with a function that returns the problem of a value."""


def _keyword(wrong: Callable[[object, Schema], Message | None]) -> Any:
    """Return the check of an own keyword. `_complaints` makes the message of the error."""

    def check(
        _validator: object, _of: object, value: object, schema: Schema
    ) -> Iterator[jsonschema.ValidationError]:
        if (said := wrong(value, schema)) is not None:
            yield jsonschema.ValidationError(said.code)

    return check


_extend: Any = jsonschema.validators.extend
VALIDATOR: Any = _extend(
    jsonschema.Draft202012Validator,
    {name: _keyword(wrong) for name, wrong in _OURS.items()},
)
"""JSON Schema's validator with this project's keywords."""
_POLICY = VALIDATOR(SCHEMA)


def _without(value: object, wrong: list[Path]) -> object:
    if () in wrong:
        return {}
    value = copy.deepcopy(value)
    for path in wrong:
        parent: Any = value
        for step in path[:-1]:
            try:
                parent = parent[step]
            except (KeyError, TypeError):
                parent = None
                break
        if isinstance(parent, dict):
            parent.pop(path[-1], None)
        elif isinstance(parent, list):
            parent[int(path[-1])] = None
    return value
