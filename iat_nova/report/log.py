# SPDX-License-Identifier: Apache-2.0
"""The agent's messages and decisions as log lines."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

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
