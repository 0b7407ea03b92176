# SPDX-License-Identifier: Apache-2.0
"""The sentence of each message code, and the one place where messages become English.

The sentences are in the YAML files of this folder. A sentence names the values of its message in
braces. Behind a colon stands how the value is shown:

* ``name``, ``names``, ``all``: tenants' ids as their names; ``names`` shows four at most
* ``also``: a message or a text, or several, as sentences; ``and``: sources, between "and of";
  ``lines``: a line each; ``or``: between "or"; ``parts``: one behind the other
* ``moment``: seconds since 1970 as local date and time; ``utc``: the same in UTC
* ``rate``: events a second; ``gbps``: bytes a second; ``ways``, ``last``: a count of ways
* ``share``, ``share1``: a fraction in percent
* ``gain0``, ``gain1``, ``change``: a relative change, signed; None: it was from zero
* ``group``: a control group's name; ``mask``: ways
* ``list``: texts, "none" where there are none; anything else as Python formats numbers

A message without a colon's word is shown as its sentence, too.
"""

from __future__ import annotations

import pathlib
import string
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from iat_nova.common import amounts, own_yaml
from iat_nova.model import DDIO, VERBATIM, Message
from iat_nova.report import times

FILES = tuple(sorted(pathlib.Path(__file__).parent.glob("*.yaml")))
"""The tables of sentences, one a subject."""

SENTENCES: Mapping[str, str] = {
    VERBATIM: "{text}",
    "several": "{causes:also}",
    **{
        code: sentence
        for file in FILES
        for code, sentence in own_yaml.load(file.read_text(encoding="utf-8")).items()
    },
}
"""One sentence a code, by subject: to add or to reword a message, change one table alone."""


Name = Callable[[str], str]


def text(message: Message, name: Name = str, *, within: bool = False) -> str:
    """Return the sentence of a message; `name` gives a tenant's name for an id.

    `within`: the sentence is part of another sentence, and so has one line. A code that this
    version does not know, or values that do not fit, are shown as they are: records of other
    versions and plug-ins may hold anything.
    """
    try:
        return _Sentence(name, within).vformat(SENTENCES[message.code], (), message.values)
    except _DOES_NOT_FIT:
        return str(message)


# RecursionError: messages are nested deeper than Python's stack is.
_DOES_NOT_FIT = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class _Sentence(string.Formatter):
    """Fills a sentence: the part behind a value's colon is a row of `_SHOWN`, or Python's own."""

    def __init__(self, name: Name, within: bool) -> None:
        self._name = name
        self._within = within

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value as the sentence wants it."""
        if format_spec == "name":
            return self._of(value)
        if format_spec == "names":
            return amounts.names(map(self._of, value))
        if format_spec == "all":
            return ", ".join(map(self._of, value))
        nested = not format_spec and isinstance(value, (Message, tuple))
        if nested or (format_spec == "lines" and self._within):
            format_spec = "also"
        if format_spec in _BETWEEN:
            told = _BETWEEN[format_spec].join(map(self._worded, _several(value)))
            return told or ("none" if format_spec == "list" else "")
        shown = _SHOWN.get(format_spec)
        return format(value, format_spec) if shown is None else shown(value)

    def _worded(self, said: Message | str) -> str:
        return text(said, self._name, within=True) if isinstance(said, Message) else said

    def _of(self, tenant: str) -> str:
        return "DDIO" if tenant == DDIO else self._name(tenant)


def _several(value: Any) -> Iterable[Message | str]:
    return (value,) if isinstance(value, (Message, str)) else value


_BETWEEN: Mapping[str, str] = {
    "also": "; ",
    "and": " and of ",
    "list": ", ",
    "lines": "\n",
    "or": " or ",
    "parts": "",
}
"""What stands between several messages or texts."""

_NO_GAIN = 0.0005  # a smaller gain has no sign

_SHOWN: Mapping[str, Callable[[Any], str]] = {
    "change": lambda value: amounts.percent(float("inf") if value is None else value),
    "gain0": "{:+.0%}".format,
    "gain1": lambda value: "±0.0%" if abs(value) < _NO_GAIN else f"{value:+.1%}",
    "gbps": lambda value: f"{value / 1e9:.1f} GB/s",
    "group": lambda name: name or "the default group",
    "last": lambda count: "the last way" if count == 1 else f"the last {amounts.ways(count)}",
    "mask": lambda mask: "unknown" if mask is None else f"{mask:#x}",
    "moment": times.moment,
    "rate": lambda value: "unknown" if value is None else amounts.rate(value),
    "share": "{:.0%}".format,
    "share1": "{:.1%}".format,
    "ways": amounts.ways,
}
