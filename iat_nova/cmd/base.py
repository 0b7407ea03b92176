# SPDX-License-Identifier: Apache-2.0
"""Common parts of all commands: the state directory, errors, exit statuses, stale data."""

from __future__ import annotations

import argparse
import contextlib
import enum
import json
import os
import pathlib
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

from cliff import command, lister, show
from cliff.formatters.base import SingleFormatter
from stevedore.extension import Extension, ExtensionManager

from iat_nova import conf
from iat_nova.cmd import blocks
from iat_nova.common import config_files
from iat_nova.common.owned_folder import become_owner
from iat_nova.conf import LOCK
from iat_nova.model.message import as_message
from iat_nova.report import escape, sentences, times
from iat_nova.store.database import HistoryError, NoFolder, NoHistory, as_owner, is_damage
from iat_nova.store.heartbeat import AgentState, look
from iat_nova.store.requests import Holds, PauseFile

if TYPE_CHECKING:  # slow to load: commands that read the history load these
    from iat_nova.report.view import HostView
    from iat_nova.store.reader import HistoryReader

EXIT_OK, EXIT_FAILURE, EXIT_USAGE, EXIT_NOT_RUNNING, EXIT_STARTING, EXIT_STALLED = range(6)

EXITS = {
    AgentState.RUNNING: EXIT_OK,
    AgentState.STARTING: EXIT_STARTING,
    AgentState.STALLED: EXIT_STALLED,
    AgentState.STOPPING: EXIT_NOT_RUNNING,
    AgentState.STOPPED: EXIT_NOT_RUNNING,
    AgentState.FAILED: EXIT_NOT_RUNNING,
    AgentState.UNCLEAN: EXIT_NOT_RUNNING,
}
"""The exit status by the state of the agent."""

_ENTRY = re.compile(r"( +\S.*?)  +(\S.*)")  # of a list in a help: command, gap, explanation
_BELOW = 6  # columns before an explanation below its command

MACHINE_FORMATS = ("json", "yaml")  # these formats escape by themselves: values stay unescaped

KNOWN_ERRORS = (HistoryError, conf.ConfigError, OSError)

LATE_ERRORS = {"yaml": "YAMLError", "iat_nova.store.records": "RecordError"}
"""Known errors by their modules, which only some commands load."""


def _known_errors() -> tuple[type[Exception], ...]:
    """Return the errors that become messages."""
    loaded = ((sys.modules.get(module), name) for module, name in LATE_ERRORS.items())
    late = (getattr(module, name) for module, name in loaded if module is not None)
    return (*KNOWN_ERRORS, *late)


class Failure(Exception):
    """An error message for the operator, with the exit status."""

    def __init__(self, text: str, status: int = EXIT_FAILURE) -> None:
        super().__init__(text)
        self.status = status


def add_state_options(parser: argparse.ArgumentParser, **defaults: Any) -> None:
    """Add the options for the location of the agent's state."""
    group = parser.add_argument_group("where the agent keeps its state")
    group.add_argument(
        "--state-dir",
        metavar="DIR",
        help="the agent's state directory; default: what the configuration says, "
        f"${conf.STATE_DIR_VARIABLE}, {conf.STATE_DIR}",
        **defaults,
    )
    conf.add_arguments(group, "the configuration", **defaults)


class Paragraphs(argparse.RawDescriptionHelpFormatter):
    """Fill paragraphs to the terminal's width; a paragraph with an indented line is a list.

    An entry of a list that is longer than the terminal has its explanation below.
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            "\n".join(_entry(line, width) for line in one.splitlines())
            if "\n " in one
            else textwrap.fill(one, width)
            for one in text.strip().split("\n\n")
        )


def _entry(line: str, width: int) -> str:
    """Return a line of a list; a command stays in one piece."""
    parts = _ENTRY.fullmatch(line)
    if len(line) <= width or parts is None:
        return line
    blank = " " * _BELOW
    below = textwrap.fill(parts[2], width, initial_indent=blank, subsequent_indent=blank)
    return f"{parts[1]}\n{below}"


def folded(text: str, stream: Any) -> str:
    """Return a line, folded to the terminal's width if `stream` is a terminal."""
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


class Command(command.Command):  # type: ignore[misc]
    """A command of iat-nova: no plug-in hooks (slow at start), known errors become `Failure`."""

    _status = EXIT_OK
    _as_owner = False
    """Whether root becomes the owner of the state directory for good: nothing else needs root."""

    _writes = False
    """Whether the command writes in the state directory, as only root and its owner may."""

    _tells_state = False
    """Whether the command itself says that no agent runs; else reading the history says so."""

    _folder: pathlib.Path | None = None

    def _load_hooks(self) -> None:
        self._hooks: list[Any] = []

    def get_epilog(self) -> str:
        """Return the examples; the base class would search all installed packages."""
        return self._epilog or ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return a parser with the options of all commands, and then the command's own."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.formatter_class = Paragraphs
        add_state_options(parser, default=argparse.SUPPRESS)
        self._options(parser)
        return parser

    def _options(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own options; commands that have any override this."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run and return the exit status."""
        try:
            if self._as_owner:
                become_owner(self.state_dir(parsed_args))
            return super().run(parsed_args) or self._status
        except BrokenPipeError:
            raise
        except NoFolder as error:
            raise Failure(f"{error}; name it with --state-dir", EXIT_NOT_RUNNING) from error
        except NoHistory as error:
            text = f"{error}. Is iat-nova-agent running with this state directory?"
            text += " --state-dir names another one"
            agent = look(self.state_dir(parsed_args) / LOCK)
            if agent.alive:
                text = f"{error}. An agent runs there: iat-nova status says why nothing is recorded"
            raise Failure(text, EXITS[agent.state] or EXIT_FAILURE) from error
        except _known_errors() as error:
            ways = self._way_in(error) + _way_on(error)
            raise Failure(escape.lines(f"{told(error)}{ways}")) from error

    def _way_in(self, error: BaseException) -> str:
        """Return which users may do a denied operation in the state directory; "" otherwise."""
        files = [
            pathlib.Path(denied.filename or "")
            for denied in (error, error.__cause__)
            if isinstance(denied, PermissionError)
        ]
        if self._folder is None or not any(file.is_relative_to(self._folder) for file in files):
            return ""
        who = "the owner" if self._writes else "a member of the group"
        return f"; run as root, or as {who} of {self._folder}"

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Do the work; commands override this."""
        raise NotImplementedError

    def settings(self, parsed_args: argparse.Namespace) -> conf.Settings:
        """Read the named configuration, or else the files that the agent reads by default.

        All commands get their settings here: a named state directory replaces the configured
        directory. Raises `conf.ConfigError`.
        """
        files = self.named_files(parsed_args) or config_files.by_default()
        return conf.load(files, state_dir=self.named_state_dir(parsed_args))

    def named_files(self, parsed_args: argparse.Namespace) -> list[str]:
        """Return the configuration files named by options."""
        files: list[str] | None = getattr(parsed_args, "config_file", None)
        return files or self.app_args.config_file or []

    def named_state_dir(self, parsed_args: argparse.Namespace) -> str | None:
        """Return the state directory named by an option before or after the command, or None."""
        named: str | None = getattr(parsed_args, "state_dir", None)
        return named or self.app_args.state_dir

    def state_dir(self, parsed_args: argparse.Namespace) -> pathlib.Path:
        """Return the agent's state directory; a named directory needs no configuration.

        The configuration is read at most once: root may become the folder's owner afterwards, who
        may lack the right to read the configuration.
        """
        if self._folder is None:
            named = self.named_state_dir(parsed_args)
            self._folder = pathlib.Path(named or self.settings(parsed_args).state_dir)
        return self._folder

    def names_state(self, parsed_args: argparse.Namespace, used: pathlib.Path) -> bool:
        """Tell whether an option or the environment names the state directory that is `used`.

        The directory of the configuration goes before that of the environment.
        """
        if self.named_state_dir(parsed_args):
            return True
        named = os.environ.get(conf.STATE_DIR_VARIABLE)
        return bool(named and pathlib.Path(named) == used)

    @contextlib.contextmanager
    def history(self, parsed_args: argparse.Namespace) -> Iterator[HistoryReader]:
        """Open the agent's history for reading; report unreadable records at the end.

        Meanwhile root acts as the folder's owner: SQLite writes more files there. The first time,
        report an agent that does not run.
        """
        from iat_nova.report.view import HostView  # noqa: PLC0415 - slow to load
        from iat_nova.store.reader import HistoryReader  # noqa: PLC0415 - slow to load

        folder = self.state_dir(parsed_args)
        path = folder / "history.sqlite"
        with as_owner(path), HistoryReader(path) as reader:
            if not self._tells_state:
                self._tells_state = True
                self.warn_if_stale(HostView("", reader.status(), (), agent=look(folder / LOCK)))
            try:
                yield reader
            finally:
                if reader.damage is not None:
                    self.note(escape.plain(reader.damage))

    def view(self, parsed_args: argparse.Namespace, *, leaks: bool = False) -> HostView:
        """Read the newest records; set the exit status if they are not the present.

        `leaks`: tell whether rings leak, by the records of a minute.
        """
        from iat_nova.report.view import gather, without_history  # noqa: PLC0415 - slow to load

        folder = self.state_dir(parsed_args)
        now_s = time.time()
        pause, agent = PauseFile(folder).current(now_s), look(folder / LOCK)
        holds = Holds(folder).current(now_s)
        try:
            with self.history(parsed_args) as reader:
                view = gather(reader, pause, agent=agent, holds=holds, leaks=leaks)
        except NoHistory:
            if (known := without_history(agent, pause, holds)) is None:
                raise
            view = known
            if not self._tells_state:
                self.warn_if_stale(view)
        self._status = EXITS[agent.state]
        return view

    def warn_if_stale(self, view: HostView) -> None:
        """Report on standard error that no agent runs, with the age of its last record."""
        from iat_nova.report.view import agent_words  # noqa: PLC0415 - slow to load

        if not view.running:
            last = f"; its last record is {times.duration(view.now.age_s)} old" if view.now else ""
            self.note(f"the agent is {escape.plain(agent_words(view))}{last}")

    def note(self, text: str) -> None:
        """Write to standard error, in a terminal without breaks in words."""
        print(folded(f"iat-nova: {text}", sys.stderr), file=sys.stderr)

    @property
    def colour(self) -> bool:
        """Whether the output is a terminal that may be coloured."""
        terminal = self.app.stdout.isatty() and os.environ.get("TERM") != "dumb"
        return bool(terminal and not os.environ.get("NO_COLOR"))


def _way_on(error: BaseException) -> str:
    """Return what becomes of a damaged history; "" for other errors."""
    if isinstance(error, HistoryError) and error.__cause__ and is_damage(error.__cause__):
        return "; an agent that records or starts keeps it beside and begins a new one"
    return ""


def check_columns(chosen: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return the chosen columns as they are known. Raises `Failure` if one does not exist.

    As in cliff, case does not count, and a blank is an underscore.
    """
    there = {_plain_column(column): column for column in known}
    wanted = tuple(map(_plain_column, chosen))
    if unknown := set(wanted) - set(there):
        raise Failure(
            f"no such column: {', '.join(sorted(unknown))}; there are: {', '.join(there.values())}",
            EXIT_USAGE,
        )
    return tuple(there[column] for column in wanted)


def _plain_column(name: str) -> str:
    return name.strip().lower().replace(" ", "_")


Table = tuple[tuple[str, ...], list[tuple[object, ...]]]
"""The columns of a list, and its rows."""


class Lister(Command, lister.Lister):  # type: ignore[misc]
    """A command that prints a list; names are escaped unless the format escapes by itself."""

    need_sort_by_cliff = False  # it does not sort a column in which a number is absent
    _empty = "there is nothing to list"
    """What a table without rows says instead."""

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> Any:
        """Print the list: a table in the terminal's width, CSV without a spreadsheet's formulas."""
        check_columns(parsed_args.columns, column_names)
        try:
            columns = check_columns(parsed_args.sort_columns, column_names)
        except Failure as error:
            self.note(f"not sorted: {error}")
        else:
            data = list(data)
            for column in reversed(columns):
                descending = parsed_args.sort_direction == "desc"
                data = _ordered(data, list(column_names).index(column), descending=descending)
        if parsed_args.formatter == "table" and not (data or parsed_args.print_empty):
            self.note(self._empty)
            return self._status
        if parsed_args.formatter == "csv":
            data = [tuple(map(escape.csv_cell, row)) for row in data]
        if parsed_args.formatter == "table" and not parsed_args.max_width:
            width = parsed_args.max_width = shutil.get_terminal_size().columns
            data = list(data)
            if not parsed_args.columns and blocks.too_wide(column_names, data, width):
                self.formatter = blocks.Lines()
        return super().produce_output(parsed_args, column_names, data)

    def row(
        self, parsed_args: argparse.Namespace, values: Mapping[str, object], columns: Iterable[str]
    ) -> tuple[object, ...]:
        """Return these columns' values in the form of the chosen format."""
        return tuple(self.cell(parsed_args, values[column]) for column in columns)

    def cell(self, parsed_args: argparse.Namespace, value: object) -> object:
        """Return a value in the form of the chosen format."""
        if isinstance(value, enum.StrEnum):  # which PyYAML does not write
            value = str(value)
        if parsed_args.formatter in MACHINE_FORMATS:
            return value
        if parsed_args.formatter == "table" and isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, list):
            return ", ".join(escape.plain(str(item)) for item in value)
        if isinstance(value, dict):
            return json.dumps(value)
        if value is None:
            return ""
        return escape.plain(value) if isinstance(value, str) else value


def _ordered(
    rows: Sequence[Sequence[Any]], column: int, *, descending: bool
) -> list[Sequence[Any]]:
    """Return rows in the order of a column: numbers, then texts; absent values are always last."""

    def key(row: Sequence[Any]) -> tuple[bool, Any]:
        number = isinstance(row[column], int | float)
        return not number, row[column] if number else str(row[column])

    absent = [row for row in rows if row[column] in (None, "")]
    there = [row for row in rows if row[column] not in (None, "")]
    return sorted(there, key=key, reverse=descending) + absent


class _Text(SingleFormatter):  # type: ignore[misc]
    """The text format: the command itself makes the text."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Add no options."""

    def emit_one(self, column_names: Any, data: Any, stdout: Any, parsed_args: Any) -> None:
        """Write the page: the text of the only column."""
        stdout.write(f"{data[0]}\n")


def add_text_format(loaded: Any, namespace: str, formatter: type) -> ExtensionManager[Any]:
    """Add the format ``text`` to cliff's formats."""
    place = EntryPoint("text", f"{formatter.__module__}:{formatter.__name__}", namespace)
    text = Extension("text", place, formatter, formatter())
    return ExtensionManager.make_test_instance([*loaded, text], namespace=namespace)


class Page(Command, show.ShowOne):  # type: ignore[misc]
    """A command that prints a page of text, or a record for programs."""

    @property
    def formatter_default(self) -> str:
        """The text format."""
        return "text"

    def _load_formatter_plugins(self) -> ExtensionManager[Any]:
        return add_text_format(super()._load_formatter_plugins(), self.formatter_namespace, _Text)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[list[str], list[Any]]:
        """Return the page or the record."""
        if parsed_args.formatter == "text":
            if parsed_args.columns:
                raise Failure("the text has no columns: add -f json, for example", EXIT_USAGE)
            return ["page"], [self.page(parsed_args)]
        record = json.loads(json.dumps(self.record(parsed_args)))
        check_columns(parsed_args.columns, record)
        if parsed_args.formatter in ("json", "yaml"):
            return list(record), list(record.values())
        return list(record), [_in_a_line(value) for value in record.values()]

    def page(self, parsed_args: argparse.Namespace) -> str:
        """Return the text for people."""
        raise NotImplementedError

    def record(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Return the content of the page as data."""
        raise NotImplementedError


def _in_a_line(value: object) -> object:
    """Return a value for formats without structure: JSON for dicts and lists."""
    return json.dumps(value) if isinstance(value, dict | list) else value


def told(error: Exception) -> str:
    """Return the text of an error; for an operating system's error with its file."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return sentences.text(as_message(error))
