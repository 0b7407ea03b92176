# SPDX-License-Identifier: Apache-2.0
"""The reference of the command line, one page of all commands."""

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

from iat_nova.cmd import agent
from iat_nova.cmd.main import Application
from tools import command_reference as reference


class Commands(Directive):
    """Every command: what it does, its usage, its own options, its examples."""

    def run(self):
        application = Application()
        parsers = reference.parsers(application)
        lines = []
        for group, names in reference.groups().items():
            lines += reference.title(group)
            for name in names:
                lines += _command(name, *parsers[name])
        every = [parser for parser, _ in parsers.values()]
        lines += [*reference.title("Options of every command")]
        lines += reference.options(reference.shared(every, "where the"))
        lines += [*reference.title("Options of output formats")]
        lines += reference.options(reference.shared(every, "formatter"))
        lines += [*reference.title("iat-nova-agent"), *_plain(agent._parser())]
        lines += [*reference.title("Exit status"), *reference.exit_statuses(application)]
        node = nodes.container()
        source = StringList(lines, source="iat_nova/cmd")
        nested_parse_with_titles(self.state, source, node)
        return node.children


def _command(name, parser, command):
    """Return a command below the title of its group."""
    return [
        *(*reference.title(f"iat-nova {name}", "-"), *reference.about(command), ""),
        *(*reference.usage(parser), *reference.options(reference.own(parser))),
        *(*reference.formats(parser), *reference.literal(parser.epilog)),
    ]


def _plain(parser):
    """Return a whole parser that shares nothing."""
    return [
        *(reference.escaped(parser.description), "", *reference.usage(parser)),
        *(*reference.options(reference.own(parser)), *reference.literal(parser.epilog)),
    ]


def setup(app):
    app.add_directive("iat-commands", Commands)
    return {"parallel_read_safe": True}
