# SPDX-License-Identifier: Apache-2.0
"""The policy's schema, used by `validate` and by the reference page.

The schema is read from ``schema.yaml``; this module fills in the values of the model.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

from iat_nova.common import own_yaml
from iat_nova.model import AttachmentKind, DeviceModel, Message, Parameters
from iat_nova.nova import extra_specs
from iat_nova.policy import units
from iat_nova.policy.units import Kind

Schema = dict[str, Any]

WAYS_LIMIT = extra_specs.WAYS_LIMIT
RESERVED_CLASS_NAMES = ("default", "stack", "host", "pool")

# Values of the enumerations that the model defines.
_ENUMS: Mapping[str, list[str]] = {
    "attachments": list(AttachmentKind),
    "models": list(DeviceModel),
}


def _read() -> Schema:
    source = resources.files("iat_nova.policy").joinpath("schema.yaml")
    schema: Schema = own_yaml.load(source.read_text(encoding="utf-8"))
    _fill(schema)
    for parameter in schema["properties"]["parameters"]["properties"].values():
        if "field" in parameter:
            default: object = getattr(Parameters(), parameter["field"])
            if "quantity" in parameter:
                assert isinstance(default, float | int)
                default = units.text(Kind(parameter["quantity"]), default)
            parameter |= {"default": default, "examples": [default]}
    schema["properties"]["domains"]["additionalProperties"]["properties"] = {
        key: {**parameter, "default": None}  # the default is the value in `parameters`
        for key, parameter in schema["properties"]["parameters"]["properties"].items()
        if "field" in parameter and key != "interval"  # all domains share the loop's interval
    }
    return schema


def _fill(schema: object) -> None:
    """Replace each enumeration's name by the model's values."""
    if isinstance(schema, dict):
        if isinstance(schema.get("enum"), str):
            schema["enum"] = _ENUMS[schema["enum"]]
        for part in schema.values():
            _fill(part)


SCHEMA: Schema = _read()
"""The whole schema."""

_PARAMETERS: Mapping[str, Schema] = SCHEMA["properties"]["parameters"]["properties"]

FIELDS: Mapping[str, str] = {
    key: parameter["field"] for key, parameter in _PARAMETERS.items() if "field" in parameter
}
"""Attributes of `Parameters` by policy key."""


def parameter(key: str, given: Mapping[str, Any]) -> Any:
    """Return a parameter in its base unit: the given value, else the default."""
    schema = _PARAMETERS[key]
    value = given.get(key, schema["default"])
    if "quantity" in schema:
        return units.parse(Kind(schema["quantity"]), value)
    return value if isinstance(value, str) else int(value)


def quantity(key: str) -> Kind | None:
    """Return the kind of a parameter's quantity; None for a plain number or a word."""
    kind = _PARAMETERS[key].get("quantity")
    return None if kind is None else Kind(kind)


def for_editors(sentence: Callable[[Message], str]) -> Schema:
    """Return the schema in keywords that every JSON Schema tool knows.

    The keywords of this project (units, bounds of quantities) become a type, and a part of the
    description: the `sentence` of the allowed values.
    """
    plain = _plain(copy.deepcopy(SCHEMA), sentence)
    assert isinstance(plain, dict)
    return {**plain, "title": "Policy of iat-nova"}


def _plain(part: Any, sentence: Callable[[Message], str]) -> Any:
    if isinstance(part, list):
        return [_plain(one, sentence) for one in part]
    if not isinstance(part, dict):
        return part
    if "quantity" in part or ("ways" in part and part["ways"] is True):
        kind = part.get("quantity", Kind.SIZE)
        allowed = sentence(units.ALLOWED[Kind(kind)])
        about = f"{part.get('description', '')} Allowed: {allowed}".strip()
        kept = {key: part[key] for key in ("default", "examples") if part.get(key) is not None}
        return {"type": ["string", "number"], "description": about, **kept}
    return {
        key: _plain(one, sentence) for key, one in part.items() if key not in ("field", "$defs")
    }


def default_ways(section: str) -> tuple[int, int]:
    """Return the default minimum and initial ways of a section's tenants."""
    bounds = SCHEMA["properties"][section]["properties"]["ways"]["properties"]
    return bounds["min"]["default"], bounds["initial"]["default"]
