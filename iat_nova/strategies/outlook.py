# SPDX-License-Identifier: Apache-2.0
"""Whether a strategy still has moves for a cache domain, as a closed list of codes."""

from __future__ import annotations

import enum
from collections.abc import Mapping


class Outlook(enum.StrEnum):
    """Why a strategy moves, waits, or has no move left; `MEANINGS` has a line for each."""

    SEARCHING = "searching"
    UNSETTLED = "unsettled"
    NO_PROMISE = "no-promise"
    ALL_FAILED = "all-failed"
    NOT_WRITTEN = "not-written"
    UNKNOWN = "unknown"


EXHAUSTED = frozenset({Outlook.NO_PROMISE, Outlook.ALL_FAILED})
"""With these codes no layout is left to try: more room needs another host."""

UNDECIDED = frozenset({Outlook.UNKNOWN, Outlook.NOT_WRITTEN})
"""With these codes nobody can say whether a layout would help."""

MEANINGS: Mapping[Outlook, str] = {
    Outlook.SEARCHING: "The strategy measures, or tries a move.",
    Outlook.UNSETTLED: "Loads change too often for trials; moves may be left.",
    Outlook.NO_PROMISE: "Exhausted: no move promises more than chance under this load.",
    Outlook.ALL_FAILED: "Exhausted: the moves that promised something were tried and undone.",
    Outlook.NOT_WRITTEN: "No masks are written, so trials show nothing: the agent only observes, "
    "or a write failed.",
    Outlook.UNKNOWN: "The strategy does not say (``iat`` and ``a4`` do not).",
}
"""The meaning of each code, as listed in the operator's pages (reStructuredText)."""
