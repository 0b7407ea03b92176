# SPDX-License-Identifier: Apache-2.0
"""The heading of release notes while no tag names a version: reno says 0.0.0 there."""

import configparser
import pathlib

from docutils import nodes

ROOT = pathlib.Path(__file__).parents[3]
UNTAGGED = "0.0.0"


def head(_app, document):
    """Name the release that setup.cfg names."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    for title in document.findall(nodes.title):
        if title.astext() == UNTAGGED:
            title[:] = [nodes.Text(config["metadata"]["version"])]


def setup(app):
    """Register the change, before Sphinx collects the headings."""
    app.connect("doctree-read", head, priority=1)
    return {"parallel_read_safe": True}
