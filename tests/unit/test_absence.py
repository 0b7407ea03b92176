# SPDX-License-Identifier: Apache-2.0
"""A reading that failed is not an absence: no handler of `OSError` ignores the error's number."""

import ast
import errno
import pathlib
import unittest
from unittest import mock

from iat_nova.common import kernel_files

ROOT = pathlib.Path(__file__).parents[2] / "iat_nova"
OFF_HOSTS = ("experiments",)  # run by developers

WHOLE = {"OSError", "IOError", "EnvironmentError", "Exception", "BaseException"}
HIDING = {"exists", "is_dir", "is_file", "glob", "rglob"}  # errors: pathlib and os.path
OURS = {"", "files", "kernel_files"}  # owners of `exists` of common/kernel_files.py

ALLOWED = {
    "agent/hand_over.py let_pass": "then the host is restored",
    "agent/state_pointer.py holds_snapshot": "then a restore is tried",
    "agent/watchdog.py _send": "the next message has the same content",
    "checks/qualify/walker.py _array": "huge pages are an advantage only",
    "checks/doctor.py _listens": "only a remedy depends on it",
    "checks/doctor.py _ovsdb_answers": "only a remedy depends on it",
    "cmd/pause.py _observes": "only a sentence less",
    "cmd/pause.py who": "a number instead of a name",
    "common/owned_folder.py replace": "the first error is raised",
    "common/owned_folder.py _remove_abandoned": "the next write removes it",
    "common/untrusted.py worded": "an error without a text is named by its type",
    "hardware/cat/pqos_lib.py load": "dlopen gives no number",
    "hardware/cat/resctrl_fs.py _folders": "an entry of scandir, whose errors are raised",
    "hardware/enforcement/snapshot_file.py _identity": "then the whole file is read",
    "hardware/kernel/locks.py _lock": "only messages use it",
    "nova/spool.py _replace": "the first error is raised",
    "report/metrics_server.py _connected": "the client is gone",
    "report/metrics_server.py _served": "logged with its traceback",
    "report/sentences/__init__.py ": "files of the package",
}
"""What ignores the number, by module and function, and why the answer is right all the same."""


def found(source):
    """Yield the functions that ignore the number of an error, or ask what hides errors."""
    tree = ast.parse(source)
    of = {}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            of |= dict.fromkeys(ast.walk(function), function.name)
    for node in ast.walk(tree):
        if (isinstance(node, ast.ExceptHandler) and _ignores(node)) or (
            isinstance(node, ast.Call) and (_suppresses(node) or _hides(node.func))
        ):
            yield of.get(node, "")


def _ignores(handler):
    """Return whether a handler may end without an error, and only a `raise` uses the error."""
    inside = [one for line in handler.body for one in ast.walk(line)]
    raised = {one for each in inside if isinstance(each, ast.Raise) for one in ast.walk(each)}
    names = {one.id for one in inside if isinstance(one, ast.Name) and one not in raised}
    raises = isinstance(handler.body[-1], ast.Raise)
    ends = any(isinstance(one, ast.Return | ast.Continue | ast.Break) for one in inside)
    return _is_whole(handler.type) and handler.name not in names and (ends or not raises)


def _is_whole(types):
    if types is None:
        return True
    each = types.elts if isinstance(types, ast.Tuple) else [types]
    return any(ast.unparse(one) in WHOLE for one in each)


def _suppresses(call):
    return ast.unparse(call.func) == "contextlib.suppress" and any(map(_is_whole, call.args))


def _hides(function):
    owner, _, name = ast.unparse(function).rpartition(".")
    return (name in HIDING and owner not in OURS) or name in ("isdir", "isfile")


class Absence(unittest.TestCase):
    """Every module that runs on a compute host."""

    def test_each_handler(self):
        """An error is raised, reported, or its number decides (`kernel_files.absent`)."""
        places = {
            f"{path.relative_to(ROOT)} {function}"
            for path in ROOT.rglob("*.py")
            if path.relative_to(ROOT).parts[0] not in OFF_HOSTS
            for function in found(path.read_text(encoding="utf-8"))
        }
        self.assertEqual(ALLOWED.keys(), places, ALLOWED.keys() ^ places)

    def test_errors(self):
        """What is missing is absent; what cannot be read is an error."""
        name, reads = pathlib.Path("x"), kernel_files
        for read in (reads.status, reads.names, reads.target, reads.text_of, reads.number_of):
            for code in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EMFILE, errno.EIO):
                error = OSError(code, "it fails")
                patch = dict.fromkeys(("stat", "listdir", "readlink"), mock.Mock(side_effect=error))
                opened = mock.patch("io.open", side_effect=error)
                with mock.patch.multiple("os", **patch), opened, self.subTest(read, code=code):
                    if code in (errno.ENOENT, errno.ENOTDIR):
                        self.assertFalse(read(name))
                    else:
                        self.assertRaises(OSError, read, name)

    def test_planted(self):
        """The scan finds each kind."""
        for line in (
            "try: x()\nexcept OSError: pass",
            "try: x()\nexcept (ValueError, OSError) as error: y = None",
            "try: x()\nexcept Exception: y = None",
            "while x():\n try: x()\n except OSError as error:\n  if y: break\n  raise Z(error)",
            "with contextlib.suppress(OSError): x()",
            "(root / 'x').exists()",
            "os.path.exists(x)",
        ):
            self.assertEqual([""], list(found(line)), line)
