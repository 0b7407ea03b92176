# SPDX-License-Identifier: Apache-2.0
"""Reasons for observing only and for degraded operation: a code for programs, and a message.

Any version may reword sentences; codes stay. Rules, alerts and scripts should use the code.
"""

from __future__ import annotations

import dataclasses
import enum

from iat_nova.model.message import Message


class Code(enum.StrEnum):
    """The codes of all reasons; the page on metrics has their meanings."""

    # reasons for writing nothing
    OBSERVE_CONFIGURED = "observe-configured"
    SOURCE_UNANSWERED = "source-unanswered"
    CACHETUNE = "cachetune"
    OTHER_OWNER = "other-owner"
    CONFLICTING_CHANGE = "conflicting-change"
    REFUSED = "refused"
    RESCTRL_UNMOUNTED = "resctrl-unmounted"
    WRITER_LOCK = "writer-lock"
    PAUSED = "paused"
    # degraded operation while the loop goes on
    NOT_RESTORED = "not-restored"
    SNAPSHOT_LOST = "snapshot-lost"
    OWNERS_UNKNOWN = "owners-unknown"
    COUNTERS_UNREADABLE = "counters-unreadable"
    NOT_ALL_COUNTED = "not-all-counted"
    NOT_MONITORED = "not-monitored"
    LAYOUT_IMPOSSIBLE = "layout-impossible"
    STRATEGY_FAILED = "strategy-failed"
    DDIO_NO_EFFECT = "ddio-no-effect"
    HISTORY_UNWRITABLE = "history-unwritable"
    HEARTBEAT_UNWRITABLE = "heartbeat-unwritable"
    THREAD_DIED = "thread-died"
    INVENTORY_OLD = "inventory-old"
    SOURCE = "source"
    CLASSIFICATION_FAILED = "classification-failed"
    POLICY_WARNING = "policy-warning"
    TENANTS = "tenants"
    HOLD_NOT_KEPT = "hold-not-kept"
    SHADOW_FAILED = "shadow-failed"
    SHADOW_POLICY_INVALID = "shadow-policy-invalid"
    # expected states of the host
    DOMAIN_OFFLINE = "domain-offline"
    CPUS_OFFLINE = "cpus-offline"
    RESTORE_WAITS = "restore-waits"
    # files on disk that differ from the running configuration
    POLICY_INVALID = "policy-invalid"
    POLICY_UNREAD = "policy-unread"
    CONFIG_UNREAD = "config-unread"
    PLACEMENT_OFFER = "placement-offer"


_OBSERVE = {
    Code.OBSERVE_CONFIGURED,
    Code.SOURCE_UNANSWERED,
    Code.CACHETUNE,
    Code.OTHER_OWNER,
    Code.CONFLICTING_CHANGE,
    Code.REFUSED,
    Code.RESCTRL_UNMOUNTED,
    Code.WRITER_LOCK,
}
_NOTICES = {Code.DOMAIN_OFFLINE, Code.CPUS_OFFLINE, Code.RESTORE_WAITS}
_DRIFT = {Code.POLICY_INVALID, Code.POLICY_UNREAD, Code.CONFIG_UNREAD, Code.PLACEMENT_OFFER}


def about(code: str) -> str:
    """Return the kind of a code: observe, paused, notice, drift or else degraded.

    ``observe``: the reason for writing nothing; ``drift``: files on disk differ from the running
    configuration; ``notice``: an expected state of the host.
    """
    if code in _OBSERVE:
        return "observe"
    if code == Code.PAUSED:
        return "paused"
    if code in _NOTICES:
        return "notice"
    return "drift" if code in _DRIFT else "degraded"


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """The reason for a state of the agent. `code` is one of `Code`; later versions may add codes.

    `message` has the details. Its code names a sentence; several sentences may belong to one
    `code`.
    """

    code: str
    message: Message
