# SPDX-License-Identifier: Apache-2.0
"""The reference of the command line, written from the parsers that read it."""

import argparse
import inspect
import re
import textwrap

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

from iat_nova.cmd import agent
from iat_nova.cmd.main import Application, commands

SHARED = re.compile(r"formatter|where the agent keeps", re.IGNORECASE)
"""Titles of the groups of options that many commands have: described once."""


class Commands(Directive):
    """Every command: what it does, its usage, its own options, its examples."""

    def run(self):
        application = Application()
        names = sorted(commands(), key=lambda name: (name.startswith(("bench", "simulate")), name))
        parsers = {name: _parser(application, name) for name in names}
        lines = []
        for name, (parser, command) in parsers.items():
            about = re.sub(r"(?<!`)(`[^`]+`)(?!`)", r"`\1`", inspect.getdoc(command))
            lines += [*_title(f"iat-nova {name}"), *about.splitlines(), ""]
            lines += [*_usage(parser), *_options(_own(parser)), *_formats(parser)]
            lines += _literal(parser.epilog)
        lines += [*_title("Options of every command"), *_options(_shared(parsers, "where the"))]
        lines += [*_title("Options of output formats"), *_options(_shared(parsers, "formatter"))]
        lines += [*_title("iat-nova-agent"), *_plain(agent._parser())]
        lines += [*_title("Exit status"), *_literal(_exit_statuses(application))]
        node = nodes.container()
        source = StringList(lines, source="iat_nova/cmd")
        nested_parse_with_titles(self.state, source, node)
        return node.children


def _parser(application, name):
    """Return a command's parser and its class."""
    command = application.command_manager.commands[name].load()
    made = command(application, argparse.Namespace())
    return made.get_parser(f"iat-nova {name}"), command


def _own(parser):
    """Return the actions of a parser that other commands do not have."""
    return [
        action
        for group in parser._action_groups
        if not SHARED.search(group.title or "")
        for action in group._group_actions
        if action.dest != "help"
    ]


def _shared(parsers, title):
    """Return the actions of the shared groups with this title, each once, over all commands."""
    found = {}
    for parser, _ in parsers.values():
        for group in parser._action_groups:
            if title in (group.title or "").lower():
                for action in group._group_actions:
                    found.setdefault(action.dest, action)
    found.pop("formatter", None)  # told at each command
    return list(found.values())


def _usage(parser):
    """Return the usage without the options that are described once."""
    writer = argparse.HelpFormatter(parser.prog, width=88)
    writer.add_usage(None, _own(parser), parser._mutually_exclusive_groups, prefix="")
    return _literal(writer.format_help())


def _options(actions):
    """Return a definition an option or argument."""
    lines = []
    for action in actions:
        names = action.option_strings or [action.metavar or action.dest]
        value = action.metavar or (f"{{{','.join(action.choices)}}}" if action.choices else None)
        if action.option_strings and action.nargs != 0:
            names = [f"{name} {value or action.dest.upper()}" for name in names]
        text = " ".join((action.help or "").split()) % {"default": action.default}
        lines += [", ".join(f"``{name}``" for name in names), f"   {_escaped(text) or '-'}", ""]
    return lines


def _formats(parser):
    """Tell the output formats of a command that has several."""
    for action in parser._actions:
        if action.dest == "formatter":
            names = ", ".join(f"``{name}``" for name in action.choices)
            return ["``-f FORMAT``", f"   {names}; default: ``{action.default}``", ""]
    return []


def _plain(parser):
    """Return a whole parser that shares nothing."""
    about = _escaped(parser.description)
    return [about, "", *_usage(parser), *_options(_own(parser)), *_literal(parser.epilog)]


def _exit_statuses(application):
    """Return the part of the program's epilog that tells them."""
    return application.parser.epilog.partition("exit status:")[2]


def _title(text):
    return [text, "=" * len(text), ""]


def _literal(text):
    """Return text that is aligned by hand, as it stands."""
    if not text or not text.strip():
        return []
    body = textwrap.dedent(text.strip("\n")).splitlines()
    return [".. code-block:: none", "", *(f"   {line}" for line in body), ""]


def _escaped(text):
    """Keep reStructuredText from seeing markup in a help text."""
    return re.sub(r"([\\*_|`])", r"\\\1", text)


def setup(app):
    app.add_directive("iat-commands", Commands)
    return {"parallel_read_safe": True}
