# SPDX-License-Identifier: Apache-2.0
"""What all HTML pages share: one style, and names that tenants choose made harmless."""

from __future__ import annotations

import importlib.resources

import jinja2
from markupsafe import Markup

from iat_nova.report import escape

_STYLE = "style.css.j2"


def environment(package: str, template: str) -> jinja2.Environment:
    """Return what renders a template that lies in a package, and may include the style."""
    places = {template: package, _STYLE: "iat_nova.report"}
    sources = {
        name: (importlib.resources.files(place) / name).read_text(encoding="utf-8")
        for name, place in places.items()
    }
    return jinja2.Environment(
        loader=jinja2.DictLoader(sources),
        autoescape=True,
        finalize=_harmless,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _harmless(value: object) -> object:
    """Show control characters of a name as escapes; what is already HTML stays."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape.plain(value)
    return value
