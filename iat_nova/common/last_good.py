# SPDX-License-Identifier: Apache-2.0
"""The boundary for errors of one part: the part keeps its last value, and the rest goes on.

Input from other programs (domains, databases, spooled files, policies) is read by code without
known errors. An unknown error must not end the loop: the guests would lose their ways.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from iat_nova.common.untrusted import worded

LOG = logging.getLogger(__name__)
T = TypeVar("T")

_SHOWN = 200  # characters of an error; the log has the full text


class LastGood(Generic[T]):
    """The last good value of one part.

    `what` names the part in messages. `error`: the reason for an outdated value, or None. `good`:
    the part has been read at least once. An error is logged with its traceback once in a row: the
    same type, raised at the same line.
    """

    def __init__(self, what: str, first: T) -> None:
        self.value = first
        self.error: str | None = None
        self.good = False
        self.what = what
        self._place: tuple[object, ...] | None = None  # where the last error was raised

    def update(self, read: Callable[[], T]) -> T:
        """Return the result of `read`; after an error of any kind the last good result."""
        try:
            self.value = read()
        except Exception as error:
            self.error = f"{type(error).__name__}: {worded(error, _SHOWN, str)}"
            if (place := _place(error)) != self._place:
                LOG.exception(
                    "%s cannot be read (%s); what was known last stays", self.what, self.error
                )
            self._place = place
        else:
            self.error = self._place = None
            self.good = True
        return self.value


def _place(error: Exception) -> tuple[object, ...]:
    """Return the type of an error, and the file and line that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = () if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return type(error), *where
