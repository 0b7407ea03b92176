# SPDX-License-Identifier: Apache-2.0
"""The boundary at which an error of one part ends: that part stays as it was, the rest goes on.

What others write (domains, databases, spooled files, policies) is read by code that has no errors
we know of. Should it have one, the loop must not end with it: the guests would lose their ways.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from iat_nova.common.untrusted import worded

LOG = logging.getLogger(__name__)
T = TypeVar("T")

_SHOWN = 200  # characters of an error; the log has all of it


class LastGood(Generic[T]):
    """The last value of one part that could be had.

    `what` names the part in messages. `error`: why the value is not today's, or None. Each error
    is logged with its traceback once in a row.
    """

    def __init__(self, what: str, first: T) -> None:
        self.value = first
        self.error: str | None = None
        self.what = what

    def update(self, read: Callable[[], T]) -> T:
        """Return what `read` returns; after an error of any kind what it returned last."""
        try:
            self.value = read()
        except Exception as error:
            why = f"{type(error).__name__}: {worded(error, _SHOWN, str)}"
            if why != self.error:
                LOG.exception("%s cannot be read (%s); what was known last stays", self.what, why)
            self.error = why
        else:
            self.error = None
        return self.value
