# SPDX-License-Identifier: Apache-2.0
"""The directive that draws the parts of the package: their layers, and who imports whom."""

import ast
import pathlib
import textwrap
import tomllib

from docutils.parsers.rst import Directive
from sphinx.ext.graphviz import graphviz

import iat_nova

PACKAGE = pathlib.Path(iat_nova.__file__).parent
PROJECT = pathlib.Path(__file__).parents[3] / "pyproject.toml"
EVERYWHERE = ("common", "model")
"""Most parts import these: they lie at the bottom, and no arrow tells it."""


def layers():
    """Return the contract's layers, the lowest last; a layer's parts do not know each other."""
    contracts = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    found = next(one for one in contracts if one["type"] == "layers")
    return [line.split(" | ") for line in found["layers"]]


def sources(part):
    """Return the files of a part."""
    folder = PACKAGE / part
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def about(part):
    """Return what a part says of itself: its first sentence, as far as the colon."""
    source = next(path for path in sources(part) if path.stem in ("__init__", part))
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
    return " ".join(text.split("\n\n")[0].split()).partition(". ")[0].rstrip(".")


def imported(part, parts):
    """Return the other parts that a part imports."""
    names = set()
    for source in sources(part):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "iat_nova":
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("iat_nova."):
                names.add(node.module.split(".")[1])
    return names & parts - {part}


def arrows():
    """Yield who imports whom, but for what follows from the other arrows."""
    parts = {part for layer in layers() for part in layer} - set(EVERYWHERE)
    direct = {part: imported(part, parts) for part in parts}

    def reached(part):
        return direct[part].union(*(reached(below) for below in direct[part]))

    for part in sorted(parts):
        implied = set().union(*(reached(below) for below in direct[part]))
        for below in sorted(direct[part] - implied):
            yield part, below


class Parts(Directive):
    """One box a folder with what it says of itself, a row a layer, arrows to what it imports."""

    def run(self):
        lines = ["digraph parts {", "bgcolor=transparent; ranksep=0.3; nodesep=0.2;"]
        lines += ['node [shape=box, style="rounded,filled", fillcolor="#eef4fa"];']
        lines += ["node [fontname=Helvetica, fontsize=11]; edge [color=gray40];"]
        for layer in layers():
            for part in layer:
                text = "<br/>".join(textwrap.wrap(about(part), 34))
                lines.append(f'"{part}" [label=<<b>{part}</b><br/>{text}>];')
            lines.append(f"{{rank=same; {'; '.join(layer)};}}")
        lines += [f'"{above}" -> "{below}";' for above, below in arrows()]
        firsts = [layer[0] for layer in layers()]
        lines.append(f"{' -> '.join(firsts)} [style=invis];")
        node = graphviz()
        node["code"] = "\n".join([*lines, "}"])
        node["options"] = {}
        node["alt"] = "The folders of iat_nova in layers, each with what it is and what it imports."
        return [node]


def setup(app):
    """Add the directive."""
    app.add_directive("iat-parts", Parts)
    return {"parallel_read_safe": True}
