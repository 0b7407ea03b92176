# SPDX-License-Identifier: Apache-2.0
"""The effective policy: templates rendered, every default written out, itself a valid policy."""

from __future__ import annotations

import dataclasses
from typing import Any

import yaml

from iat_nova.model import Parameters
from iat_nova.policy import schema, units
from iat_nova.policy.rules import SPECS, ClassRule, Match, Rules, WayBounds


def document(parameters: Parameters, rules: Rules) -> dict[str, Any]:
    """Return the effective policy as the content of a policy file, with every default."""
    return {
        "parameters": {
            **{
                key: _quantity(key, getattr(parameters, field))
                for key, field in schema.FIELDS.items()
            },
            "io_on": _quantity("io_on", rules.io_on_packets_per_s),
            "io_off": _quantity("io_off", rules.io_off_packets_per_s),
        },
        "domains": {
            str(number): {
                key: _quantity(key, getattr(own, field))
                for key, field in schema.FIELDS.items()
                if getattr(own, field) != getattr(parameters, field)
            }
            for number, own in sorted(parameters.domains.items())
            if own != dataclasses.replace(parameters, domains={})
        },
        "default": _class(rules.default),
        "classes": [
            {"name": rule.name, "match": _match(rule.match), **_class(rule)}
            for rule in rules.classes
        ],
        "flavors": {name: dict(specs) for name, specs in rules.flavors.items()},
        "stack": {"ways": _ways(rules.stack_ways)},
        "pool": {
            "priority": str(rules.pool_priority or "highest"),
            "ways": _ways(rules.pool_ways),
            "bandwidth_min": f"{rules.pool_bandwidth_min}%",
        },
        "host": {"priority": str(rules.host_priority), "ways": _ways(rules.host_ways)},
        "reserved_ways": [
            number
            for number in range(rules.reserved_ways.bit_length())
            if rules.reserved_ways >> number & 1
        ],
    }


def text(parameters: Parameters, rules: Rules) -> str:
    """Return the effective policy as YAML."""
    written: str = yaml.safe_dump(
        document(parameters, rules), sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return written


def _quantity(key: str, value: Any) -> Any:
    kind = schema.quantity(key)
    return value if kind is None else units.text(kind, value)


def _class(rule: ClassRule) -> dict[str, Any]:
    io: object = {"true": True, "false": False}.get(str(rule.io), str(rule.io))
    return {
        "priority": str(rule.priority),
        "io": io,
        "ways": _ways(rule.ways),
        "bandwidth_min": f"{rule.bandwidth_min}%",
        "weight": rule.weight,
    }


def _ways(bounds: WayBounds) -> dict[str, int]:
    most = {} if bounds.max is None else {"max": bounds.max}
    return {"min": bounds.min, "initial": bounds.initial, **most}


def _match(match: Match) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in match.conditions:
        values = [int(text) if one.kind == "domain" else text for text in one.patterns]
        if one.kind in SPECS:
            found.setdefault(one.kind, {})[one.name] = values
        else:
            found[one.kind] = values
    if match.none_of is not None:
        found["not"] = _match(match.none_of)
    return found
