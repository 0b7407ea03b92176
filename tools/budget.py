# SPDX-License-Identifier: Apache-2.0
"""Compare the project's size with `budget.toml`, and fail where a number is exceeded.

    python -m tools.budget           print each count and its limit; exit status 1 above a limit
    python -m tools.budget --lower   also lower each limit to its count

Limits only fall. A commit that raises a limit says in its message which limit it lowered instead.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator

from iat_nova import conf
from iat_nova.cmd import main as commands
from iat_nova.common import own_yaml
from iat_nova.report.sentences import SENTENCES

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMITS = ROOT / "tools" / "budget.toml"
EXPERIMENTS = "iat_nova/experiments/"


def texts(*patterns: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file that git tracks under the patterns."""
    paths = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, check=True, stdout=subprocess.PIPE
    ).stdout.decode()
    for path in filter(None, paths.split("\0")):
        if (ROOT / path).is_file():  # a file that is deleted and not yet staged is listed, too
            yield path, (ROOT / path).read_text(encoding="utf-8")


def code_lines(*folders: str) -> dict[str, int]:
    """Return the lines of Python and C by path."""
    patterns = [f"{folder}/*.{suffix}" for folder in folders for suffix in ("py", "c", "h")]
    return {path: text.count("\n") for path, text in texts(*patterns)}


def commands_of_experiments() -> int:
    """Return the number of commands that pyproject.toml registers beside the agent's own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return len(project["entry-points"]["iat_nova.commands"])


def counts() -> dict[str, int]:
    """Return the project's size: each count by its name in `budget.toml`."""
    package = code_lines("iat_nova")
    experiments = sum(n for path, n in package.items() if path.startswith(EXPERIMENTS))
    metrics = own_yaml.load((ROOT / "iat_nova/report/metrics.yaml").read_text())
    return {
        "host_lines": sum(package.values()) - experiments,
        "experiments_lines": experiments,
        "tests_lines": sum(code_lines("tests").values()),
        "pages_words": sum(len(text.split()) for _, text in texts("doc/source/*.rst")),
        "message_codes": len(SENTENCES),
        "options": sum(len(options) for _, options in conf.list_opts()),
        "metrics": sum(len(subject) for subject in metrics.values()),
        "commands": len(commands.COMMANDS) + commands_of_experiments(),
    }


def main() -> int:
    """Print the comparison; the exit status is 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lower", action="store_true", help="lower each limit to its count")
    arguments = parser.parse_args()
    limits = tomllib.loads(LIMITS.read_text())
    sizes = counts()
    for name, size in sizes.items():
        excess = f"  exceeded by {size - limits[name]}" if size > limits[name] else ""
        print(f"{name:18}{size:7} of {limits[name]:6}{excess}")
    if arguments.lower:
        LIMITS.write_text(
            "".join(f"{name} = {min(size, limits[name])}\n" for name, size in sizes.items())
        )
    return int(any(size > limits[name] for name, size in sizes.items()))


if __name__ == "__main__":
    sys.exit(main())
