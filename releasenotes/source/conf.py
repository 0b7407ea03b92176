# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of `tox -e releasenotes`: the notes alone; the pages have them as well."""

project = "iat-nova release notes"
copyright = "iat-nova contributors"
extensions = ["reno.sphinxext"]
html_theme = "furo"
html_show_sphinx = False
html_copy_source = False
