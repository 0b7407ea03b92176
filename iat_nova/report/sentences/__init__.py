# SPDX-License-Identifier: Apache-2.0
"""The sentence of each message code, and the one place where messages become English.

A sentence names the values of its message in braces. Behind a colon stands how the value is shown:

* ``name``, ``names``, ``all``: tenants' ids as their names; ``names`` shows four at most
* ``also``: a message, or several, as sentences
* ``rate``: events a second; ``gbps``: bytes a second; ``ways``, ``last``: a count of ways
* ``share``, ``share1``: a fraction in percent
* ``gain0``, ``gain1``, ``change``: a relative change, signed; None: it was from zero
* ``list``: texts; anything else as Python formats numbers
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from iat_nova.common import amounts
from iat_nova.model import DDIO, VERBATIM, Message
from iat_nova.report.sentences import strategies

SENTENCES: Mapping[str, str] = {
    VERBATIM: "{text}",
    "several": "{causes:also}",
    **strategies.SENTENCES,
}
"""One sentence a code, by subject: to add or to reword a message, change one table alone."""


Name = Callable[[str], str]


def text(message: Message, name: Name = str) -> str:
    """Return the sentence of a message; `name` gives a tenant's name for an id.

    A code that this version does not know, or values that do not fit, are shown as they are:
    records of other versions and plug-ins may hold anything.
    """
    try:
        return _Sentence(name).vformat(SENTENCES[message.code], (), message.values)
    except _DOES_NOT_FIT:
        values = ", ".join(f"{key}={_bare(value)}" for key, value in message.values.items())
        return f"{message.code}({values})"


# RecursionError: messages are nested deeper than Python's stack is.
_DOES_NOT_FIT = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def _bare(value: Any) -> str:
    """Return a value without a sentence; of messages within it the codes alone."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_bare, value))}]"
    return f"{value.code}(...)" if isinstance(value, Message) else str(value)


class _Sentence(string.Formatter):
    """Fills a sentence: the part behind a value's colon is a row of `_SHOWN`, or Python's own."""

    def __init__(self, name: Name) -> None:
        self._name = name

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value as the sentence wants it."""
        if format_spec == "name":
            return self._of(value)
        if format_spec == "names":
            return amounts.names(map(self._of, value))
        if format_spec == "all":
            return ", ".join(map(self._of, value))
        if format_spec == "also":
            return "; ".join(text(one, self._name) for one in _several(value))
        if format_spec == "list":
            texts = (text(one, self._name) if isinstance(one, Message) else one for one in value)
            return ", ".join(texts)
        shown = _SHOWN.get(format_spec)
        return format(value, format_spec) if shown is None else shown(value)

    def _of(self, tenant: str) -> str:
        return "DDIO" if tenant == DDIO else self._name(tenant)


def _several(value: Any) -> Iterable[Message]:
    return (value,) if isinstance(value, Message) else value


_SHOWN: Mapping[str, Callable[[Any], str]] = {
    "change": lambda value: amounts.percent(float("inf") if value is None else value),
    "gain0": "{:+.0%}".format,
    "gain1": "{:+.1%}".format,
    "gbps": lambda value: f"{value / 1e9:.1f} GB/s",
    "last": lambda count: "the last way" if count == 1 else f"the last {amounts.ways(count)}",
    "rate": lambda value: "unknown" if value is None else amounts.rate(value),
    "share": "{:.0%}".format,
    "share1": "{:.1%}".format,
    "ways": amounts.ways,
}
