# SPDX-License-Identifier: Apache-2.0
"""The reference of the command line as reStructuredText, written from the parsers that read it.

The pages (doc/source/_ext/commands.py) and the manual pages (tools/man_pages.py) are made of it.
"""

import argparse
import inspect
import re
import textwrap

from iat_nova.cmd import overview
from iat_nova.cmd.main import Application, commands

SHARED = re.compile(r"formatter|where the agent keeps", re.IGNORECASE)
"""Titles of the groups of options that many commands have: described once."""


def parsers(application):
    """Return each command's parser and its class, by name, in the order of the groups."""
    names = [name for several in groups().values() for name in several]
    return {name: _parser(application, name) for name in names}


def groups():
    """Return the names of commands by the title of their group, as `iat-nova --help` has them."""
    return {head(title): names for title, names in overview.grouped(commands()).items()}


def head(text):
    """Return the title of a group with a capital letter."""
    return f"{text[0].upper()}{text[1:]}"


def _parser(application, name):
    command = application.command_manager.commands[name].load()
    made = command(application, argparse.Namespace())
    return made.get_parser(f"{Application.NAME} {name}"), command


def about(command):
    """Return the lines of a command's docstring; a code in it is in single backticks."""
    return re.sub(r"(?<!`)(`[^`]+`)(?!`)", r"`\1`", inspect.getdoc(command)).splitlines()


def own(parser):
    """Return the actions of a parser that other commands do not have."""
    return [
        action
        for group in parser._action_groups
        if not SHARED.search(group.title or "")
        for action in group._group_actions
        if action.dest != "help"
    ]


def shared(some, title):
    """Return the actions of the shared groups with this title, each once, over some parsers."""
    found = {}
    for parser in some:
        for group in parser._action_groups:
            if title in (group.title or "").lower():
                for action in group._group_actions:
                    found.setdefault(action.dest, action)
    found.pop("formatter", None)  # told at each command
    return list(found.values())


def usage(parser):
    """Return the usage without the options that are described once."""
    writer = argparse.HelpFormatter(parser.prog, width=88)
    writer.add_usage(None, own(parser), parser._mutually_exclusive_groups, prefix="")
    return literal(writer.format_help())


def options(actions):
    """Return a definition an option or argument."""
    lines = []
    for action in (action for action in actions if action.help != argparse.SUPPRESS):
        names = action.option_strings or [action.metavar or action.dest]
        value = action.metavar or (f"{{{','.join(action.choices)}}}" if action.choices else None)
        if action.option_strings and action.nargs != 0:
            names = [f"{name} {value or action.dest.upper()}" for name in names]
        text = " ".join((action.help or "").split()) % {"default": action.default}
        lines += [", ".join(f"``{name}``" for name in names), f"   {escaped(text) or '-'}", ""]
    return lines


def formats(parser):
    """Tell the output formats of a command that has several."""
    for action in parser._actions:
        if action.dest == "formatter":
            names = ", ".join(f"``{name}``" for name in action.choices)
            return ["``-f FORMAT``", f"   {names}; default: ``{action.default}``", ""]
    return []


def exit_statuses(application):
    """Return the part of the program's epilog that tells them."""
    return literal(application.parser.epilog.partition("exit status:")[2])


def title(text, line="="):
    """Return the title of a section; of one below it, with another `line`."""
    return [text, line * len(text), ""]


def literal(text):
    """Return text that is aligned by hand, as it stands."""
    if not text or not text.strip():
        return []
    body = textwrap.dedent(text.strip("\n")).splitlines()
    return [".. code-block:: none", "", *(f"   {line}" for line in body), ""]


def escaped(text):
    """Keep reStructuredText from seeing markup in a help text."""
    return re.sub(r"([\\*_|`])", r"\\\1", text)
