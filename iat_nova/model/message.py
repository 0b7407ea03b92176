# SPDX-License-Identifier: Apache-2.0
"""Statements as values: a code and its quantities, without English.

`iat_nova.report.sentences` has the sentence of each code. Programs compare and store only codes and
values. A sentence can therefore be reworded without a change of behaviour.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TypeAlias

VERBATIM = "verbatim"
"""The code of a message whose value `text` is its sentence: of plug-ins."""

Value: TypeAlias = "str | int | float | Message | tuple[str | Message, ...] | None"
"""A quantity in the unit of its name, a tenant's id, a cause, or several ids or causes."""

MOST_DEPTH = 16
"""Maximum levels of messages within messages; messages of our strategies have up to five."""


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """A statement: `code` names its sentence, `values` fill the sentence.

    Names of values carry units (`delay_s`, `misses_per_s`). `tenant` and `tenants` are ids. Two
    messages are the same statement when code and values are equal.
    """

    code: str
    values: Mapping[str, Value] = dataclasses.field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        """Return code and values without a sentence; nested messages show their codes only."""
        return (
            f"{self.code}({', '.join(f'{key}={_bare(one)}' for key, one in self.values.items())})"
        )


class MessageError(Exception):
    """An error with its text as a message code and values. `remedy`: what to do, or None."""

    def __init__(self, said: Message, remedy: Message | None = None) -> None:
        super().__init__(said)
        self.message, self.remedy = said, remedy


def message(code: str, **values: Value) -> Message:
    """Return a message. A relative change from zero is infinite and becomes None."""
    return Message(code, {name: _finite(value) for name, value in values.items()})


def verbatim(text: str) -> Message:
    """Return a message that carries its own sentence."""
    return Message(VERBATIM, {"text": text})


def as_message(said: str | Message | Exception) -> Message:
    """Return a part's statement as a message: an error's own `message`, else the text verbatim."""
    if isinstance(said, Exception):  # of a plug-in, perhaps: its attributes may be anything
        own = getattr(said, "message", None)
        said = own if isinstance(own, Message) else str(said)
    return said if isinstance(said, Message) else verbatim(said)


def _bare(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_bare, value))}]"
    return f"{value.code}(...)" if isinstance(value, Message) else str(value)


def _finite(value: Value) -> Value:
    return None if isinstance(value, float) and not math.isfinite(value) else value
