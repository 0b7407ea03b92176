# SPDX-License-Identifier: Apache-2.0
"""iat-nova --help: all commands by purpose, with a sentence each; no command is loaded.

cliff loads every command for its list, which takes longer than most commands run.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import itertools
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from importlib.abc import InspectLoader
from importlib.metadata import EntryPoint

from autopage import argparse as pages
from cliff import app, help

from iat_nova.cmd.base import EXIT_USAGE, Failure
from iat_nova.common import plugins

INDENT = "  "
WIDEST = 100  # columns; longer lines are hard to read
NEAR = 0.7  # how like a command a word must be to be taken for a slip

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
                text = unknown(parsed_args.cmd, dict(self.app.command_manager))
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


def unknown(words: Sequence[str], known: Iterable[str]) -> str:
    """Return the error message for an unknown command; `known`: all commands."""
    typed = [*itertools.takewhile(lambda word: not word.startswith("-"), words)]
    if not typed:
        return f"unknown option {words[0]!r}: options of a command stand behind it"
    names, first = list(known), typed[0]
    inside = [name for name in names if name.split()[0] == first]
    elsewhere = (one.name.replace("_", " ") for one in plugins.absent(plugins.COMMANDS))
    if not inside and any(name.split()[0] == first for name in elsewhere):
        return f"{first!r} comes with the emulated server: install python3-iat-nova-simulator"
    if inside and len(typed) == 1:
        return f"{first!r} is the beginning of: {', '.join(inside)}"
    refused = f"{' '.join(typed[:2] if inside else typed[:1])!r} is not an iat-nova command"
    if inside:  # a slip in the second word
        words_of = {name.split()[1]: name for name in inside}
        close = difflib.get_close_matches(typed[1], words_of, cutoff=NEAR)
        near = [words_of[word] for word in close] or inside
    else:
        near = [name for name in names if name.startswith(first)]
        near = near or difflib.get_close_matches(" ".join(typed[:2]), names, cutoff=NEAR)
        near = near or difflib.get_close_matches(first, names, cutoff=NEAR)
    meant = f"did you mean {', '.join(near)}?" if near else "`iat-nova --help` lists them"
    return f"{refused}; {meant}"


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
    """Return the first sentence of a command's docstring, if possible without loading it."""
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
