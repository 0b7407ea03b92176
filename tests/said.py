# SPDX-License-Identifier: Apache-2.0
"""Messages as codes, as sentences and with other sentences, for tests that look at words."""

import contextlib
import random
import string
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from unittest import TestCase, mock

from iat_nova.model import Message
from iat_nova.model.message import as_message
from iat_nova.model.reasons import Reason
from iat_nova.report import sentences
from iat_nova.report.sentences import text


def codes(said: Message | Reason) -> tuple[str, ...]:
    """Return the code of a message or reason, then the codes of messages among the values."""
    message = said.message if isinstance(said, Reason) else said
    found = [message.code]
    for value in message.values.values():
        for one in value if isinstance(value, tuple) else (value,):
            found += codes(one) if isinstance(one, Message) else ()
    return tuple(found)


def sentence(said: str | Message | Exception) -> str:
    """Return the sentence of a message or of an error."""
    return text(as_message(said))


@contextlib.contextmanager
def reworded(seed: int = 7) -> Iterator[Mapping[str, str]]:
    """Have nonsense without a word and a value in the place of each sentence; gives the table."""
    chance = random.Random(seed)
    table = {
        code: "".join(chance.choices(string.ascii_letters, k=12)) for code in sentences.SENTENCES
    }
    with mock.patch.object(sentences, "SENTENCES", table):
        yield table


def texts(said: Iterable[Message | Reason]) -> tuple[str, ...]:
    """Return the sentences of messages or reasons."""
    return tuple(text(one.message if isinstance(one, Reason) else one) for one in said)


@contextlib.contextmanager
def raises(case: TestCase, kind: type[Exception], words: str) -> Iterator[Any]:
    """Expect an error in whose sentence a regular expression is found."""
    with case.assertRaises(kind) as caught:
        yield caught
    case.assertRegex(sentence(caught.exception), words)
