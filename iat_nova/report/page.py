# SPDX-License-Identifier: Apache-2.0
"""Common parts of all HTML pages: one style, and harmless names of tenants."""

from __future__ import annotations

import importlib.resources

import jinja2
from markupsafe import Markup

from iat_nova.report import escape

_STYLE = "style.css.j2"


def environment(package: str, template: str) -> jinja2.Environment:
    """Return the renderer of a package's template, which may include the style."""
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
    """Show control characters of a name as escapes; HTML stays unchanged."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape.plain(value)
    return value
