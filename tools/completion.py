# SPDX-License-Identifier: Apache-2.0
"""``python -m tools.completion SHELL``: write what completes iat-nova's command line.

For bash and zsh: commands, options, their values, files, and the names of guests, whom the program
itself is asked for. It is made from the parsers of the commands that are installed. Who packages
the project runs it; it needs shtab.
"""

import argparse
import sys

import shtab

from iat_nova.cmd.main import Application
from tools import command_reference as reference

GUESTS = {"bash": "_iat_nova_guests", "zsh": "_iat_nova_guests"}
SCENARIOS = {"bash": "_iat_nova_scenarios", "zsh": "_iat_nova_scenarios"}

COMPLETES = {
    **dict.fromkeys(("FILE", "TESTS", "FACTS"), shtab.FILE),
    **dict.fromkeys(("DIR", "FOLDER"), shtab.DIRECTORY),
    **dict.fromkeys(("GUEST", "TIME|GUEST", "TIME|GUEST|PORT"), GUESTS),
    "SCENARIO": SCENARIOS,
}
"""How an argument is completed, by the word that stands for it in the help."""

PREAMBLE = {
    "bash": """
# Whoever may start a guest chooses its name: it is compared and quoted, not expanded (compgen -W).
_iat_nova_names() {
  local name begin="$1"
  while IFS= read -r name; do
    [[ "$name" == "$begin"* ]] && printf '%q\\n' "$name"
  done < <(iat-nova "${@:2}" -f value -c name 2>/dev/null)
}
_iat_nova_guests() { _iat_nova_names "$1" tenants; }
_iat_nova_scenarios() { _iat_nova_names "$1" simulate list; compgen -f -- "$1"; }
""",
    "zsh": """
_iat_nova_guests() {
  local -a names=("${(@f)$(iat-nova tenants -f value -c name 2>/dev/null)}")
  compadd -a names
}
_iat_nova_scenarios() {
  local -a names=("${(@f)$(iat-nova simulate list -f value -c name 2>/dev/null)}")
  compadd -a names
  _files
}
""",
}


def tree():
    """Return one parser of the whole command line; a group of commands is a parser of its own."""
    application = Application()
    top = argparse.ArgumentParser(Application.NAME, add_help=False)
    take(top, application.parser)
    groups = {(): top.add_subparsers()}
    helped = groups[()].add_parser("help", help="show help about a command")
    for name, (parser, command) in reference.parsers(application).items():
        *above, word = name.split()
        group = tuple(above)
        if group not in groups:
            groups[group] = groups[()].add_parser(*group, help="a group").add_subparsers()
        summary = reference.about(command)[0]
        take(groups[group].add_parser(word, help=summary, add_help=False), parser)
    helped.add_argument("command", choices=[name for name in groups[()].choices if name != "help"])
    return top


def take(parser, other):
    """Give a parser what another understands: cliff's own are none that argparse can combine."""
    for action in other._actions:
        if action.metavar in COMPLETES:
            action.complete = COMPLETES[action.metavar]
        parser._add_action(action)


FIRST_ALONE = (
    ('_choices"\n', '_choices[@]"\n'),
    (
        'current_action_choices="${!current_action_choices_var}"',
        """current_action_choices=$(printf '%s\\n' "${!current_action_choices_var}")""",
    ),
)
"""What shtab 1.5.5, of Debian 12, has in bash's completion, of several choices it offers the first;
and what offers all. Later versions have neither text."""


def main(shell):
    """Return the shell's completion."""
    text = shtab.complete(tree(), shell, root_prefix="iat_nova", preamble=PREAMBLE)
    for old, new in FIRST_ALONE:
        text = text.replace(old, new)
    return text


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PREAMBLE:
        sys.exit(__doc__)
    print(main(sys.argv[1]))
