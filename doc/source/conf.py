# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration; `tox -e docs` builds the pages without a warning."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "_ext"))

project = "iat-nova"
copyright = "iat-nova contributors"
extensions = [
    "openstackdocstheme",
    "oslo_config.sphinxext",
    "reno.sphinxext",
    "sphinx.ext.graphviz",
    "commands",
    "figures",
    "from_code",
    "message",
    "parts",
    "support",
    "tournament",
]
html_theme = "openstackdocs"
openstackdocs_auto_name = False
openstackdocs_use_storyboard = False
html_static_path = ["_static"]
templates_path = ["_templates"]
graphviz_output_format = "svg"
nitpicky = False
smartquotes = False  # two dashes before an option stay two
