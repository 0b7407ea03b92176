# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of `tox -e releasenotes`: the notes alone; the pages have them as well."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "doc/source/_ext"))

project = "iat-nova release notes"
copyright = "iat-nova contributors"
extensions = ["reno.sphinxext", "release"]
html_theme = "furo"
html_show_sphinx = False
html_copy_source = False
