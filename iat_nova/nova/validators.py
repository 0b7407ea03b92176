# SPDX-License-Identifier: Apache-2.0
"""The extra specs ``iat:*`` for nova-api, found under ``nova.api.extra_spec_validators``.

An exception while this module is imported ends nova-api at its start, so it imports Nova's base
class and the standard library's worth of `iat_nova.nova.extra_specs`, nothing else. Nova asks it
for requests at microversion 2.86 and later, refuses wrong values and unknown ``iat:`` names
with 400.
"""

from __future__ import annotations

from nova.api.validation.extra_specs import base

from . import extra_specs


def register() -> list[base.ExtraSpecValidator]:
    """Return one validator an extra spec; Nova calls this once."""
    return [
        base.ExtraSpecValidator(
            name=key.name,
            description=f"{key.description} It takes {key.allowed}.",
            value=(
                {"type": str, "enum": list(map(str, key.values))}
                if key.values
                else {"type": int, "min": key.least, "max": key.most}
            ),
        )
        for key in extra_specs.KEYS
    ]
