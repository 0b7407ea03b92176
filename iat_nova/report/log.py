# SPDX-License-Identifier: Apache-2.0
"""The agent's messages and decisions as log lines."""

from __future__ import annotations

from iat_nova.model import DomainInventory, Message
from iat_nova.report import escape, sentences, words
from iat_nova.store.records import Iteration


class LogLanguage:
    """Makes text for the agent's log, harmless for a terminal: guests choose their names."""

    def sentence(self, said: Message) -> str:
        """Return the sentence of a message."""
        return escape.plain(sentences.text(said))

    def line(self, iteration: Iteration, inventory: DomainInventory) -> str:
        """Return an iteration in one line."""
        return words.line(iteration, inventory)
