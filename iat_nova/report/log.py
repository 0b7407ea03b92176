# SPDX-License-Identifier: Apache-2.0
"""The agent's messages and decisions as log lines."""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Any

from iat_nova.common.untrusted import shortened
from iat_nova.model import DomainInventory, Message
from iat_nova.model.message import as_message
from iat_nova.report import escape, sentences, words

if TYPE_CHECKING:  # slow to load, and every command loads this module
    from iat_nova.store.records import Iteration


class LogLanguage:
    """Makes the text of log lines, without control characters: guests choose their own names."""

    def sentence(self, said: Message) -> str:
        """Return the sentence of a message."""
        return escape.plain(sentences.text(said, within=True))

    def line(self, iteration: Iteration, inventory: DomainInventory) -> str:
        """Return an iteration in one line."""
        return words.line(iteration, inventory)


MOST_CHARACTERS = 8192  # of a line
MOST_LINES = 200  # of a traceback


class Lines(logging.Formatter):
    """Formats records by another formatter, within limits and without control characters.

    Any library may log a text of another program. No such text can look like a record: a message
    has one line, and the lines of a traceback are indented, unless the other formatter begins each
    of them with time and logger.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner
        prefix = getattr(getattr(inner, "conf", None), "logging_exception_prefix", "")
        self._indent = "" if prefix.strip() else "    "

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's text."""
        shown = copy.copy(record)
        shown.exc_text = None  # of another handler's formatter
        text = self._inner.format(shown)
        if not isinstance(text, str):  # a structure, for Fluentd
            return text
        trace = shown.exc_text if shown.exc_text and text.endswith(shown.exc_text) else ""
        head = _line(text.removesuffix(trace).removesuffix("\n"))
        for name in ("color", "reset_color"):
            if code := getattr(record, name, ""):
                head = head.replace(escape.harmless(code), code)
        return "\n".join((head, *self._traced(trace)))

    def formatException(self, ei: Any) -> str:
        """Return a traceback for the journal's own field."""
        return "\n".join(self._traced(self._inner.formatException(ei)))

    def _traced(self, trace: str) -> list[str]:
        lines = trace.rstrip("\n").split("\n") if trace else []
        if len(lines) > MOST_LINES:
            lines[MOST_LINES // 2 : -MOST_LINES // 2] = ["..."]
        return [self._indent + _line(line) for line in lines]


def _line(text: str) -> str:
    return escape.harmless(shortened(text, MOST_CHARACTERS))


class _Record(logging.LogRecord):
    """A record whose messages, and errors with a message, are shown as their sentences."""

    def getMessage(self) -> str:
        """Return the text of the record."""
        if isinstance(self.args, tuple):
            self.args = tuple(map(_shown, self.args))
        return super().getMessage()


def speak() -> None:
    """Have every log of this process show messages and errors as sentences."""
    logging.setLogRecordFactory(_Record)


def _shown(value: object) -> object:
    if isinstance(value, Exception) and not isinstance(getattr(value, "message", None), Message):
        return value
    if isinstance(value, (Exception, Message)):
        return escape.plain(sentences.text(as_message(value), within=True))
    return value
