# SPDX-License-Identifier: Apache-2.0
"""iat-nova --help: all commands by their purpose, a sentence each, without loading any.

cliff loads every command for its list, which takes longer than most commands run.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import textwrap
from collections.abc import Iterable
from importlib.abc import InspectLoader
from importlib.metadata import EntryPoint

from autopage import argparse as pages
from cliff import app, help

from iat_nova.cmd.base import EXIT_USAGE, Failure

INDENT = "  "
WIDEST = 100  # columns; longer lines are hard to read

GROUPS = (
    ("see what happens", ("status", "top", "tenants", "decisions", "report")),
    ("ask why and how", ("explain", "advise", "help")),
    ("set up and check a host", ("doctor", "qualify", "provider-config")),
    ("policies", ("policy",)),
    (
        "steer the agent",
        ("hold", "release", "pause", "resume", "reload", "hand-over", "restore"),
    ),
    ("research on the emulated server", ("simulate", "bench")),
)
"""Commands by their purpose, the most used first; a first word stands for all its commands."""

OTHERS = "commands of other packages"


class Help(help.HelpCommand):  # type: ignore[misc]
    """Show the options and examples of a command, or list all commands."""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Write the help and return the exit status. Raises `Failure` for an unknown command."""
        if parsed_args.cmd:
            try:
                status: int = super().take_action(parsed_args)
            except ValueError as error:
                name = " ".join(parsed_args.cmd)
                text = f"{name!r} is not an iat-nova command. See 'iat-nova --help'."
                raise Failure(text, EXIT_USAGE) from error
            return status
        show(self.app)
        return 0


def show(application: app.App) -> None:
    """Write the options of the program and the list of commands; on a terminal, in a pager."""
    pager = pages.help_pager(application.stdout)
    pages.use_color_for_parser(application.parser, pager.to_terminal())
    width = min(shutil.get_terminal_size().columns, WIDEST)
    with pager as out:
        application.parser.print_help(out)
        out.write(f"\n{listing(dict(application.command_manager), width)}\n")


def grouped(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of commands by group, in the order in which a help shows them."""
    order = {word: (title, i) for title, words in GROUPS for i, word in enumerate(words)}
    groups: dict[str, list[str]] = {title: [] for title in (*dict(GROUPS), OTHERS)}
    for name in names:
        groups[order.get(name.split()[0], (OTHERS, 0))[0]].append(name)
    for several in groups.values():
        several.sort(key=lambda name: (order.get(name.split()[0], (OTHERS, 0))[1], name))
    return {title: several for title, several in groups.items() if several}


def listing(commands: dict[str, EntryPoint], width: int) -> str:
    """Return the commands by group with their sentences, in lines of at most `width` columns."""
    longest = max(map(len, commands))
    lines = []
    for title, names in grouped(commands).items():
        lines += [f"{title}:"] + [
            textwrap.fill(
                f"{name:{longest}}{INDENT}{sentence(commands[name])}",
                width,
                initial_indent=INDENT,
                subsequent_indent=" " * (2 * len(INDENT) + longest),
                break_on_hyphens=False,
            )
            for name in names
        ]
        lines.append("")
    return "\n".join(lines).rstrip()


def sentence(point: EntryPoint) -> str:
    """Return the first sentence of a command's docstring, from its source where that is at hand."""
    written = rf'^class {re.escape(point.attr)}\b[^:]*:\n +"""(.*?)(?:"""|\n)'
    found = re.search(written, _source(point.module), re.MULTILINE)
    if found is not None:
        return found[1].rstrip(".")
    described = point.load().__doc__ or ""
    return described.strip().partition("\n")[0].rstrip(".")


def _source(module: str) -> str:
    """Return the source of a module that is not loaded; empty if its loader has none."""
    spec = importlib.util.find_spec(module)
    loader = None if spec is None else spec.loader
    return (loader.get_source(module) or "") if isinstance(loader, InspectLoader) else ""
