# SPDX-License-Identifier: Apache-2.0
"""What the model says of a host is read from the host: no fact that tests alone supply."""

import ast
import unittest
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "iat_nova"

# Which packages make the values of which module of the model. The emulated server, benches
# and tests make values of their own, which prove nothing about a host.
WRITERS = {
    "facts": ("inventory", "hardware"),
    "tenants": ("policy", "agent", "inventory", "hardware"),
    "decisions": ("strategies", "agent", "policy", "hardware"),
}
EXCEPTIONS = {
    "Hold": "an operator's word: iat-nova hold writes it, and the store keeps it",
    "Pause": "an operator's word: iat-nova pause writes it, and the store keeps it",
}
"""Classes of the model whose values come from elsewhere, and from where."""


def trees(*folders):
    """Yield the syntax trees of the modules in folders of the package."""
    for folder in folders:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            yield ast.parse(path.read_text(encoding="utf-8"))


def fields(module):
    """Return the data classes of a module of the model: {class: {field: default or None}}."""
    return {
        node.name: {
            one.target.id: one.value
            for one in node.body
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        }
        for node in ast.parse((PACKAGE / f"model/{module}.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
        and any("dataclass" in ast.unparse(one) for one in node.decorator_list)
    }


def calls(tree, classes):
    """Yield (class or function, its positional arguments, the call) of calls in a tree.

    `make = functools.partial(One, a=1)` is a call of One, and so is each of `make` later.
    """
    partials = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            of = node.value.args[0] if node.value.args else None
            if last_name(node.value.func) == "partial" and last_name(of) in classes:
                partials[ast.unparse(node.targets[0])] = last_name(of)
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name, args = last_name(node.func), node.args
        if name == "partial" and args and last_name(args[0]) in classes:
            yield last_name(args[0]), args[1:], node
        else:
            yield partials.get(name, name), args, node


def last_name(node):
    """Return the name at the end of ``module.Name``."""
    return "" if node is None else ast.unparse(node).rpartition(".")[2]


def written(classes, found):
    """Yield (class, field) that calls in these trees give another value than the default."""
    for name, args, node in (one for tree in found for one in calls(tree, classes)):
        given = [(one.arg, one.value) for one in node.keywords]
        if name in classes:
            given += zip(classes[name], args, strict=False)
            # Of `*values` and `**values` nothing is known: they may give any field.
            starred = any(isinstance(one, ast.Starred) for one in args)
            if starred or any(one.arg is None for one in node.keywords):
                yield from ((name, field) for field in classes[name])
        for class_ in [name] if name in classes else classes if name == "replace" else ():
            for field, value in given:
                default = classes[class_].get(field)
                same = default is not None and ast.unparse(value) == ast.unparse(default)
                if field in classes[class_] and not same:
                    yield class_, field


class FactsAreRead(unittest.TestCase):
    def test_every_field_has_a_writer(self):
        """Each field that is read gets a value from what looks at the host, or owns it."""
        read = {
            node.attr
            for tree in trees(".")
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        }
        lost = set()
        for module, packages in WRITERS.items():
            classes = fields(module)
            have = set(written(classes, trees(*packages)))
            lost |= {
                f"{class_}.{field}"
                for class_, names in classes.items()
                for field in names
                if class_ not in EXCEPTIONS and field in read and (class_, field) not in have
            }
        self.assertEqual(set(), lost)

    def test_it_finds_what_no_reader_writes(self):
        """A field that keeps its default, or gets it once more, is found."""
        classes = {"One": {"a": None, "b": ast.parse("()").body[0].value}}
        for text, expected in (
            ("One(1)", {"a"}),
            ("One(a=1, b=())", {"a"}),
            ("model.One(1, found)", {"a", "b"}),
            ("dataclasses.replace(one, b=found)", {"b"}),
            ("dataclasses.replace(one, b=())", set()),
            ("One(*values)", {"a", "b"}),
            ("make = partial(One, a=1)", {"a"}),
            ("make = functools.partial(One)\nmake(1, b=found)", {"a", "b"}),
            ("Other(b=1)", set()),
        ):
            with self.subTest(text=text):
                found = {field for _, field in written(classes, [ast.parse(text)])}
                self.assertEqual(expected, found)
