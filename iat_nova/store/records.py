# SPDX-License-Identifier: Apache-2.0
"""The content of the history as values, and the conversion to text and back.

All records are JSON, so that a history can be read without this program. Floating-point numbers
keep every bit and mappings keep their order: a replayed decision is equal to the recorded decision.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import cattrs
from cattrs.gen import make_dict_structure_fn
from cattrs.preconf.json import make_converter

from iat_nova.common.untrusted import worded
from iat_nova.model import (
    DDIO,
    Action,
    Decision,
    DomainInventory,
    Facts,
    Hold,
    Layout,
    Message,
    Parameters,
    Sample,
    Step,
    WayMask,
)
from iat_nova.model.message import MOST_DEPTH, Value
from iat_nova.model.reasons import Reason
from iat_nova.strategies.api import Rule
from iat_nova.strategies.outlook import Outlook

T = TypeVar("T")

LEVEL = 9  # of zlib: 0.2 ms an iteration of 15 tenants, in a thread beside the loop
MOST_BYTES = 32 << 20  # of a record's text; a host of 1,000 guests has some 2 MiB
WINDOW = 32768  # bytes; zlib looks back no farther


class RecordError(Exception):
    """A stored record has another form than this version reads."""


@dataclasses.dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration of one cache domain: all inputs and all results.

    `state` is the strategy's memory *before* the step, so that the step can be repeated. A reader
    gets plain JSON types, from which `replay` makes the strategy's own type. `follows`: the state
    is the result of the domain's previous iteration and need not be stored; a reader then gets
    None. `layout_before`: the layout during the measurement, None where not known. `former`: names
    by id of tenants that the decision concerns and that have left the inventory. `effective`: masks
    read back from the machine by tenant id, and by ``ddio``; None when nothing was written
    (observing, or an error). `timings_us`: durations of the loop's phases. `shown`: losses that
    tenants have shown themselves, by tenant id (`iat_nova.strategies.pressure`). `outlook`: whether
    the strategy has moves left, one of `Outlook`; later versions may add codes.
    """

    at_s: float  # on the loop's clock
    wall_s: float  # since 1970
    domain: int
    inventory_id: int  # return value of `History.inventory`; for a reader a row's id
    state: Any
    sample: Sample
    decision: Decision
    effective: Mapping[str, WayMask] | None = None
    timings_us: Mapping[str, float] = dataclasses.field(default_factory=dict)
    layout_before: Layout | None = None
    state_lost: str | None = None  # why the state could not be recorded; the rest is recorded
    former: Mapping[str, str] = dataclasses.field(default_factory=dict)
    follows: bool = False
    shown: Mapping[str, float] = dataclasses.field(default_factory=dict)
    outlook: str = Outlook.UNKNOWN

    @property
    def eventful(self) -> bool:
        """Whether the decision acted on ways, had a rule or changed the phase."""
        decision = self.decision
        rule = decision.rule is not None or decision.phase != decision.phase_before
        return rule or self.about_ways

    @property
    def about_ways(self) -> bool:
        """Whether the decision gave, took or moved ways."""
        decision = self.decision
        return bool(decision.moved) or any(step.action.acts for step in decision.steps)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The decision's steps, with the way counts where a step changes its subject's mask."""
        return tuple(map(self._counted, self.decision.steps))

    def _counted(self, step: Step) -> Step:
        if step.action is Action.KEEP or not step.action.acts:
            return step
        before, after = self.layout_before, self.decision.layout
        was = before.mask_of(step.subject) if before is not None else None
        now = after.mask_of(step.subject)
        if was is None or now is None or was == now or step.ways_after is not None:
            return step
        return dataclasses.replace(step, ways_before=was.count, ways_after=now.count)

    @property
    def inbound(self) -> WayMask:
        """The ways into which any device writes: as read back, else as decided."""
        layout, effective = self.decision.layout, self.effective or {}
        mask = int(effective.get(DDIO) or layout.ddio)
        for port, decided in layout.port_masks.items():
            mask |= effective.get(port) or decided
        return WayMask(mask)

    @property
    def coerced(self) -> Mapping[str, tuple[WayMask, WayMask]]:
        """Masks that the machine changed: (decided, read back) by subject."""
        layout = self.decision.layout
        pairs = {
            subject: (layout.mask_of(subject), mask)
            for subject, mask in (self.effective or {}).items()
        }
        return {
            subject: (decided, mask)
            for subject, (decided, mask) in pairs.items()
            if decided is not None and decided != mask
        }


@dataclasses.dataclass(frozen=True, slots=True)
class ShadowDomain:
    """The shadow strategy's layout, and the number of masks that it would have changed.

    `moved_meanwhile`: the number of masks changed by the strategy in force in the same time.
    """

    layout: Layout
    moved: int
    moved_meanwhile: int


@dataclasses.dataclass(frozen=True, slots=True)
class Shadow:
    """Decisions of a second strategy since a time of the wall clock, by cache domain.

    `policy` names the policy file of the second strategy; None: the policy in force.
    """

    strategy: str
    since_s: float
    domains: Mapping[int, ShadowDomain] = dataclasses.field(default_factory=dict)
    policy: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """The offer of provider.yaml to Placement, and the offer that would be written now.

    Ways are those for new guests, without withdrawn ways. `offered_ways` is None if no file has
    iat-nova's inventory, or if the file cannot be read; then the traits are unknown too.
    """

    able_ways: int
    able_traits: tuple[str, ...]
    offered_ways: int | None = None
    offered_traits: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Status:
    """The agent's status. Only the latest counts."""

    mode: str  # enforce or observe
    pid: int
    version: str
    strategy: str
    interval_s: float
    started_s: float  # wall clock
    parameters: Parameters
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the strategy
    phases: tuple[str, ...] = ()  # that the strategy declares
    rules: tuple[Rule, ...] = ()
    reasons: tuple[Reason, ...] = ()  # why the agent only observes
    paused_until_s: float | None = None  # wall clock; infinite: until resumed; None: not paused
    paused_reason: str | None = None
    holds: tuple[Hold, ...] = ()  # in force
    shadow: Shadow | None = None
    placement: Placement | None = None  # None: not compared yet
    policy: str = ""  # in force, every default written out
    policy_source: str = ""  # file, or name of the default policy; empty: not known
    policy_reads: int = 0  # reloads on request since the start, refused reloads included
    problems: tuple[Reason, ...] = ()  # problems while the loop goes on
    notices: tuple[Reason, ...] = ()  # expected states of the host: CPUs offline
    last_error: Message | None = None
    stopped: bool = False  # the agent reported its end
    adopted_s: float | None = None  # wall clock, when it took over from another agent
    handed_over_s: float | None = None  # wall clock, when the next agent took the masks

    @property
    def settings(self) -> SettingsInForce:
        """The settings that decisions depend on, besides their inputs."""
        return SettingsInForce(self.strategy, self.parameters, self.options)


@dataclasses.dataclass(frozen=True, slots=True)
class SettingsInForce:
    """Strategy and numbers in force when an iteration was decided."""

    strategy: str
    parameters: Parameters
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """A complete inventory of the host with the policy's classification, by domain id.

    `reasons`: why each tenant, and each member of the pool, is in its class, by id. Values that
    change by themselves (`Facts.lasting`) are of `wall_s`; all other values were the same before,
    too.
    """

    wall_s: float
    facts: Facts
    domains: Mapping[int, DomainInventory]
    reasons: Mapping[str, Message] = dataclasses.field(default_factory=dict)


class EventKind(enum.StrEnum):
    """Changes of the agent's state that an event reports."""

    STARTED = "agent-started"
    PAUSED = "decisions-paused"
    RESUMED = "decisions-resumed"
    STOPPED = "agent-stopped"
    HANDED_OVER = "handed-over"
    RESTORED = "restored"


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """A message beside decisions; `kind`: the change of the agent's state that it reports."""

    wall_s: float
    severity: str  # info, warning or error
    message: Message
    kind: EventKind | None = None


@functools.cache
def _converter() -> cattrs.Converter:
    converter = make_converter(detailed_validation=False)
    converter.register_unstructure_hook(WayMask, int)
    converter.register_structure_hook(WayMask, lambda value, _: WayMask(value))
    converter.register_unstructure_hook(Message, _plain_message)
    converter.register_structure_hook(Message, lambda value, _: _message(value))
    # Debian 12 has cattrs 22.2, without get_structure_hook(). For a class that contains itself,
    # this version makes hooks without end, unless a hook is known before.

    def parameters(plain: Any, kind: type[Parameters]) -> Parameters:
        return of_parameters(plain, kind)

    converter.register_structure_hook(Parameters, parameters)
    of_parameters = make_dict_structure_fn(Parameters, converter, _cattrs_detailed_validation=False)
    layout = make_dict_structure_fn(Layout, converter, _cattrs_detailed_validation=False)
    converter.register_structure_hook(Layout, _Repeated(layout))
    return converter


class _Repeated:
    """Structures a value only if its plain form differs from the last: layouts seldom change."""

    def __init__(self, make: Callable[[Any, type[Layout]], Layout]) -> None:
        self._make = make
        self._last: tuple[Any, Layout] | None = None

    def __call__(self, plain: Any, kind: type[Layout]) -> Layout:
        last = self._last  # read once: another thread may replace both
        if last is not None and last[0] == plain:
            return last[1]
        made = self._make(plain, kind)
        self._last = plain, made
        return made


def _plain_message(one: Message) -> dict[str, Any]:
    return {"code": one.code, "values": {name: _plain(value) for name, value in one.values.items()}}


def _plain(value: Value) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return _plain_message(value) if isinstance(value, Message) else value


def _message(plain: Any, depth: int = MOST_DEPTH) -> Message:
    """Make a message from JSON types.

    Raises `ValueError` for messages nested more than `depth` levels deep: all later uses of a
    message are recursive.
    """
    if depth == 0:
        raise ValueError(f"messages are nested more than {MOST_DEPTH} levels deep")
    values = {str(name): _value(value, depth) for name, value in plain["values"].items()}
    return Message(str(plain["code"]), values)


def _value(plain: Any, depth: int) -> Value:
    if isinstance(plain, list):
        return tuple(
            _message(one, depth - 1) if isinstance(one, dict) else _text(one) for one in plain
        )
    if plain is None or isinstance(plain, (str, int, float)):
        return plain
    return _message(plain, depth - 1)


def _text(plain: Any) -> str:
    """Return an item of a list as text. Raises `TypeError` for a list within the list."""
    if isinstance(plain, list):
        raise TypeError("a message's list holds a list")
    return str(plain)


# Errors of constructors for values of other forms, or beyond our ranges.
OTHER_FORMS = (
    cattrs.BaseValidationError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def unstructure(value: object) -> Any:
    """Convert a value of the model to plain JSON types."""
    return _converter().unstructure(value)


def structure(plain: Any, kind: type[T]) -> T:
    """Make a value of `kind` from plain JSON types. Raises `RecordError`."""
    try:
        return _converter().structure(plain, kind)
    except OTHER_FORMS as error:
        name = getattr(kind, "__name__", str(kind))
        raise RecordError(
            f"a stored {name} has another form than this version of iat-nova reads "
            f"({worded(error)})"
        ) from error


def pack(value: object) -> bytes:
    """Return a value of the model as compressed JSON, in which numbers may be infinite."""
    return squeeze(text(unstructure(value)))


def unpack(blob: bytes, kind: type[T]) -> T | None:
    """Return the value passed to `pack`. Raises `RecordError`."""
    plain = parse(expand(blob))
    return None if plain is None else structure(plain, kind)


def text(plain: Any) -> bytes:
    """Return a value as JSON; numbers may be infinite."""
    return json.dumps(plain, separators=(",", ":")).encode()


def parse(written: bytes) -> Any:
    """Return the value passed to `text`. Raises `RecordError`."""
    try:
        return json.loads(written)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"a stored record is damaged ({error})") from error


def squeeze(written: bytes, base: bytes = b"") -> bytes:
    """Compress a text; the more of the text occurs in `base`, the shorter the result."""
    # Filtered: most of the text are digits without repetition; short matches would add 10 %.
    packer = zlib.compressobj(LEVEL, strategy=zlib.Z_FILTERED, zdict=base[-WINDOW:])
    return packer.compress(written) + packer.flush()


def expand(blob: bytes, base: bytes = b"") -> bytes:
    """Return the text that `squeeze` compressed with the same `base`. Raises `RecordError`."""
    try:
        unpacker = zlib.decompressobj(zdict=base[-WINDOW:]) if base else zlib.decompressobj()
        written = unpacker.decompress(blob, MOST_BYTES)
    except (zlib.error, ValueError, TypeError) as error:
        raise RecordError(f"a stored record is damaged ({error})") from error
    if unpacker.unconsumed_tail:
        raise RecordError(f"a stored record is damaged (it has more than {MOST_BYTES} bytes)")
    if not unpacker.eof:
        raise RecordError("a stored record is damaged (its end is missing)")
    return written
