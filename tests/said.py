# SPDX-License-Identifier: Apache-2.0
"""Messages as their sentences, for tests that look at words."""

import contextlib
from collections.abc import Iterable, Iterator
from unittest import TestCase

from iat_nova.model import Message
from iat_nova.model.message import as_message
from iat_nova.model.reasons import Reason
from iat_nova.report.sentences import text


def sentence(said: str | Message | Exception) -> str:
    """Return the sentence of a message or of an error."""
    return text(as_message(said))


def texts(said: Iterable[Message | Reason]) -> tuple[str, ...]:
    """Return the sentences of messages or reasons."""
    return tuple(text(one.message if isinstance(one, Reason) else one) for one in said)


@contextlib.contextmanager
def raises(case: TestCase, kind: type[Exception], words: str) -> Iterator[None]:
    """Expect an error in whose sentence a regular expression is found."""
    with case.assertRaises(kind) as caught:
        yield
    case.assertRegex(sentence(caught.exception), words)
