# SPDX-License-Identifier: Apache-2.0
"""The extra specs ``iat:*`` for nova-api, found under ``nova.api.extra_spec_validators``.

An exception during the import of this module ends nova-api at its start. Therefore only Nova's base
class and `iat_nova.nova.extra_specs`, which needs only the standard library, are imported. Nova
calls the validators for requests at microversion 2.86 and later. Nova refuses wrong values and
unknown ``iat:`` names with 400.
"""

from __future__ import annotations

from nova.api.validation.extra_specs import base

from . import extra_specs


def register() -> list[base.ExtraSpecValidator]:
    """Return one validator per extra spec; Nova calls this function once."""
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
