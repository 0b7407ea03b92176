# SPDX-License-Identifier: Apache-2.0
"""``python -m tools.man_pages FOLDER``: write the manual pages below FOLDER (man1, man5, man8).

They are made from what the programs themselves say: the parsers of the commands that are installed,
and the options of the configuration. Who packages the project runs it; it needs docutils.
"""

import importlib.metadata
import os
import pathlib
import sys
import time

from docutils.core import publish_string
from docutils.writers import manpage

from iat_nova import conf
from iat_nova.cmd import agent
from iat_nova.cmd.main import DESCRIPTION, Application
from iat_nova.common import config_files
from tools import command_reference as reference

FILES = {
    f"{conf.STATE_DIR}/": "the agent's state: its history, pauses and holds",
    **dict.fromkeys(
        config_files.PATTERNS, "configuration, see iat-nova.conf(5); the last one wins"
    ),
}


def main(folder):
    """Write all pages and return how many they are."""
    written = pages()
    for (name, section), lines in written.items():
        path = pathlib.Path(folder) / f"man{section}" / f"{name}.{section}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(manual(lines, str(path)))
    return len(written)


def pages():
    """Return the pages' reStructuredText, by name and section of the manual."""
    application = Application()
    parsers = reference.parsers(application)
    found = {("iat-nova", 1): program(application, parsers)}
    for name, (parser, command) in parsers.items():
        found[page(name), 1] = of_command(application, name, parser, command)
    found["iat-nova-agent", 8] = of_agent(agent._parser())
    found["iat-nova.conf", 5] = configuration()
    return found


def page(name):
    """Return the name of a command's page."""
    return f"{Application.NAME}-{name.replace(' ', '-')}"


def head(name, section, summary):
    """Return the begin of a page: its title, what it is in a line, its section."""
    summary = summary.rstrip(".").replace("`", "")
    built = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    return [
        *("=" * len(name), name, "=" * len(name), ""),
        *("-" * len(summary), summary, "-" * len(summary), ""),
        f":Manual section: {section}",
        ":Manual group: iat-nova",
        f":Version: {importlib.metadata.version('iat-nova')}",
        f":Date: {time.strftime('%Y-%m-%d', time.gmtime(built))}",
        "",
    ]


def program(application, parsers):
    """Return the page of the program: its commands in a line each."""
    lines = [*head("iat-nova", 1, DESCRIPTION), *reference.title("SYNOPSIS")]
    lines += reference.literal("iat-nova [options] COMMAND [arguments]\niat-nova help COMMAND")
    lines += [*reference.title("COMMANDS")]
    for group, names in reference.groups().items():
        lines += reference.title(group, "-")
        for name in names:
            lines += [f"``{name}``", f"   {reference.about(parsers[name][1])[0]}", ""]
    lines += ["The page of a command is named as ``iat-nova-policy-check``\\(1).", ""]
    lines += [*reference.title("OPTIONS"), *reference.options(application.parser._actions)]
    first_steps = application.parser.epilog.partition("exit status:")[0]
    lines += [*reference.title("EXAMPLES"), *reference.literal(first_steps)]
    return [*lines, *ending(application, ("iat-nova-agent", 8), ("iat-nova.conf", 5))]


def of_command(application, name, parser, command):
    """Return the page of a command."""
    summary, *about = reference.about(command)
    lines = [*head(page(name), 1, summary), *reference.title("SYNOPSIS"), *reference.usage(parser)]
    if any(about):
        lines += [*reference.title("DESCRIPTION"), *about, ""]
    lines += [*reference.title("OPTIONS"), *reference.options(reference.own(parser))]
    lines += [*reference.formats(parser)]
    for group in ("where the", "formatter"):
        lines += reference.options(reference.shared([parser], group))
    if parser.epilog:
        lines += [*reference.title("EXAMPLES"), *reference.literal(parser.epilog)]
    return [*lines, *ending(application, ("iat-nova", 1), ("iat-nova.conf", 5))]


def of_agent(parser):
    """Return the page of the agent."""
    lines = [*head("iat-nova-agent", 8, parser.description), *reference.title("SYNOPSIS")]
    lines += reference.usage(parser)
    lines += [*reference.title("OPTIONS"), *reference.options(reference.own(parser))]
    lines += [*reference.title("NOTES"), *reference.literal(parser.epilog)]
    return [*lines, *files(), *see(("iat-nova", 1), ("iat-nova.conf", 5), ("systemctl", 1))]


def configuration():
    """Return the page of the configuration: every option of ours, with values and default."""
    lines = [
        *head("iat-nova.conf", 5, "configuration of iat-nova"),
        *reference.title("DESCRIPTION"),
    ]
    names = ", ".join(f"``{name}``" for name in config_files.PATTERNS)
    lines += [f"{names} are read in this order where they can be, the last one wins.", ""]
    for group, options in conf.list_opts():
        lines += reference.title(f"[{group}]")
        for option in options:
            lines += [f"``{option.name}``", f"   {reference.escaped(option.help)}", ""]
            values = getattr(option.type, "choices", None) or {}
            for value, what in values.items():
                if what:
                    lines += [f"   ``{value}``", f"      {reference.escaped(what)}", ""]
            kind = "One of " + ", ".join(map(str, values)) if values else str(option.type)
            lines += [f"   {reference.escaped(kind)}; {default(option)}", ""]
    return [*lines, *files(), *see(("iat-nova", 1), ("iat-nova-agent", 8))]


def default(option):
    """Tell what an option is where nobody sets it."""
    shown = option.sample_default if option.sample_default is not None else option.default
    return "unset" if shown in (None, "", []) else f"default: ``{shown}``"


def ending(application, *others):
    """Return the last sections of the pages of commands."""
    statuses = [*reference.title("EXIT STATUS"), *reference.exit_statuses(application)]
    return [*statuses, *files(), *see(*others)]


def files():
    """Return the section on files."""
    lines = reference.title("FILES")
    for name, what in FILES.items():
        lines += [f"``{name}``", f"   {what}", ""]
    return lines


def see(*others):
    """Return the section that names other pages."""
    return [*reference.title("SEE ALSO"), ", ".join(f"**{name}**\\({s})" for name, s in others)]


def manual(lines, path):
    """Return a page for man. Raises docutils' `SystemMessage` for what is no reStructuredText."""
    settings = {"syntax_highlight": "none", "halt_level": 2, "report_level": 2}
    text = "\n".join(lines) + "\n"
    return publish_string(text, path, writer=manpage.Writer(), settings_overrides=settings)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"{main(sys.argv[1])} pages")
