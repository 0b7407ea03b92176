# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration; `tox -e docs` builds the pages without a warning."""

import pathlib
import shutil
import sys

from sphinx.errors import ConfigError

if shutil.which("dot") is None:  # Sphinx would go on, and fail at the end
    raise ConfigError("no program dot, which draws the diagrams: apt install graphviz")

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parents[1])]  # the latter: tools.command_reference

project = "iat-nova"
copyright = "iat-nova contributors"
extensions = [
    "oslo_config.sphinxext",
    "reno.sphinxext",
    "sphinx.ext.graphviz",
    "commands",
    "drawn",
    "figures",
    "gains",
    "from_code",
    "message",
    "parts",
    "release",
    "support",
    "tournament",
]
html_theme = "furo"
html_title = "iat-nova"
html_static_path = ["_static"]
html_css_files = ["iat.css"]
html_show_sphinx = False
html_copy_source = False
graphviz_output_format = "svg"
nitpicky = False
smartquotes = False  # two dashes before an option stay two
