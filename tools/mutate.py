# SPDX-License-Identifier: Apache-2.0
"""Plant single faults into changed or drawn lines, and show the faults that no test notices.

cosmic-ray makes the faults. Each fault is tested by the module's own tests alone: the test module
of the same name, else the test modules that import the module, else the test module of the folder's
name, else all test modules of the folder. Annotations are left out: mypy reads them, no test does.
The faults are planted into a copy of the checkout. The exit status is 1 if a fault stays unnoticed.

    tox -e mutate                                # lines that differ from the branch main
    tox -e mutate -- --base HEAD~3
    tox -e mutate -- --draw 40 --seed 7 iat_nova/policy iat_nova/model
"""

from __future__ import annotations

import argparse
import ast
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import MutationSpec, TestOutcome

TIMEOUT_S = 120.0
_HUNK = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")


def git(*words: str) -> str:
    """Return the output of a git command."""
    return subprocess.run(("git", *words), check=True, capture_output=True, text=True).stdout


def changed(base: str) -> dict[pathlib.Path, set[int]]:
    """Return each module's changed lines since `base`, uncommitted lines included."""
    found: dict[pathlib.Path, set[int]] = {}
    lines: set[int] = set()
    for line in git("diff", "-U0", base, "--", "iat_nova/*.py").splitlines():
        if line.startswith("+++ b/"):
            lines = found.setdefault(pathlib.Path(line[6:]), set())
        elif hunk := _HUNK.match(line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.update(range(first, first + count))
    return found


def own_tests(module: pathlib.Path) -> list[str]:
    """Return the names of a module's own test modules, from its folder of tests or one above."""
    name, root = _dotted(module), pathlib.Path("tests/unit")
    folder = root.joinpath(*module.parent.parts[1:])
    for place in (one for one in (folder, *folder.parents) if one.is_relative_to(root)):
        tests = sorted(place.glob("test_*.py"))
        named = [test for test in tests if test.stem == f"test_{module.stem}"]
        importing = [test for test in tests if name in _imported(test)]
        by_folder = [test for test in tests if test.stem == f"test_{module.parent.name}"]
        if own := named or importing or by_folder or (tests if place == folder else []):
            return list(map(_dotted, own))
    return []


def _dotted(path: pathlib.Path) -> str:
    return ".".join(path.with_suffix("").parts)


def _imported(test: pathlib.Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def annotations(module: pathlib.Path) -> Iterator[ast.expr]:
    """Yield a module's annotations: of arguments, results, variables and fields."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns


def faults(modules: list[pathlib.Path]) -> list[MutationSpec]:
    """Return every fault that cosmic-ray can plant, outside annotations."""
    unevaluated = {
        module: [
            ((one.lineno, one.col_offset), (one.end_lineno, one.end_col_offset))
            for one in annotations(module)
        ]
        for module in modules
    }
    with tempfile.TemporaryDirectory() as folder:
        database = WorkDB(f"{folder}/session.sqlite", WorkDB.Mode.create)
        init(modules, database, {})
        found = [fault for item in database.work_items for fault in item.mutations]
        database.close()
    return [
        fault
        for fault in found
        if not any(
            first <= fault.start_pos < last for first, last in unevaluated[fault.module_path]
        )
    ]


def main() -> int:
    """Plant and test; print each surviving fault as a difference, and the count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="main", help="the commit to compare with (default: main)")
    parser.add_argument("--draw", type=int, metavar="N", help="plant N drawn faults instead of all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: 0)")
    parser.add_argument("places", nargs="*", type=pathlib.Path, help="modules or folders")
    asked = parser.parse_args()
    lines = None if asked.places else changed(asked.base)
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, "checkout")
        for name in git("ls-files").splitlines():
            if pathlib.Path(name).is_file():
                target = copy / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(pathlib.Path(name).read_bytes())
        os.chdir(copy)
        modules = list(lines or ()) + [
            module
            for place in asked.places
            for module in ([place] if place.is_file() else sorted(place.rglob("*.py")))
        ]
        tests = {module: own_tests(module) for module in modules if module.exists()}
        for module in (module for module in tests if not tests[module]):
            print(f"{module}: no test module, not tested", file=sys.stderr)
        planted = [
            fault
            for fault in faults([module for module in tests if tests[module]])
            if lines is None
            or lines[fault.module_path] & set(range(fault.start_pos[0], fault.end_pos[0] + 1))
        ]
        if asked.draw is not None and asked.draw < len(planted):
            planted = random.Random(asked.seed).sample(planted, asked.draw)
        return _plant(planted, tests)


def _plant(planted: list[MutationSpec], tests: dict[pathlib.Path, list[str]]) -> int:
    survived = 0
    for number, fault in enumerate(planted, 1):
        print(f"\r{number} of {len(planted)}", end="", file=sys.stderr, flush=True)
        command = " ".join((sys.executable, "-m", "unittest", "-f", *tests[fault.module_path]))
        result = mutate_and_test([fault], command, TIMEOUT_S)
        if result.test_outcome == TestOutcome.SURVIVED:
            survived += 1
            print(f"\n{result.diff}")
    print(f"\n{len(planted)} faults, {len(planted) - survived} noticed, {survived} not")
    return bool(survived)


if __name__ == "__main__":
    sys.exit(main())
