# SPDX-License-Identifier: Apache-2.0
"""The policy's reference page, written from the schema: it cannot fall behind the code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from iat_nova.nova import extra_specs
from iat_nova.policy.render import FACTS
from iat_nova.policy.schema import SCHEMA, Schema
from iat_nova.policy.validate import allowed
from iat_nova.report import sentences


def reference() -> str:
    """Return the reference in reStructuredText: every key, every extra spec, every host fact."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield from _heading("Keys of the policy", "=")
    yield from (SCHEMA["description"] + " Every key may be left out unless it says otherwise.", "")
    for name, schema in SCHEMA["properties"].items():
        yield from _heading(name, "-")
        yield from (schema["description"], "")
        if schema.get("type") == "array" and "properties" in schema["items"]:
            yield from _keys(schema["items"], f"{name}[].")
        elif "properties" in schema:
            yield from _keys(schema, f"{name}.")
        else:
            yield from _facts_of(schema, required=False)
            yield ""
    yield from _heading("Extra specs of flavors", "=")
    for key in extra_specs.KEYS:
        yield from (f"``{key.name}``", f"   {key.description}", f"   Allowed: {key.allowed}.", "")
    yield from _heading("Facts of the host, for the template", "=")
    for fact, meaning in FACTS.items():
        yield from (f"``{{{{ {fact} }}}}``", f"   {meaning}", "")


def _heading(text: str, line: str) -> tuple[str, ...]:
    return text, line * len(text), ""


def _keys(section: Schema, prefix: str) -> Iterator[str]:
    """Write each key of a section as a definition, the keys of nested sections after it."""
    for key, schema in section["properties"].items():
        yield f"``{prefix}{key}``"
        yield f"   {schema['description']}"
        if "properties" in schema:
            yield ""
            yield from _keys(schema, f"{prefix}{key}.")
            continue
        yield ""
        yield from (
            f"   {line}" if line else ""
            for line in _facts_of(schema, key in section.get("required", ()))
        )
        yield ""


def _facts_of(schema: Schema, required: bool) -> Iterator[str]:
    if "additionalProperties" not in schema and schema.get("type") != "array":
        yield f":Allowed: {plain(sentences.text(allowed(schema)))}"
    if required:
        yield ":Default: none, it must be given"
    elif schema.get("default") is not None:
        yield f":Default: ``{_yaml(schema['default'])}``"
    for example in schema.get("examples", ()):
        yield f":Example: ``{_yaml(example)}``"


def plain(text: str) -> str:
    """Keep reStructuredText from seeing markup in a pattern."""
    return re.sub(r"([\\*_|`])", r"\\\1", text)


def _yaml(value: object) -> str:
    """Write a value as it would stand in the policy; JSON is YAML where quotes are needed."""
    return value if isinstance(value, str) else json.dumps(value)
