# SPDX-License-Identifier: Apache-2.0
"""The sentences of the agent's loop and of its history: reasons, problems, notices and events."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    # what the service manager shows
    "enforcing": "enforcing",
    "and-paused": "{state:also}, paused",
    "and-degraded": "{state:also}; degraded: {problem:also}",
    # why nothing is written, and what follows
    "only-observing": "only observing: {reason:also}",
    "observe-configured": "mode = observe; to have masks written set [iat] mode = enforce and "
    "restart iat-nova-agent",
    "other-writer": "another agent took over this host (enforcement off until restart): "
    "{error:also}",
    "writer-lock-lost": "the writer's lock is lost: {error:also}",
    "writer-lock-held": "the writer's lock is held again",
    "sources-unanswered": "waiting for the first answer of {sources:and}",
    "sources-answered": "every source has answered",
    "resctrl-missing": "{missing:also}",
    "resctrl-mounted": "resctrl is mounted again",
    "guests-tuned": "libvirt allocates cache to {guests:list} (cachetune)",
    "other-owners": "{owners:also}",
    "other-owners-gone": "the other owner of cache has gone",
    "conflicting-changes": "conflicting change by another program (enforcement off until "
    "restart): {changes:also}",
    "write-refused": "a write was refused (tried again at {at_s:moment}): {error:also}",
    "write-refused-for-good": "a write was refused (until the next start): {error:also}",
    "write-tried-again": "retrying the refused write",
    "writes-accepted": "writes succeed again",
    # the original settings
    "not-restored": "the hardware could not be restored: {error:also}; run `iat-nova restore`",
    "restorable": "the hardware could be restored",
    "restored": "original settings restored and read back: {parts:list}",
    "restore-waits": "{settings:also}",
    "restore-complete": "settings that were out of reach at a restore are restored, too",
    "snapshot-rewritten": "snapshot written again from memory: {error:also}",
    "snapshot-kept": "the snapshot is on disk",
    # CPUs that come and go
    "cpus-moved-counting": "cannot count on all CPUs: {event:also} during the operation; retrying",
    "cpus-moved-reading": "cannot read the counters: {event:also} during the operation; retrying",
    "cpus-moved-writing": "cannot write masks of cache domain {domain}: {event:also} during the "
    "operation; retrying",
    "cpus-moved-checking": "cannot check for other cache users: {event:also} during the "
    "operation; retrying",
    "cpus-moved-comparing": "cannot compare settings with the settings that the agent wrote: "
    "{event:also} during the operation; retrying",
    "cpus-moved-restoring": "cannot restore all settings: {event:also} during the operation; "
    "retrying",
    "cpus-moved-monitoring": "cannot monitor all tenants: {event:also} during the operation; "
    "retrying",
    "domain-offline": "cache domain {domain}: all CPUs offline; cache domain skipped",
    "domain-online": "cache domain {domain}: CPUs are online again",
    "domains-unseen": "cache domains whose CPUs have been offline since the start: {count}",
    "domains-seen": "every cache domain has been online",
    "guest-cpu-offline": "CPU {cpus} of {guest} is offline",
    "guest-cpus-offline": "CPUs {cpus} of {guest} are offline",
    "guest-cpus-online": "{guest}: all CPUs are online again",
    "guest-ended": "{guest}: has ended",
    # what is wrong while the loop goes on
    "owners-unknown": "cannot check for other cache users: {error:also}",
    "owners-known": "other cache users can be checked for again",
    "counters-unreadable": "{error:also}",
    "counters-readable": "the counters can be read again",
    "not-all-counted": "counters unavailable for some CPUs: {error:also}",
    "all-counted": "counters available again",
    "not-monitored": "not all tenants and ports are monitored: {error:also}",
    "monitored": "tenants are monitored again",
    "layout-impossible": "cache domain {domain}: {error:also}; keeping previous masks",
    "ddio-ways-too-many": "cache domain {domain}: DDIO cannot have {wanted} ways, because only "
    "{left} of the {ways} ways are not reserved",
    "no-mask-fits": "cache domain {domain}: no mask of {least:ways} fits in {open_ways:#x}, the "
    "ways that are neither reserved nor forbidden",
    "tenant-twice": "cache domain {domain}: a tenant is named twice",
    "classes-too-few": "cache domain {domain}: {classes} class(es) of service leave no class for "
    "tenants",
    "strategy-failed": "cache domain {domain}: the strategy failed, keeping previous masks: "
    "{error}",
    "strategy-failed-at": "strategy {strategy!r} failed at {at_s:g} s: {cause:also}",
    "decided-again": "cache domain {domain}: decided again",
    "ddio-no-effect": "cache domain {domain}: {verdict:also}",
    "ddio-ways-without-effect": "changing the DDIO ways had no effect: {whose:also} stayed at "
    "{shares:list} of inbound writes under {loads} loads, the last time from {before} to {after} "
    "ways; original mask restored until the next start or reload of the policy",
    "misses-of-ddio": "DDIO's misses",
    "misses-of-readers": "LLC misses of the readers",
    "one-share": "{share:share1}",
    "ddio-tried-again": "cache domain {domain}: DDIO is tried",
    "shadow-classified": "the shadow policy is applied again",
    "shadow-failed": "cache domain {domain}: the shadow strategy failed: {error}",
    "shadow-decides-again": "cache domain {domain}: the shadow strategy decides again",
    "classified-again": "the policy is applied again",
    "last-good-kept": "{what} cannot be read ({error}); the agent keeps the last known values",
    "history-unwritable": "{error:also}",
    "history-writable": "the history is recorded again",
    "heartbeat-unwritable": "{error:also}",
    "heartbeat-writable": "agent.lock is written again",
    "inventory-old": "libvirt and Open vSwitch have not been read for more than {overdue_s:g} s "
    "(the limit, twice reconcile_s): guests that start or end are not noticed; restart the agent",
    "inventory-fresh": "libvirt and Open vSwitch are read again",
    "tenant-warning": "{name}: {warning:also}",
    "tenant-warning-over": "no longer: {name}: {warning:also}",
    "thread-died": "thread {thread} ended by an unexpected error: {error}",
    # holds of operators
    "hold-begun": "held: {name} at {ways:ways} {terms:also}",
    "hold-ended": "no longer held: {name}",
    "hold-until": "until {until_s:moment}",
    "hold-until-release": "until `iat-nova release`",
    "pause-until-resume": "until `iat-nova resume`",
    "hold-by": "{terms:also} by {by}",
    "hold-because": "{terms:also}: {reason}",
    "hold-unreadable": "{error:also}",
    "hold-refused": "the hold of {name} at {ways:ways} is not in force: {cause:also}",
    "hold-asked-no-more": "the hold of {name} has ended",
    "hold-waits": "{name} is not on this host; its hold waits",
    "hold-not-kept": "{name} does not have the ways at which it is held: {cause:also}",
    "hold-kept": "{name} has the held number of ways",
    "hold-below-guarantee": "its flavor guarantees it {ways} (iat:llc_ways)",
    "hold-below-least": "cache domain {domain} wants masks of {ways} ways at least",
    "hold-no-room": "cache domain {domain} has {usable} ways for tenants; the other tenants keep "
    "{keep:list}: {left:ways} can be held",
    "hold-no-room-at-all": "cache domain {domain} has {usable} ways for tenants; the other "
    "tenants keep {keep:list}: no way can be held before another hold or a guest ends",
    "hold-keeps": "{name} {ways}",
    "hold-keeps-shared": "{ways} to share",
    "hold-given": "the strategy gives it {ways}",
    "hold-shared": "the strategy lets other tenants fill the held ways",
    # policy and configuration that run, and those on disk
    "policy-reload-failed": "policy reload failed, keeping previous policy: {error:also}",
    "policy-facts-refused": "the host's facts changed ({facts:list}), keeping previous policy: "
    "{error:also}",
    "policy-valid": "the policy is valid again",
    "policy-reloaded": "policy reloaded",
    "policy-rendered-again": "policy rendered again: the host's facts changed ({facts:list})",
    "shadow-policy-unusable": "the shadow policy cannot be used: {error:also}",
    "shadow-policy-kept": "the shadow policy cannot be used, keeping previous shadow policy: "
    "{error:also}",
    "shadow-policy-valid": "the shadow policy is valid again",
    "policy-unreadable": "the policy that runs can no longer be read, the agent would not start "
    "with it: {error:also}",
    "policy-unread": "{path} is not the policy that runs; have it read: iat-nova reload",
    "config-invalid": "the configuration is invalid now, the agent would not start with it: "
    "{error:also}",
    "config-unread": "the configuration is not what runs ({options:also}); restart iat-nova-agent",
    "option-differs": "{option} is {now}, {running} runs",
    "placement-unreadable": "{error:also}: nova-compute may fail to start with this file",
    "placement-unknown": "{error:also}; what Placement was offered is not known",
    "placement-differs": "{path} offers Placement {offered:also}; this host can offer {able:also} "
    "({reasons:also}): run iat-nova provider-config -o {path}, then restart nova-compute",
    "placement-withdraw": "{path} offers Placement {offered:also}; this host can offer {able:also} "
    "({reasons:also}): run iat-nova provider-config --withdraw -o {path}, then restart "
    "nova-compute",
    "placement-agrees": "provider.yaml agrees with this host",
    "offer": "{ways:ways}, at most {most} a guest, with {traits:list}",
    "offer-from": "{ways:ways}, {least} to {most} a guest, with {traits:list}",
    "offer-least": "a mask of this CPU has {least} ways at least: a flavor of fewer would get "
    "{least}, so Placement gives it no host of this kind (min_unit)",
    "offer-nothing": "nothing",
    "offer-observing": "mode = observe: the agent keeps no ways for guests, so the host offers no "
    "ways (reserved = total)",
    "offer-withdrawn": "withdrawn: guests that have ways keep them, other guests get no ways "
    "(reserved = total)",
    "offer-no-domain": "this host has no cache domain",
    "offer-empty": "no LLC way is left to be guaranteed: {reasons:also}; if the host offered ways "
    "before, withdraw them: iat-nova provider-config --withdraw",
    "provider-not-yaml": "{path} is not YAML, so nova-compute would not start: {error:also}",
    "provider-twice": "{path} describes {nodes:list} too, and nova-compute does not start with "
    "two descriptions of one node; move this description to another file, or name the node with "
    "--node",
    "provider-not-understood": "{path} cannot be understood: {error:also}",
    "provider-folder-unreadable": "folder {path} cannot be examined: {error:also}",
    "provider-of-another-form": "{path} cannot be understood: it has another form than Nova's "
    "({error})",
    # from one agent to the next
    "handed-over": "handed over: masks and decisions are left to the next agent",
    "not-handed-over": "not handed over to the next agent: {error:also}",
    "adopted": "adopted: masks and decisions of the last agent (version {version}), which it left "
    "{age_s:.1f} s ago",
    "agent-started": "agent started: version {version}, process {pid}",
    "agent-stopped": "agent stopped",
    "decisions-paused": "paused {terms:also}: keeping present masks",
    "decisions-resumed": "no longer paused",
    # the history
    "history-older": "the history was of an earlier version; it is kept at {path}, and a new "
    "history is begun",
    "history-damaged": "the history was damaged ({error}); it is kept at {path}, and a new "
    "history is begun",
    "iterations-lost": "{count} iterations were not recorded: the history could not be written",
    "state-not-recorded": "states of this strategy cannot be recorded: {error}",
    "decision-not-recorded": "decisions of this strategy cannot be recorded: {error}",
}
