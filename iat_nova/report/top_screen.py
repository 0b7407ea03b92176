# SPDX-License-Identifier: Apache-2.0
"""The state of the live screen, and the effect of each key; independent of the terminal."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence

SORTS = ("name", "misses", "references", "ipc")
STEP = 10  # lines or tenants per page key


class Mode(enum.Enum):
    """The mode of the screen; each mode has its own keys."""

    LIST = "list"  # the list of tenants
    PAGE = "page"  # a text over the screen: help, explanations
    FILTER = "filter"  # a name is typed
    CONFIRM = "confirm"  # y pauses, or resumes


class Act(enum.Enum):
    """An action to perform besides drawing again."""

    NONE = enum.auto()
    QUIT = enum.auto()
    NEXT_DOMAIN = enum.auto()
    EARLIER = enum.auto()  # the decision before the shown time
    LATER = enum.auto()
    MINUTE_EARLIER = enum.auto()
    MINUTE_LATER = enum.auto()
    NOW = enum.auto()
    HELP = enum.auto()
    GUEST = enum.auto()  # explain the chosen tenant's ways
    DECISION = enum.auto()  # explain the last shown decision
    PAUSE = enum.auto()  # pause, or resume


@dataclasses.dataclass(frozen=True, slots=True)
class Screen:
    """The state of the screen.

    `chosen`: id of the tenant under the cursor, None at first. `pattern`: text that names of shown
    tenants contain. `offset`: the first line of a page. `past_s`: the shown time, on the wall
    clock; None: now. `note`: one line at the bottom, until the next key.
    """

    width: int
    height: int
    colour: bool = False
    sort: str = "name"
    frozen: bool = False
    mode: Mode = Mode.LIST
    chosen: str | None = None
    pattern: str = ""
    offset: int = 0
    past_s: float | None = None
    note: str = ""


Pressed = tuple[Screen, Act]

HELP = (
    ("up, down (k, j), Page Up, Down", "choose a tenant"),
    ("Enter", "explain the chosen tenant's ways"),
    ("e", "why the last decision was taken"),
    ("s", "sort by the next column"),
    ("/", "show only names with the typed text; Esc: all"),
    ("left, right", "the decision before, the decision after"),
    ("[ and ]", "a minute back, a minute on"),
    ("n", "back to now"),
    ("d", "the next cache domain"),
    ("p", "pause the agent or resume; top asks first"),
    ("space", "freeze the screen, or go on"),
    ("h or ?", "this page"),
    ("q", "quit"),
)
"""The meaning of the keys, the most needed first."""


def press(screen: Screen, key: str, tenants: Sequence[str]) -> Pressed:
    """Return the screen after a key, and the action to perform.

    `key` is a character or a name (``up``, ``page-up``, ``enter``, ``esc``, ``backspace`` ..).
    `tenants` are the listed ids, in order. Unknown keys do nothing.
    """
    screen = dataclasses.replace(screen, note="")
    if key == "ctrl-d":
        return screen, Act.QUIT
    return _MODES[screen.mode](screen, key, tenants)


def _list(screen: Screen, key: str, tenants: Sequence[str]) -> Pressed:
    if key in _ACTS:
        return screen, _ACTS[key]
    if key in _MOVES:
        return dataclasses.replace(screen, chosen=_moved(screen, key, tenants)), Act.NONE
    change = _CHANGES.get(key)
    return change(screen) if change else screen, Act.NONE


def _page(screen: Screen, key: str, tenants: Sequence[str]) -> Pressed:
    if key in ("q", "Q", "esc", "enter", "h", "?"):
        return dataclasses.replace(screen, mode=Mode.LIST, offset=0), Act.NONE
    step = _MOVES.get(key, 0)
    return dataclasses.replace(screen, offset=max(0, screen.offset + step)), Act.NONE


def _filter(screen: Screen, key: str, tenants: Sequence[str]) -> Pressed:
    if key == "enter":
        return dataclasses.replace(screen, mode=Mode.LIST), Act.NONE
    if key == "esc":
        return dataclasses.replace(screen, mode=Mode.LIST, pattern=""), Act.NONE
    if key == "backspace":
        return dataclasses.replace(screen, pattern=screen.pattern[:-1]), Act.NONE
    if len(key) == 1 and key.isprintable():
        return dataclasses.replace(screen, pattern=screen.pattern + key), Act.NONE
    return screen, Act.NONE


def _confirm(screen: Screen, key: str, tenants: Sequence[str]) -> Pressed:
    after = dataclasses.replace(screen, mode=Mode.LIST)
    return after, Act.PAUSE if key in ("y", "Y") else Act.NONE


def _moved(screen: Screen, key: str, tenants: Sequence[str]) -> str | None:
    """Return the tenant under the cursor after a key."""
    if not tenants:
        return None
    if screen.chosen not in tenants:  # no cursor yet, or its tenant has left
        return tenants[-1] if key in ("up", "k", "end") else tenants[0]
    place = tenants.index(screen.chosen) + _MOVES[key]
    return tenants[max(0, min(place, len(tenants) - 1))]


def _next_sort(screen: Screen) -> Screen:
    after = SORTS[(SORTS.index(screen.sort) + 1) % len(SORTS)]
    return dataclasses.replace(screen, sort=after)


_CHANGES: Mapping[str, Callable[[Screen], Screen]] = {
    "s": _next_sort,
    " ": lambda screen: dataclasses.replace(screen, frozen=not screen.frozen),
    "/": lambda screen: dataclasses.replace(screen, mode=Mode.FILTER, pattern=""),
    "esc": lambda screen: dataclasses.replace(screen, pattern=""),
    "p": lambda screen: dataclasses.replace(screen, mode=Mode.CONFIRM),
}
_FAR = 1 << 20
_MOVES: Mapping[str, int] = {
    "up": -1, "k": -1, "down": 1, "j": 1,
    "page-up": -STEP, "page-down": STEP, "home": -_FAR, "end": _FAR,
}  # fmt: skip
_ACTS: Mapping[str, Act] = {
    "q": Act.QUIT, "Q": Act.QUIT, "d": Act.NEXT_DOMAIN, "left": Act.EARLIER, "right": Act.LATER,
    "[": Act.MINUTE_EARLIER, "]": Act.MINUTE_LATER, "n": Act.NOW, "h": Act.HELP, "?": Act.HELP,
    "enter": Act.GUEST, "e": Act.DECISION,
}  # fmt: skip
_MODES: Mapping[Mode, Callable[[Screen, str, Sequence[str]], Pressed]] = {
    Mode.LIST: _list,
    Mode.PAGE: _page,
    Mode.FILTER: _filter,
    Mode.CONFIRM: _confirm,
}
