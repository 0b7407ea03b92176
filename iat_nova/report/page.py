# SPDX-License-Identifier: Apache-2.0
"""Common parts of all HTML pages: one style, and harmless names of tenants."""

from __future__ import annotations

import importlib.resources

import jinja2
from markupsafe import Markup

from iat_nova.report import escape

_STYLE = "style.css.j2"


def template(package: str, name: str) -> jinja2.Template:
    """Return a package's template, which may include the style."""
    places = {name: package, _STYLE: "iat_nova.report"}
    sources = {
        file: (importlib.resources.files(place) / file).read_text(encoding="utf-8")
        for file, place in places.items()
    }
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(sources),
        autoescape=True,
        finalize=_harmless,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _harmless(value: object) -> object:
    """Show control characters of a name as escapes; HTML stays unchanged."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape.plain(value)
    return value
