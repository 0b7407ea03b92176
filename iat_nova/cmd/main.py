# SPDX-License-Identifier: Apache-2.0
"""iat-nova: the operator's program. Each command's module is loaded on demand."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

from cliff import app, commandmanager, help

from iat_nova.cmd import entry, overview
from iat_nova.cmd.base import (
    EXIT_FAILURE,
    EXIT_USAGE,
    Failure,
    Paragraphs,
    add_state_options,
    told,
)
from iat_nova.common import plugins
from iat_nova.report import escape, log

DESCRIPTION = "See and steer what iat-nova does with the last-level cache of this host."

EPILOG = """
first steps:
  iat-nova status              is the agent at work, what did it do last
  iat-nova tenants             guests found, their devices and ways
  iat-nova top                 the same, live
  iat-nova explain             why the last decision was taken
  iat-nova explain GUEST       why a guest has the ways it has
  iat-nova decisions           what was decided lately
  iat-nova help tenants        options and examples of a command

exit status:
  0  done
  1  the command failed; standard error or the output has the reason
  2  wrong arguments
  3  the agent is not running
  4  the agent is starting: no iteration yet
  5  the agent is stalled: its iterations are overdue
"""

COMMANDS = {
    "advise": "iat_nova.cmd.advise:Advise",
    "decisions": "iat_nova.cmd.decisions:Decisions",
    "doctor": "iat_nova.cmd.doctor:Doctor",
    "explain": "iat_nova.cmd.explain:Explain",
    "hand-over": "iat_nova.cmd.hand_over:HandOver",
    "hold": "iat_nova.cmd.hold:HoldCommand",
    "pause": "iat_nova.cmd.pause:PauseCommand",
    "policy check": "iat_nova.cmd.policy:PolicyCheck",
    "policy diff": "iat_nova.cmd.policy:PolicyDiff",
    "policy facts": "iat_nova.cmd.policy:PolicyFacts",
    "policy schema": "iat_nova.cmd.policy:PolicySchema",
    "policy show": "iat_nova.cmd.policy:PolicyShow",
    "provider-config": "iat_nova.cmd.provider_config:ProviderConfig",
    "qualify": "iat_nova.cmd.qualify:Qualify",
    "release": "iat_nova.cmd.hold:Release",
    "reload": "iat_nova.cmd.reload:Reload",
    "report": "iat_nova.cmd.report:Report",
    "restore": "iat_nova.cmd.restore:Restore",
    "resume": "iat_nova.cmd.pause:Resume",
    "status": "iat_nova.cmd.status:StatusCommand",
    "tenants": "iat_nova.cmd.tenants:Tenants",
    "top": "iat_nova.cmd.top:Top",
}
"""The agent's own commands; other packages register further commands (`plugins.COMMANDS`)."""


def commands() -> dict[str, importlib.metadata.EntryPoint]:
    """Return all commands by name: the agent's own, and commands of other installed parts."""
    points = [importlib.metadata.EntryPoint(*one, plugins.COMMANDS) for one in COMMANDS.items()]
    points += plugins.found(plugins.COMMANDS)
    return {one.name.replace("_", " "): one for one in points}


HELP = importlib.metadata.EntryPoint("help", "iat_nova.cmd.overview:Help", plugins.COMMANDS)


class _Format(logging.Formatter):
    """Formats errors in one line; unexpected errors are marked as internal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's text after ``iat-nova:``."""
        text = super().format(record)
        error = record.msg
        if isinstance(error, ImportError):
            text = entry.unloadable(error)
        elif isinstance(error, OSError):  # standard output is full, for example
            text = told(error)
        elif isinstance(error, Exception) and not isinstance(error, (Failure, ValueError)):
            kind = type(error).__name__
            text = f"internal error: {kind}: {text} (--debug shows where)"
        return escape.lines(f"iat-nova: {text}")


class Application(app.App):  # type: ignore[misc]
    """cliff's application without its interactive mode, with iat-nova's exit statuses."""

    NAME = "iat-nova"
    LOG = logging.getLogger("iat_nova.cmd")
    DEFAULT_VERBOSE_LEVEL = 0

    def __init__(self, **streams: Any) -> None:
        self._failure: Failure | None = None
        manager = commandmanager.CommandManager(None)
        super().__init__(DESCRIPTION, _version(), manager, deferred_help=True, **streams)
        manager.commands = {**commands(), "help": HELP}

    def build_option_parser(
        self, description: str, version: str, argparse_kwargs: dict[str, Any] | None = None
    ) -> argparse.ArgumentParser:
        """Add iat-nova's options and the examples."""
        parser: argparse.ArgumentParser = super().build_option_parser(
            description, version, {"epilog": EPILOG, "prog": self.NAME, **(argparse_kwargs or {})}
        )
        parser.formatter_class = Paragraphs
        for action in parser._actions:
            if action.dest == "version":
                action.version = f"{self.NAME} {version}"  # type: ignore[attr-defined]
        add_state_options(parser)
        return parser

    def configure_logging(self) -> None:
        """Send warnings, and more with -v, to standard error."""
        super().configure_logging()
        for handler in logging.getLogger("").handlers:
            if type(handler) is logging.StreamHandler:
                handler.setFormatter(_Format())

    def print_help_if_requested(self) -> None:
        """Show the commands if the options ask for help."""
        if self.options.deferred_help:
            overview.show(self)
            raise help.HelpExit

    def interact(self) -> None:
        """Refuse: without a command there is nothing to do."""
        self.parser.print_usage(self.stderr)
        raise Failure("give a command; `iat-nova --help` lists them", EXIT_USAGE)

    def run_subcommand(self, argv: list[str]) -> int:
        """Run a command and return iat-nova's exit status. Raises `Failure`: there is none."""
        try:
            self.command_manager.find_command(argv)
        except ValueError as error:
            text = overview.unknown(argv, dict(self.command_manager))
            raise Failure(text, EXIT_USAGE) from error
        status: int = super().run_subcommand(argv)
        return self._failure.status if self._failure else status

    def clean_up(self, cmd: Any, result: int, err: BaseException | None) -> None:
        """Store the failure of the command."""
        self._failure = err if isinstance(err, Failure) else None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open until the end
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # the terminal may lack characters of a name
            stream.reconfigure(errors="backslashreplace")
    log.speak()
    try:
        try:
            status: int = Application().run(list(sys.argv[1:] if argv is None else argv))
        finally:  # of argparse's end after a help text, too
            sys.stdout.flush()
    except Failure as failure:
        print(f"iat-nova: {failure}", file=sys.stderr)
        return failure.status
    except BrokenPipeError:
        _discard_output()
        return 141
    except OSError as error:  # standard output is full, for example
        _discard_output()
        print(f"iat-nova: {told(error)}", file=sys.stderr)
        return EXIT_FAILURE
    return status


def _discard_output() -> None:
    """Keep the interpreter from writing the rest of standard output at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version() -> str:
    try:
        return importlib.metadata.version("iat-nova")
    except importlib.metadata.PackageNotFoundError:
        return "unknown (not installed)"


if __name__ == "__main__":
    sys.exit(main())
