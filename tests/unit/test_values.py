# SPDX-License-Identifier: Apache-2.0
"""No code goes by the words of a message, and sentences stand in the tables of `report/sentences`.

Both are read off the syntax of every module. A value is a *text for people* where it is the `str`
of an exception, one of its texts, what makes sentences (`sentences.text`, `words`, `Names.within`),
or was made of such a text. It may be shown. It may not be compared, searched, split, sliced, or
used as a key.
"""

from __future__ import annotations

import ast
import collections
import enum
import pathlib
import re
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping, Set

import iat_nova

PACKAGE = pathlib.Path(iat_nova.__file__).parent

MAKERS = {"text", "sentence", "within", "worded", "unreadable"}
"""Functions and methods that return a text for people, beside those that are found to do so."""

MANY = {"texts"}
"""Functions that return several."""

WORDERS = {"words", "sentences"}
"""Modules of `report` whose functions return texts for people."""

TURNED = {"str", "repr", "join", "plain", "lines", "shortened", "cut", "strip", "format", "line"}
"""Functions and methods whose text is one for people where they are given one."""

ERROR_TEXTS = {"args", "msg", "problem", "context", "reason", "strerror", "message", "state"}
"""Attributes of exceptions that are texts, in the package or in other people's code."""

SEARCHES = {
    "startswith", "endswith", "partition", "rpartition", "split", "rsplit", "splitlines",
    "removeprefix", "removesuffix", "find", "rfind", "index", "rindex", "count", "replace",
}  # fmt: skip
"""Methods by which a text is matched or taken apart."""

MATCHERS = {"match", "fullmatch", "search", "findall", "finditer", "sub", "split"}
"""Functions of `re`, and methods of its patterns, that look into a text."""

EQUAL = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)

LOOKUPS = {"fromkeys", "get", "pop", "setdefault", "index", "count", "add", "discard"}
"""Methods of mappings, lists and sets that use their first argument as a key, or its parts."""

ALLOWED = {
    "cmd/top.py Scene._read": "a page is cut into the lines of a screen",
    "conf/reading.py parsed": "oslo.config tells the file and the value in its text alone",
    "report/status.py page": "a page is cut into the lines of a screen",
    "report/metric_values.py reasons": "labels of one metric must differ, and the text is one",
}
"""Function -> why it may look into a text for people. Each entry must still be needed."""

LABORATORIES = ("experiments/",)
"""What no host runs: the emulated server and its benches."""

EDGE = ("cmd/", "report/")
"""Where sentences reach people: commands word what was mistyped, `report` has the tables."""

BUILDERS = {"message", "verbatim", "Finding", "Reason", "Hold", "Pause", "Problem"}
"""What carries a text to people, beside exceptions."""

READERS = {
    "common/cpulist.py": "lists of CPUs as people and the kernel write them; below `model`",
    "common/files.py": "files of any kind; below `model`",
    "common/owned_folder.py": "files of any kind; below `model`",
    "common/readers.py": "what an unreadable file means; below `model`",
    "common/untrusted.py": "JSON, YAML and numbers that others wrote; below `model`",
    "inventory/ovs_rpc.py": "JSON-RPC",
    "inventory/ovs.py": "files of ovs-vswitchd",
    "inventory/ovsdb.py": "OVSDB",
    "inventory/pmd.py": "CPU masks of Open vSwitch",
    "nova/spool.py": "what nova-compute loads needs nothing of this package",
    "store/database.py": "SQLite's files",
    "store/heartbeat.py": "agent.lock of another process",
    "store/reader.py": "records of any version",
    "store/packing.py": "records of any version",
    "store/records.py": "records of any version",
    "store/replay.py": "records of any version",
    "strategies/api.py": "what a plug-in returned, told to its author",
    "strategies/registry.py": "plug-ins that do not load",
    "store/writer.py": "a caller's mistake",
}
"""The lowest readers of foreign formats, whose errors say what is wrong with these."""

OUTSIDE = {
    "agent/hand_over.py": 1,
    "agent/provider_config.py": 1,
    "agent/wiring.py": 1,
    "hardware/enforcement/snapshot_file.py": 1,
    "hardware/kernel/msr.py": 1,
    "hardware/host/probe.py": 1,
    "model/facts.py": 1,
}
"""Sentences that are yet to go into the tables: fewer are welcome, more are not."""


class Kind(enum.Enum):
    """What an expression gives, where that is for people."""

    TEXT = "a text"
    TEXTS = "several texts"


class Texts:
    """Where, in one function, a text for people decides something.

    `makers`: names of functions that return such a text; `holders`: of attributes that are one.
    """

    def __init__(self, function: ast.AST, makers: Set[str], holders: Set[str]) -> None:
        self._body, self._makers, self._holders = function, makers, holders
        self._errors = set(errors_of(function))
        self._kinds: dict[str, Kind] = {}
        before = -1
        while before != len(self._kinds):  # until nothing is new
            before = len(self._kinds)
            for node in ast.walk(function):
                self._learn(node)

    def _learn(self, node: ast.AST) -> None:
        """Note which names hold a text, or several."""
        match node:
            case ast.Assign(targets=targets, value=value):
                pairs = [(target, self.kind(value)) for target in targets]
            case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
                return
            case ast.AnnAssign(target=target, value=ast.AST() as value):
                pairs = [(target, self.kind(value))]
            case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target, value):
                pairs = [(target, self.kind(value))]
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                pairs = [(target, Kind.TEXT if self.kind(value) is Kind.TEXTS else None)]
            case _:
                return
        for target, kind in pairs:
            if isinstance(target, ast.Name) and kind is not None:
                self._kinds.setdefault(target.id, kind)

    def kind(self, node: ast.AST | None) -> Kind | None:
        """Return what an expression is: a text for people, several, or nothing of the kind."""
        match node:
            case ast.Name(id=name):
                return self._kinds.get(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in self._errors:
                return Kind.TEXT if attribute in ERROR_TEXTS else None
            case ast.Attribute(attr=name):
                return Kind.TEXT if name in self._holders else None
            case ast.Constant(value=str(text)):
                return Kind.TEXT if is_sentence(text) else None
            case ast.JoinedStr(values=values):
                return self._joined(values)
            case ast.BinOp(left=left, right=right):
                return self.kind(left) or self.kind(right)
            case ast.BoolOp(values=values):
                return self._first(values)
            case ast.IfExp(body=body, orelse=other):
                return self._first((body, other))
            case ast.Subscript(value=value, slice=key):
                kind = self.kind(value)
                return Kind.TEXT if kind is Kind.TEXTS and not isinstance(key, ast.Slice) else kind
            case ast.List(elts=several) | ast.Tuple(elts=several) | ast.Set(elts=several):
                return Kind.TEXTS if any(map(self.kind, several)) else None
            case ast.ListComp(elt=one) | ast.GeneratorExp(elt=one) | ast.SetComp(elt=one):
                return Kind.TEXTS if self.kind(one) else None
            case ast.Starred(value=value):
                return self.kind(value)
            case ast.Call():
                return self._called(node)
        return None

    def _first(self, nodes: Iterable[ast.AST]) -> Kind | None:
        return next(filter(None, map(self.kind, nodes)), None)

    def _joined(self, parts: Iterable[ast.AST]) -> Kind | None:
        """Return what an f-string is: a sentence, or a text with one in it or with an error."""
        words = "".join(one.value if isinstance(one, ast.Constant) else "x" for one in parts)
        held = [one.value for one in parts if isinstance(one, ast.FormattedValue)]
        if is_sentence(words) or any(self.kind(one) or self._is_error(one) for one in held):
            return Kind.TEXT
        return None

    def _called(self, call: ast.Call) -> Kind | None:
        name = last_name(call.func)
        if name in MANY:
            return Kind.TEXTS
        if name in self._makers or of_words(call.func):
            return Kind.TEXT
        if name in TURNED:  # str(error), and what cuts, escapes or joins a text
            if any(map(self._is_error, call.args)):
                return Kind.TEXT
            return Kind.TEXT if any(map(self.kind, call.args)) else None
        if name in {"list", "tuple", "sorted", "set", "frozenset"}:
            return self._first(call.args)
        return None

    def _is_error(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in self._errors

    def look(self) -> Iterator[tuple[int, str]]:
        """Yield line and source of each place."""
        for node in ast.walk(self._body):
            if any(map(self.kind, looked_into(node, self.kind))):
                yield node.lineno, ast.unparse(node)

    def returns(self) -> bool:
        """Tell whether each value that the function returns is a text, None or empty."""
        values = [one.value for one in ast.walk(self._body) if isinstance(one, ast.Return)]
        told = [one for one in values if one is not None and not is_empty(one)]
        return bool(told) and all(self.kind(one) is Kind.TEXT for one in told)

    def held(self) -> Iterator[tuple[str, bool]]:
        """Yield each attribute that is set, and whether to a text."""
        for node in ast.walk(self._body):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Attribute) and not is_empty(node.value):
                        yield target.attr, self.kind(node.value) is Kind.TEXT


def errors_of(function: ast.AST) -> Iterator[str]:
    """Yield the names by which a function knows exceptions."""
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        if isinstance(node, ast.arg) and node.annotation is not None:
            kind = ast.unparse(node.annotation)
            yield from [node.arg] if re.search(r"(Exception|Error)\b", kind) else ()


def last_name(node: ast.AST) -> str:
    """Return ``c`` of ``a.b.c``."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def of_words(node: ast.AST) -> bool:
    """Tell whether a function is of a module that makes texts for people."""
    match node:
        case ast.Attribute(value=ast.Name(id=module)):
            return module in WORDERS
    return False


def looked_into(node: ast.AST, kind: Callable[[ast.AST], Kind | None]) -> Iterator[ast.AST]:
    """Yield the expressions whose words decide what a node does."""
    match node:
        case ast.Compare(left=left, ops=operators, comparators=others):
            sides = [left, *others]
            for operator, one, other in zip(operators, sides, others, strict=False):
                if isinstance(operator, EQUAL) and not is_empty(one) and not is_empty(other):
                    yield from (one, other)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=arguments):
            if name in SEARCHES and kind(value) is Kind.TEXT:
                yield value
            if name in MATCHERS and name not in SEARCHES:
                yield from arguments[-1:]
            if name in LOOKUPS:
                yield from arguments[:1]
        case ast.Subscript(value=value, slice=key):
            yield key
            if isinstance(key, ast.Slice) and kind(value) is Kind.TEXT:
                yield value
        case ast.Dict(keys=keys):
            yield from (key for key in keys if key is not None)
        case ast.DictComp(key=key):
            yield key
        case ast.Match(subject=subject):
            yield subject


def is_empty(node: ast.AST) -> bool:
    """Tell whether it is "" or None: to ask whether there is a text is no look into it."""
    return isinstance(node, ast.Constant) and not node.value


def is_sentence(text: str) -> bool:
    """Tell whether a text has three words or more, in letters alone."""
    return len(re.findall(r"(?<!\S)[A-Za-z][a-z'`-]*[,.:;?]?(?!\S)", text)) >= 3


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions of a module with their names, and the rest of it as ``<module>``."""
    rest = ast.Module([], [])
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for one in node.body:
                if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield f"{node.name}.{one.name}", one
                else:
                    rest.body.append(one)
        else:
            rest.body.append(node)
    yield "<module>", rest


class Scan:
    """The functions of several modules, with what is learnt of them together.

    A function makes texts where each function of that name returns one; an attribute is a text
    where all that is ever put into attributes of that name is one.
    """

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._functions = [
            (f"{module} {name}", name, function)
            for module, source in modules.items()
            for name, function in functions(ast.parse(source))
        ]
        self._makers, self._holders = set(MAKERS), set[str]()
        before = -1
        while before != len(self._makers) + len(self._holders):
            before = len(self._makers) + len(self._holders)
            self._learn()

    def _learn(self) -> None:
        makes: dict[str, bool] = {}
        holds: dict[str, bool] = {}
        for _, name, function in self._functions:
            texts = Texts(function, self._makers, self._holders)
            short = name.rpartition(".")[2]
            makes[short] = makes.get(short, True) and texts.returns()
            for attribute, is_text in texts.held():
                holds[attribute] = holds.get(attribute, True) and is_text
        self._makers |= {name for name, always in makes.items() if always}
        self._holders |= {name for name, always in holds.items() if always}

    def places(self) -> Iterator[tuple[str, str]]:
        """Yield module and function, and the source, of each place where words decide."""
        for name, _, function in self._functions:
            for _, code in Texts(function, self._makers, self._holders).look():
                yield name, code


def built(source: str) -> Iterator[str]:
    """Yield the words of each sentence that is given to an error or a message.

    Also by a name: one to which the function has assigned a sentence.
    """
    for _, function in functions(ast.parse(source)):
        named: dict[str, list[str]] = {}
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.expr() as value):
                    if isinstance(value, (ast.Constant, ast.JoinedStr, ast.IfExp, ast.BinOp)):
                        named.setdefault(name, []).extend(worded(value))
        found: list[str] = []
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and carries(last_name(node.func)):
                for given in (*node.args, *(one.value for one in node.keywords)):
                    found += worded(given)
                    found += named.get(given.id, ()) if isinstance(given, ast.Name) else ()
        yield from dict.fromkeys(found)


def worded(node: ast.AST) -> list[str]:
    """Return the sentences in an expression."""
    return [words for one in literals(node) if is_sentence(words := words_of(one))]


def literals(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the literals within an expression, an f-string as one."""
    if isinstance(node, (ast.Constant, ast.JoinedStr)):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from literals(child)


def carries(name: str) -> bool:
    """Tell whether a call of that name makes an error, or a message."""
    kinds = r"(Error|Failure|Refusal|Exception|Unreadable|Taken|Offline)$"
    return name in BUILDERS or re.search(kinds, name) is not None


def words_of(node: ast.AST) -> str:
    """Return the words of a literal; a value within stands as ``0``."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(
                words_of(one) if isinstance(one, ast.Constant) else "0" for one in values
            )
    return ""


def speaking(sources: Iterable[str]) -> set[str]:
    """Return the names of exceptions that carry a message, and of those made of these."""
    classes = [
        node
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and node.bases
    ]
    found = {
        node.name
        for node in classes
        if re.search(r"(Error|Exception)\b", ast.unparse(node.bases[0])) and "message" in own(node)
    }
    before = 0
    while before != len(found):
        before = len(found)
        found |= {
            one.name for one in classes if any(last_name(base) in found for base in one.bases)
        }
    return found


def own(node: ast.ClassDef) -> set[str]:
    """Return the names of a class's methods, and of what they set."""
    return {
        one.name if isinstance(one, ast.FunctionDef) else one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.FunctionDef)
        or (isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store))
    }


def mute(source: str, errors: Set[str]) -> Iterator[str]:
    """Yield where an error that carries a message is shown by its `str`, which is no sentence."""
    for handler in ast.walk(ast.parse(source)):
        if not isinstance(handler, ast.ExceptHandler) or handler.type is None:
            continue
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if not any(last_name(kind) in errors for kind in kinds):
            continue
        for node in ast.walk(handler):
            match node:
                case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]):
                    shown = name
                case ast.FormattedValue(value=ast.Name(id=name)):
                    shown = name
                case _:
                    continue
            if shown == handler.name:
                yield f"{ast.unparse(handler.type)}: {ast.unparse(node)}"


def modules() -> dict[str, str]:
    """Return the sources of what hosts run, by their path in the package."""
    found = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}
    return {name: text for name, text in sorted(found.items()) if not name.startswith(LABORATORIES)}


class TestWords(unittest.TestCase):
    """Words decide nothing."""

    def test_no_place(self) -> None:
        """But for those that are listed, each of which is still there."""
        found = list(Scan(modules()).places())
        new = [f"{name}: {code}" for name, code in found if name not in ALLOWED]
        self.assertEqual([], new)
        self.assertEqual(set(), ALLOWED.keys() - {name for name, _ in found})


class TestErrors(unittest.TestCase):
    """Errors that carry messages are shown by their sentences."""

    def test_none_is_mute(self) -> None:
        """Commands, laboratories too, ask for the sentence; `str` gives code and values alone."""
        sources = {
            str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")
        }
        errors = speaking(sources.values())
        self.assertLessEqual({"PolicyError", "ConfigError", "LayoutError", "FactsError"}, errors)
        found = [f"{name}: {one}" for name in sources for one in mute(sources[name], errors)]
        self.assertEqual([], found)


class TestSentences(unittest.TestCase):
    """Sentences stand in the tables."""

    def test_outside(self) -> None:
        """Errors and messages are given none; what is left of these becomes less."""
        found = collections.Counter(
            name
            for name, source in modules().items()
            for _ in built(source)
            if not name.startswith(EDGE) and name not in READERS
        )
        more = {name: count for name, count in found.items() if count > OUTSIDE.get(name, 0)}
        self.assertEqual({}, more)

    def test_listed(self) -> None:
        """Each reader of the list still words something."""
        sources = modules()
        self.assertEqual([], [name for name in READERS if not any(built(sources[name]))])
