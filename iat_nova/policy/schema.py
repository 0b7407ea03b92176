# SPDX-License-Identifier: Apache-2.0
"""The policy's schema as data: what may stand where, with description, default and example.

It is JSON Schema (2020-12) with one keyword of our own: ``quantity``, a `units.Kind` in whose base
unit ``least`` and ``most`` bound the value. `validate` and `reference` are built on it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from iat_nova.model import AttachmentKind, DeviceModel, Parameters
from iat_nova.nova import extra_specs
from iat_nova.policy import units
from iat_nova.policy.units import Kind

Schema = dict[str, Any]

WAYS_LIMIT = extra_specs.WAYS_LIMIT
RESERVED_CLASS_NAMES = ("default", "stack", "host", "pool")

DEFAULT_IO_ON_PACKETS_PER_S = 10e3
DEFAULT_IO_OFF_PACKETS_PER_S = 5e3
DEFAULT_GUEST_WAYS = (1, 2)  # min, initial
DEFAULT_STACK_WAYS = (1, 2)
DEFAULT_POOL_WAYS = (1, 2)
DEFAULT_HOST_WAYS = (1, 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """One of the policy's parameters and the field of `Parameters` that it sets."""

    field: str
    kind: Kind
    least: float
    most: float
    description: str


NUMBERS: Mapping[str, Number] = {
    "threshold_stable": Number(
        "threshold_stable",
        Kind.FRACTION,
        0.0001,
        1,
        "THRESHOLD_STABLE: a relative change up to this counts as none.",
    ),
    "threshold_miss_low": Number(
        "threshold_miss_low_per_s",
        Kind.RATE,
        0,
        1e12,
        "THRESHOLD_MISS_LOW: DDIO misses (write allocates) up to this do not press the LLC.",
    ),
    "interval": Number(
        "interval_s", Kind.DURATION, 0.01, 3600, "Time between two polls of the counters."
    ),
    "floor_references": Number(
        "floor_references_per_s",
        Kind.RATE,
        0,
        1e12,
        "A tenant's LLC references and misses that move by less than this count as stable.",
    ),
    "floor_ddio": Number(
        "floor_ddio_per_s",
        Kind.RATE,
        0,
        1e12,
        "DDIO hits and misses that move by less than this count as stable.",
    ),
    "reclaim_fall": Number(
        "reclaim_fall",
        Kind.FRACTION,
        0,
        1,
        "A granted way goes back once the demand lies this far below the one it was granted for.",
    ),
    "retry_change": Number(
        "retry_change",
        Kind.FRACTION,
        0,
        10,
        "A step that was undone is tried again once the demand has moved this far.",
    ),
    "backoff_initial": Number(
        "backoff_initial_s",
        Kind.DURATION,
        0,
        86400,
        "... or once this time has passed; it doubles with each step undone.",
    ),
    "backoff_max": Number(
        "backoff_max_s", Kind.DURATION, 0, 7 * 86400, "The back-off stops doubling here."
    ),
}
"""The parameters that are quantities, by their key in the policy."""

PLAIN_PARAMETERS = ("ddio_ways_min", "ddio_ways_max", "mask_changes_per_minute", "ddio_growth")
"""The parameters that are whole numbers or words; key and field have the same name."""

_PARAMETERS = Parameters()


def _section(description: str, properties: Schema, **more: object) -> Schema:
    return {
        "type": "object",
        "description": description,
        "additionalProperties": False,
        "properties": properties,
        **more,
    }


def _number(number: Number) -> Schema:
    default = units.text(number.kind, getattr(_PARAMETERS, number.field))
    return _quantity(number.kind, number.least, number.most, number.description, default)


def _quantity(kind: Kind, least: float, most: float, description: str, default: str) -> Schema:
    return {
        "quantity": kind,
        "least": least,
        "most": most,
        "description": description,
        "default": default,
        "examples": [default],
    }


def _integer(description: str, least: int, most: int, default: object) -> Schema:
    return {
        "type": "integer",
        "minimum": least,
        "maximum": most,
        "description": description,
        "default": default,
        "examples": [default],
    }


def _choice(description: str, values: Iterable[object], default: object) -> Schema:
    return {
        "enum": list(values),
        "description": description,
        "default": default,
        "examples": [default],
    }


def _ways(who: str, default: tuple[int, int]) -> Schema:
    """Way bounds. A size is turned into ways, rounded up, where the host tells `way_bytes`."""

    def bound(description: str, value: object, example: object) -> Schema:
        return {
            "ways": True,
            "description": description,
            "default": value,
            "examples": [example],
        }

    return _section(
        f"LLC ways of {who}, each a count or a size such as 3MiB, which is rounded up to ways. "
        "What is left out follows from what is given.",
        {
            "min": bound("Guaranteed: it never has fewer.", default[0], default[0]),
            "initial": bound("It starts with these.", default[1], default[1]),
            "max": bound("It never has more. Left out: all ways of the LLC.", None, 6),
        },
    )


def _one_or_more(item: Schema, description: str, example: object) -> Schema:
    return {
        "if": {"type": "string"},
        "then": item,
        "else": {"type": "array", "minItems": 1, "items": item},
        "description": description,
        "examples": [example],
    }


def _globs(description: str, example: object) -> Schema:
    return _one_or_more({"type": "string", "minLength": 1}, description, example)


_SCALAR = {"type": ["string", "integer", "number", "boolean"]}

_PRIORITY = "Who is served first: PC (performance-critical) or BE (best effort)."
_IO = (
    "Whether it counts as network-intensive. auto: it does when it is attached by a VF, a PF, "
    "macvtap, vDPA or vhost-user and its interfaces are busy (parameters io_on, io_off); where "
    "nobody counts its packets the attachment decides."
)


_GUEST_SHARE = {
    "priority": _choice(_PRIORITY, extra_specs.PRIORITIES, "BE"),
    "io": _choice(_IO, (True, False, "auto"), "auto"),
    "ways": _ways("each guest", DEFAULT_GUEST_WAYS),
}


_MATCH = _section(
    "Conditions on the guest. All must hold; of the values of one condition any may. "
    "Left out: every guest matches.",
    {
        "extra_specs": {
            "type": "object",
            "minProperties": 1,
            "description": "Extra specs of the flavor and their values, globs allowed.",
            "examples": [{"hw:mem_page_size": "1GB", "iat:priority": "*"}],
            "additionalProperties": {
                "type": [*_SCALAR["type"], "array"],
                "minItems": 1,
                "items": _SCALAR,
            },
        },
        "flavor": _globs("Names of flavors, globs allowed.", ["nfv.*", "vnf-large"]),
        "project": _globs(
            "UUIDs of the owner's project, globs allowed.", "3c1a9e3f4b5d4c0e8f7a6b5c4d3e2f1a"
        ),
        "attachment": _one_or_more(
            {"enum": list(AttachmentKind)}, "How the guest meets the network.", ["vf", "vhost-user"]
        ),
        "model": _one_or_more(
            {"enum": list(DeviceModel)},
            "slicing: it owns a VF or a device; aggregation: behind Open vSwitch with DPDK.",
            "slicing",
        ),
    },
)

_CLASS = _section(
    "One class.",
    {
        "name": {
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
            "description": "The name that lists and explanations show.",
            "examples": ["nfv"],
        },
        "description": {
            "type": "string",
            "description": "For people.",
            "examples": ["Virtual network functions"],
        },
        "match": _MATCH,
        **_GUEST_SHARE,
    },
    required=["name"],
)


def _parameters() -> Schema:
    properties = {key: _number(number) for key, number in NUMBERS.items()}
    properties |= {
        "ddio_ways_min": _integer(
            "DDIO_WAYS_MIN: ways are not taken from DDIO below it.",
            1,
            WAYS_LIMIT,
            _PARAMETERS.ddio_ways_min,
        ),
        "ddio_ways_max": _integer(
            "DDIO_WAYS_MAX: DDIO is given no more ways. The default is less on a small LLC.",
            1,
            WAYS_LIMIT,
            _PARAMETERS.ddio_ways_max,
        ),
        "mask_changes_per_minute": _integer(
            "At most so many masks are rewritten a minute.",
            1,
            6000,
            _PARAMETERS.mask_changes_per_minute,
        ),
        "ddio_growth": _choice(
            "How DDIO grows: one way an iteration, or as many as its miss curve calls for.",
            ("one", "miss-curve"),
            _PARAMETERS.ddio_growth,
        ),
        "io_on": _quantity(
            Kind.RATE,
            0,
            1e12,
            "io: auto turns to true at this many packets, both directions together ...",
            units.text(Kind.RATE, DEFAULT_IO_ON_PACKETS_PER_S),
        ),
        "io_off": _quantity(
            Kind.RATE,
            0,
            1e12,
            "... and back to false below this many.",
            units.text(Kind.RATE, DEFAULT_IO_OFF_PACKETS_PER_S),
        ),
    }
    return _section("The controller's numbers.", properties)


SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_section(
        "The policy of one host.",
        {
            "parameters": _parameters(),
            "default": _section(
                "What a guest gets that falls into no class. Classes inherit from it.",
                _GUEST_SHARE,
            ),
            "classes": {
                "type": "array",
                "description": "Classes of guests; the first that matches wins. The flavor's own "
                "extra specs (iat:priority, iat:io, iat:llc_ways, iat:llc_ways_max) come before "
                "what the class says.",
                "items": _CLASS,
            },
            "flavors": {
                "type": "object",
                "description": "Extra specs by flavor name, for guests whose own cannot be known "
                "(Nova below 32). Not used where they are known.",
                "examples": [{"m1.pc": {"iat:priority": "PC"}}],
                "additionalProperties": {"type": "object", "additionalProperties": _SCALAR},
            },
            "stack": _section(
                "The software stack: Open vSwitch's PMD threads.",
                {"ways": _ways("the software stack", DEFAULT_STACK_WAYS)},
            ),
            "host": _section(
                "The host's own processors: housekeeping, emulator threads.",
                {
                    "priority": _choice(_PRIORITY, extra_specs.PRIORITIES, "BE"),
                    "ways": _ways("the host", DEFAULT_HOST_WAYS),
                },
            ),
            "pool": _section(
                "All guests whose vCPUs float over shared processors: one tenant together.",
                {
                    "priority": _choice(
                        f"{_PRIORITY} highest: that of its most important member.",
                        (*extra_specs.PRIORITIES, "highest"),
                        "BE",
                    ),
                    "ways": _ways("the pool", DEFAULT_POOL_WAYS),
                },
            ),
            "reserved_ways": {
                "type": "array",
                "uniqueItems": True,
                "items": {"type": "integer", "minimum": 0, "maximum": WAYS_LIMIT - 1},
                "description": "Numbers of LLC ways that are never touched, at either end.",
                "default": [],
                "examples": [[9, 10]],
            },
        },
    ),
}
"""The whole schema."""
