# SPDX-License-Identifier: Apache-2.0
"""Everything that the schema has against a document, each with line, path and what is allowed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema

from iat_nova.policy import units
from iat_nova.policy.document import Document
from iat_nova.policy.problems import Path, Problem, nearest
from iat_nova.policy.schema import SCHEMA, WAYS_LIMIT, Schema
from iat_nova.policy.units import Kind

_TYPES: Mapping[str, str] = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


def validate(document: Document, validator: Any = None) -> tuple[object, list[Problem]]:
    """Return the document's value without its wrong parts, and what is wrong with them.

    `validator` is a `VALIDATOR` with a schema, the policy's by default.

    What is left satisfies the schema, so that it can be compiled and checked further: a wrong item
    of a list is replaced by None, a wrong value of a mapping is left out. A section with nothing
    in it (all its lines are comments, say) counts as absent.
    """
    value = document.value
    if isinstance(value, dict):
        value = {key: section for key, section in value.items() if section is not None}
    problems: list[Problem] = []
    wrong: list[Path] = []
    for path, message in complaints(validator or _POLICY, value):
        wrong.append(path)
        problems.append(document.problem(path, message))
    return _without(value, wrong), problems


def complaints(validator: Any, value: object) -> Iterator[tuple[Path, str]]:
    """Yield what a schema has against a value, and where, each once."""
    found = {place: None for error in validator.iter_errors(value) for place in _complaints(error)}
    yield from found


def found(value: object) -> str:
    """Write a value that was found, shortly."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def allowed(schema: Mapping[str, Any]) -> str:
    """Tell in words what a value of this schema may be."""
    if "quantity" in schema:
        kind = Kind(schema["quantity"])
        least, most = (units.text(kind, schema[key]) for key in ("least", "most"))
        return f"{units.allowed(kind)}, from {least} to {most}"
    if "ways" in schema:
        return f"a whole number from 1 to {WAYS_LIMIT}, or {units.allowed(Kind.SIZE)}"
    if "enum" in schema:
        return ", ".join(v if isinstance(v, str) else json.dumps(v) for v in schema["enum"])
    if "then" in schema:
        return f"{allowed(schema['then'])}, or a list of these"
    types = schema.get("type", "object")
    text = " or ".join(_TYPES[name] for name in ([types] if isinstance(types, str) else types))
    if "minimum" in schema:
        text += f" from {schema['minimum']} to {schema['maximum']}"
    if "pattern" in schema:
        text += f" of the form {schema['pattern'].strip('^$')}"
    return text


def _complaints(error: jsonschema.ValidationError) -> Iterator[tuple[Path, str]]:
    path = tuple(error.absolute_path)
    value: Any = error.instance
    schema: Any = error.schema
    match error.validator:
        case "additionalProperties":
            known = schema["properties"]
            for key in value:
                if key not in known:
                    hint = nearest(key, known)
                    yield (*path, key), f"unknown key; {hint or 'allowed: ' + ', '.join(known)}"
        case "required":
            for key in schema["required"]:
                if key not in value:
                    yield path, f"the key {key} is missing"
        case "minItems" | "minProperties" | "minLength":
            yield path, "found nothing in it; allowed: at least one"
        case "uniqueItems":
            yield path, "found a value twice; allowed: each once"
        case keyword if keyword not in jsonschema.Draft202012Validator.VALIDATORS:
            yield path, error.message
        case _:
            hint = ""
            if "enum" in schema and isinstance(value, str):
                words = [word for word in schema["enum"] if isinstance(word, str)]
                hint = nearest(value, words)
            hint = f"; {hint}" if hint else ""
            yield path, f"found {found(value)}; allowed: {allowed(schema)}{hint}"


def _check_quantity(
    _validator: object, kind: str, value: object, schema: Schema
) -> Iterator[jsonschema.ValidationError]:
    try:
        number = units.parse(Kind(kind), value)
    except units.UnitError as error:
        yield jsonschema.ValidationError(f"found {found(value)}; {error}")
        return
    if not schema["least"] <= number <= schema["most"]:
        yield jsonschema.ValidationError(f"found {found(value)}; allowed: {allowed(schema)}")


def _check_ways(
    _validator: object, _on: object, value: object, schema: Schema
) -> Iterator[jsonschema.ValidationError]:
    """A count of ways, or a size; how many ways that is depends on the host."""
    if isinstance(value, str):
        try:
            size = units.parse(Kind.SIZE, value)
        except units.UnitError as error:
            yield jsonschema.ValidationError(f"found {found(value)}; {error}, or a count of ways")
            return
        good = size > 0
    else:
        good = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= WAYS_LIMIT
    if not good:
        yield jsonschema.ValidationError(f"found {found(value)}; allowed: {allowed(schema)}")


_extend: Any = jsonschema.validators.extend
VALIDATOR: Any = _extend(
    jsonschema.Draft202012Validator, {"quantity": _check_quantity, "ways": _check_ways}
)
"""JSON Schema's validator with our keywords."""
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
