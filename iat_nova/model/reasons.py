# SPDX-License-Identifier: Apache-2.0
"""Reasons for observing only and for degraded operation: a code for programs, and a message.

Any version may reword sentences; codes stay. Rules, alerts and scripts should use the code.
"""

from __future__ import annotations

import dataclasses
import enum

from iat_nova.model.message import Message


class Code(enum.StrEnum):
    """The codes of all reasons; `MEANINGS` has one line for each."""

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


MEANINGS = {
    Code.OBSERVE_CONFIGURED: "``[iat] mode = observe``.",
    Code.SOURCE_UNANSWERED: "libvirt or OVSDB has never answered yet; ends when it has.",
    Code.CACHETUNE: "libvirt allocates cache to a guest; ends with that guest.",
    Code.OTHER_OWNER: "Another program allocates cache; ends when it has gone.",
    Code.CONFLICTING_CHANGE: "Another program changed what the agent had set; until restart.",
    Code.REFUSED: "The hardware or the kernel refused a write; tried again after growing pauses.",
    Code.RESCTRL_UNMOUNTED: "resctrl is not mounted; ends when it is.",
    Code.WRITER_LOCK: "``writer.lock`` was removed. Another process locked it (until restart), or "
    "the agent cannot make it again (until it can).",
    Code.PAUSED: "``iat-nova pause`` holds the present masks.",
    Code.NOT_RESTORED: "Could not restore the original hardware settings.",
    Code.SNAPSHOT_LOST: "The file with the original settings was lost or damaged, and was written "
    "again.",
    Code.OWNERS_UNKNOWN: "Whether another program allocates cache cannot be seen.",
    Code.COUNTERS_UNREADABLE: "The counters cannot be read: no iterations.",
    Code.NOT_ALL_COUNTED: "Some CPUs have no counters; their tenants have no rates.",
    Code.NOT_MONITORED: "Occupancy and memory traffic of some tenants or ports are not known; all "
    "else is.",
    Code.LAYOUT_IMPOSSIBLE: "What is promised does not fit into the ways; keeping previous masks.",
    Code.STRATEGY_FAILED: "The strategy raised an error or decided what cannot be applied; "
    "keeping previous masks.",
    Code.DDIO_NO_EFFECT: "DDIO does not follow its register; it is taken as fixed.",
    Code.HISTORY_UNWRITABLE: "The history is not recorded; the loop goes on.",
    Code.HEARTBEAT_UNWRITABLE: "``iat-nova status`` will take the agent for stalled.",
    Code.THREAD_DIED: "A thread ended by an unexpected error; the agent ends in order.",
    Code.INVENTORY_OLD: "The host was not read for twice ``reconcile_s``; a reading ends it.",
    Code.SOURCE: "libvirt, Open vSwitch or sysfs does not answer, or not in full.",
    Code.CLASSIFICATION_FAILED: "The policy could not be applied to what runs here; the last "
    "tenants stay.",
    Code.POLICY_WARNING: "The policy has something that looks unintended.",
    Code.TENANTS: "Guests, CPUs or guarantees conflict with one another, or this host cannot keep "
    "to what the policy says of them.",
    Code.HOLD_NOT_KEPT: "What ``iat-nova hold`` asked for is not there: it does not fit, or the "
    "strategy does not keep it.",
    Code.SHADOW_FAILED: "The strategy of ``[iat] shadow`` raised an error, or decided what cannot "
    "be applied; nothing else is touched by it.",
    Code.SHADOW_POLICY_INVALID: "The file of ``[iat] shadow_policy`` cannot be used; the shadow "
    "goes by the previous one, or does not decide.",
    Code.DOMAIN_OFFLINE: "All CPUs of a cache domain are offline; it is skipped.",
    Code.CPUS_OFFLINE: "CPUs of a guest that runs are offline.",
    Code.RESTORE_WAITS: "Original hardware settings of what is offline wait in the snapshot; they "
    "are restored when it is online again.",
    Code.POLICY_INVALID: "The policy was not reloaded; the previous one stays.",
    Code.POLICY_UNREAD: "The policy's file is not the policy that runs: it was changed and not "
    "read, or refused, or is gone.",
    Code.CONFIG_UNREAD: "The configuration is not what runs: it was changed, and the agent was not "
    "restarted.",
    Code.PLACEMENT_OFFER: "``provider.yaml`` offers Placement what this host cannot keep, or less.",
}
"""The meaning of each code, as listed in the operator's pages (reStructuredText)."""


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
