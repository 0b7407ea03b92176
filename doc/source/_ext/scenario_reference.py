# SPDX-License-Identifier: Apache-2.0
"""The scenario's reference page, written from the schema by which files are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from policy_reference import plain

from iat_nova.experiments.machines.machine import MACHINES, AdcaChoice, WriteTarget
from iat_nova.experiments.scenarios import load_reader
from iat_nova.experiments.scenarios.checked import PCI, RATES, SCHEMA
from iat_nova.experiments.scenarios.profiles import PROFILES
from iat_nova.model import AttachmentKind
from iat_nova.policy.schema import Schema
from iat_nova.policy.validate import allowed
from iat_nova.report import sentences
from iat_nova.strategies import registry as strategies

NAMES: Mapping[str, Iterable[str]] = {
    "machine": MACHINES,
    "io": WriteTarget,
    "adca": AdcaChoice,
    "strategy": strategies.BUILT_IN,
    "attachment": AttachmentKind,
}
"""What the program has under a schema's word."""

OWN: Mapping[str, str] = {
    "profile": "the name of a profile",
    "socket": "the number of a socket",
    "nic": "the name of a card of ``nics``",
    "disk": "the name of a disk of ``disks``",
    "switch": "the name of a workload that is a switch",
    "target": "the name of a workload that receives packets",
}
"""What the scenario has under it."""


def reference() -> str:
    """Return the reference in reStructuredText: every key, machine and profile."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield from _heading("Keys of a scenario", "=")
    sections = {key: one for key, one in SCHEMA["properties"].items() if _section(one) is not None}
    alone = {key: one for key, one in SCHEMA["properties"].items() if key not in sections}
    yield from _keys({**SCHEMA, "properties": alone}, "")
    for key, schema in sections.items():
        yield from _heading(key, "-")
        yield from (schema["description"], "")
        yield from _keys(_section(schema), f"{key}{_below(schema)}.")
    yield from _heading("Machines", "=")
    for name, machine in MACHINES.items():
        yield from (f"``{name}``", f"   {machine.title}", "")
    yield from _heading("Profiles of workloads", "=")
    yield from ("Each with the keys that it uses beside ``profile`` and ``cpus``.", "")
    for name, profile in PROFILES.items():
        keys = (*load_reader.places(profile), *load_reader.keys(profile))
        yield from (f"``{name}``", f"   {', '.join(f'``{key}``' for key in keys)}", "")


def _section(schema: Schema) -> Any:
    """Return the schema of what is in a section, with keys of its own; None where it is none."""
    for inner in (schema, schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict) and "properties" in inner:
            return inner
    return None


def _below(schema: Schema) -> str:
    """Return what stands between a section's name and its keys."""
    return "" if "properties" in schema else "[]" if "items" in schema else ".NAME"


def _heading(text: str, line: str) -> tuple[str, ...]:
    return text, line * len(text), ""


def _keys(section: Schema, prefix: str) -> Iterator[str]:
    """Write each key of a section as a definition, the keys of nested sections after it."""
    for key, schema in section["properties"].items():
        yield from (f"``{prefix}{key}``", f"   {plain(schema['description'])}", "")
        if (inner := _section(schema)) is not None:
            yield from _keys(inner, f"{prefix}{key}{_below(schema)}.")
            continue
        if (text := _allowed(schema)) is not None:
            yield f"   :Allowed: {text}"
        yield f"   :Default: {_default(schema, key in section.get('required', ()))}"
        yield ""


def _default(schema: Schema, required: bool) -> str:
    if required:
        return "none, it must be given"
    if "default" not in schema:
        return plain(schema.get("otherwise", "none"))
    value = schema["default"]
    return f"``{value if isinstance(value, str) else json.dumps(value)}``"


def _allowed(schema: Schema) -> str | None:
    """Tell in words what a value may be; None where the description does."""
    if "$ref" in schema:
        return _allowed(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]])
    if "choice" in schema:
        word = schema["choice"]
        return OWN.get(word) or ", ".join(f"``{name}``" for name in NAMES[word])
    if schema.get("type") == "array":
        return f"a list, each {_allowed(schema['items'])}"
    text = None
    if {"type", "enum", "quantity"} & schema.keys():
        text = plain(sentences.text(allowed(schema)))
        text += "; a power of two" if "power" in schema else ""
    elif "rate" in schema:
        text = RATES[schema["rate"]][1]
    elif "cpus" in schema:
        text = "a list of the machine's CPUs, each once"
    elif "pci" in schema:
        text = PCI
    return text
