# SPDX-License-Identifier: Apache-2.0
"""Messages as their sentences, for tests that look at words."""

from collections.abc import Iterable

from iat_nova.model import Message
from iat_nova.model.reasons import Reason
from iat_nova.report.sentences import text


def texts(said: Iterable[Message | Reason]) -> tuple[str, ...]:
    """Return the sentences of messages or reasons."""
    return tuple(text(one.message if isinstance(one, Reason) else one) for one in said)
