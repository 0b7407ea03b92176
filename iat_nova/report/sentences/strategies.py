# SPDX-License-Identifier: Apache-2.0
"""The sentences of strategies: steps, moves, causes and thresholds."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    # arrivals and departures
    "arrived": "arrived",
    "arrived-with": "arrived: {ways:also}",
    "arrived-own-ways": "guaranteed ways of its own ({ways})",
    "arrived-some-ways": "may fill {ways:ways}",
    "arrived-shared": "may fill all ways but other tenants' guaranteed ways",
    "arrived-all-ways": "may fill all ways",
    "came": "came",
    "changed": "changed",
    "left": "left",
    "domain-changed": "the cache domain changed",
    "facts-changed": "its priority, I/O, CPUs, bounds, ports or weight changed",
    "now-held": "an operator holds it at {ways:ways}",
    "now-released": "the operator's hold has ended",
    # moves of pollute-buffer
    "best-effort-topmost": "best-effort tenants into the topmost ways, critical ones without I/O "
    "out of them",
    "buffer-size": "a pollute buffer of {ways:ways}",
    "confine": "into the pollute buffer",
    "confine-to-own": "to its own ways",
    "ddio-any-way": "devices fill any way again",
    "ddio-ways": "{ways:ways} for DDIO",
    "keep-clear": "critical tenants without I/O out of DDIO's ways",
    "keep-clear-no-more": "critical tenants back to all ways",
    "lend": "other tenants may fill its guaranteed ways",
    "lend-all": "all guaranteed ways open to all tenants",
    "limit-streams": "best-effort streams to {percent} % of their memory bandwidth",
    "limit-streams-no-more": "streams back to all their memory bandwidth",
    "ports-aside": "one way of their own for ports {ports:list}",
    "port-back": "DDIO's ways for port {port} again",
    "port-dca-off": "DDIO off at root port {port}",
    "port-dca-on": "DDIO on again at root port {port}",
    "release": "out of the pollute buffer",
    # trials of pollute-buffer
    "kept": "{move:also} ({cause:also})",
    "tried": "{move:also} ({cause:also})",
    "promise": "may gain {promise:gain1} at most, tried above {least:gain1}",
    "undone": "{move:also} ({cause:also})",
    "undone-by-load": "{move:also} ({tenant:name} has another load)",
    "speeds": "speeds {gain:gain1} together",
    "speeds-most": "speeds {gain:gain1} together, {tenant:name} {change:gain1}",
    "speeds-and-floors": "speeds {gain:gain1} together, {counted:gain1} with best-effort "
    "guests' minimum speeds",
    "tenants-changed": "tenants came or changed",
    "would-lose": "{tenant:name} lost {loss:share1} of its speed, more than {limit:share}",
    "gained-too-little": "{cause:also} in {samples} samples, kept above {limit:gain1}",
    "trial-goes-on": "{move:also}: {cause:also} after sample {number} of {samples}; kept at once "
    "above {kept_above:gain1}, undone at once without a gain",
    # at rest in pollute-buffer
    "another-load": "{tenant:name}: another load",
    "fell-asleep": "{tenant:name} fell asleep: it is idle now",
    "measuring-anew": "{cause:also}: measuring anew",
    "misses-changed": "{tenant:name}: LLC misses {before:rate} -> {after:rate} ({change:share})",
    "no-trials": "{cause:also} after {lasted_s:.0f} s: no trials before one lasts {calm_s:.0f} s",
    "references-changed": "{tenant:name}: LLC references {before:rate} -> {after:rate} "
    "({change:share})",
    "speed-changed": "{tenant:name}: speed {before:.2f} -> {after:.2f} ({change:share})",
    "woke-up": "{tenant:name} woke up: it was idle before",
    # why pollute-buffer leaves the ways as they are
    "changed-once": "{largest:also}, above {limit:share} in one sample: after a second such "
    "sample the agent measures anew",
    "ddio-busy": "DDIO misses {misses_per_s:rate} (busy above {low_per_s:rate}); of the tenants "
    "with I/O, {tenant:name} waits most for LLC misses: {stalled:share1} of its cycles",
    "ddio-busy-unread": "DDIO misses {misses_per_s:rate} (busy above {low_per_s:rate}), but no "
    "tenant with I/O was measured",
    "first-samples": "sample {number} of {samples} before the first trial",
    "load-too-short": "this load has lasted {lasted_s:.0f} s; as loads changed often, trials begin "
    "after {calm_s:.0f} s",
    "no-tenant-awake": "no tenant is awake",
    "same-load": "same load: the largest change is {largest:also}; the agent "
    "measures anew above {limit:share}",
    # why pollute-buffer tries no move
    "classes-lacking": "{move:also}: needs more than {classes} classes of service",
    "failed-before": "{move:also}: undone before ({cause:also}), not tried again for "
    "{wait_s:.0f} s",
    "failed-in-search": "{move:also}: undone under this load ({cause:also})",
    "guarantees-in-the-way": "{move:also}: guaranteed or held ways leave no room for it",
    "moved-often": "masks moved {times} times in the last minute: no trial from one below the "
    "limit of {most}",
    "move-of": "{move:also} ({tenant:name})",
    "no-gain": "no gain",
    "no-move": "no move is possible",
    "nothing-measured": "nothing was measured",
    "nothing-to-try": "nothing more to try: {causes:also}",
    "replaced": "another move was kept instead",
    "too-little": "{move:also}: may gain {promise:gain1} at most, tried above {least:gain1}",
    "too-little-again": "{move:also}: may gain {promise:gain1} at most, tried above {least:gain1} "
    "(failed moves of its kind before: {failures})",
    # thresholds of pollute-buffer
    "threshold-best-effort": "a best-effort tenant keeps {share:share} of its speed outside the "
    "buffer, unless critical tenants gain more",
    "threshold-ddio-busy": "DDIO is busy above {misses_per_s:rate} misses",
    "threshold-ddio-least": "DDIO has {ways:ways} at least",
    "threshold-kept": "a trial is kept above {gain:gain1} in {samples} samples",
    "threshold-kept-at-once": "a trial is kept at once above {gain:gain1}",
    "threshold-port-dca-saves": "DDIO off at a root port is tried if LLC hits save less than "
    "{share:share} of the cycles of the port's owner",
    "threshold-repaid": "a move is tried if its promise repays {cost_s:.2f} s of standstill in as "
    "long a time as the load has lasted",
    "threshold-suffers": "a trial is undone if the owner of the guaranteed ways that it opens, or "
    "of the root port at which it turns DDIO off, loses {share:share}",
    "threshold-tried": "a move is tried after {samples} samples",
    "threshold-undone-at-once": "a trial is undone at once without a gain",
    # why iat leaves the ways as they are
    "ddio-high-unchanged": "DDIO misses {misses_per_s:rate} (high above {low_per_s:rate}), "
    "unchanged",
    "ddio-hits-moved": "DDIO hits {before:rate} -> {after:rate} ({change:share1})",
    "ddio-misses-moved": "DDIO misses {before:rate} -> {after:rate} ({change:share1})",
    "ipc-changed": "{tenant:name}: IPC {before:.2f} -> {after:.2f} ({change:share1})",
    "masks-held": "masks moved too often: no change for another {delay_s:.0f} s",
    "no-change": "no change counts: the largest is {largest:also}; changes up to {limit:share1} or "
    "{floor_per_s:rate} do not count",
    "no-transition": "still {state}: {figures:also}",
    "nobody-asks": "no tenant's IPC and LLC misses changed together, so no tenant asks for ways",
    "ways-never-change": "this strategy never changes ways",
    "ways-left-to-all": "this strategy leaves all ways to all tenants",
    # the state machine of iat, by transition
    "cores-evict": "hits down and misses not: cores evict the receive buffers",
    "cores-evict-again": "misses high and up, hits down: cores evict the receive buffers",
    "cores-evict-low": "misses high, hits down and references up: cores evict the receive buffers",
    "cores-still-press": "cores still press",
    "ddio-has-maximum": "DDIO has its maximum",
    "ddio-keeps-maximum": "DDIO keeps its maximum",
    "ddio-minimum": "DDIO has its minimum and no core more than its initial ways",
    "demand-ebbs": "the demand ebbs",
    "grants-needed": "what was granted is still needed",
    "io-itself-presses": "misses up and hits not down: not cores but I/O presses the LLC",
    "io-presses": "misses high: I/O presses the LLC",
    "io-presses-again": "misses high and up: I/O presses again",
    "io-still-presses": "I/O still presses",
    "misses-low": "misses low",
    "exception-only-ipc": "exception {number} of the paper: only IPC changed, neither cache nor "
    "I/O did: nothing was done",
    "exception-own-demand": "exception {number} of the paper: a tenant without I/O and outside "
    "DDIO's ways changed, DDIO did not change: the tenant's own demand",
    "exception-shuffle": "exception {number} of the paper: a tenant without I/O inside DDIO's "
    "ways changed, and DDIO changed, too: first, tenants are ranked anew for DDIO's ways "
    "(shuffle)",
    # grants of iat
    "at-maximum": "{cause:also}; but {ways:ways} is its maximum",
    "cut": "all tenants together want {wanted:ways}, more than there are: cut from {ways:ways}, "
    "the largest first",
    "ddio-demand-fell": "hits and misses {now_per_s:rate}, {change:change} from the "
    "{then_per_s:rate} that the way was granted for",
    "ddio-fixed": "{cause:also}; DDIO's ways may not be resized here",
    "ddio-misses": "DDIO misses {change:change}",
    "demand-fell": "references {now_per_s:rate}, {change:change} from the {then_per_s:rate} that "
    "the way was granted for",
    "fewest-misses": "it has the fewest misses of the best-effort tenants ({misses_per_s:rate}): "
    "one of its ways goes to {tenant:name}",
    "fields-changed": "its {fields:list} changed",
    "figures": "{parts:list}",
    "first-layout": "first layout of {tenants_count} tenants",
    "found-way-idle": "misses {misses_per_s:rate} do not exceed {low_per_s:rate}; DDIO had this "
    "way from the start, not by a grant",
    "held": "held at {ways:ways}",
    "held-back": "{cause:also}; but another way did not help at this demand "
    "({demand_per_s:rate}): not tried again for {delay_s:.0f} s",
    "held-no-more": "no longer held",
    "into-ddio": "moved into DDIO's ways (fewest references): {tenants:names}",
    "io-misses-above": "misses {misses_per_s:rate} above {low_per_s:rate} "
    "({misses_change:change}), hits {hits_change:change}, references {references_change:change}",
    "io-misses-within": "misses {misses_per_s:rate} within {low_per_s:rate} "
    "({misses_change:change}), hits {hits_change:change}, references {references_change:change}",
    "last-way-did-not-help": "the last way did not help ({figures:also}): no more of them for "
    "{delay_s:.0f} s",
    "last-way-helped": "the last way helped ({figures:also})",
    "masks-moved-often": "masks moved {times} times in the last minute: no change for "
    "{delay_s:.0f} s",
    "maximum-is-now": "its maximum is {ways:ways} now",
    "miss-rate": "miss rate {change:change}",
    "miss-rate-rose": "{cause:also}, its miss rate {points:+.1f} points",
    "moved-aside": "moved aside, to keep masks whole: {tenants:names}",
    "no-layout": "there is no layout for it: {error:also}",
    "no-miss-rate-rose": "{cause:also}; but no I/O tenant's miss rate rose",
    "no-way": "{cause:also}; but no way is idle, and no tenant of lower rank can give a way",
    "no-way-for-ddio": "{cause:also}; but DDIO gets no way: DDIO has its maximum, or no way is "
    "idle and no tenant can give a way",
    "not-measured": "its effect could not be measured",
    "out-of-ddio": "out of DDIO's ways: {tenants:names}",
    "own-demand": "own demand: IPC moved and LLC misses rose",
    "own-demand-points": "own demand: IPC moved and LLC misses rose, miss rate {points:+.1f} "
    "points",
    "own-demand-did-not-help": "own demand: {ways:last} did not help ({figures:also}), no more of "
    "them for {delay_s:.0f} s",
    "own-demand-helped": "own demand: the last way lowered the miss rate ({figures:also})",
    "own-demand-still-rises": "own demand: the miss rate still rises ({figures:also})",
    "row": "row {number}: {figures:also}",
    "share-partition": "more tenants than ways or classes: {tenants:names} share {ways:ways}",
    "still": "still {state}: {figures:also}",
    "tenants-fixed": "{cause:also}; tenants' ways may not be resized here",
    "way-back": "has the way back that {tenant:name} held",
    # thresholds of iat
    "threshold-ddio-ways": "DDIO {least}..{most} ways",
    "threshold-miss-low": "DDIO misses low {misses_per_s:rate}",
    "threshold-stable": "stable {share:share1}",
    # a4
    "a4-restart": "restart: zones at their least, a tick to settle",
    "a4-grow": "the low-priority zone is to grow",
    "a4-shrink": "the trash ways are to shrink",
    "a4-shrunk": "the trash ways cannot shrink: the low-priority zone is small",
    "a4-nothing": "nothing is to be sized",
    "a4-larger": "the low-priority zone did no harm: one way more",
    "a4-turn": "the low-priority zone has its size: the trash ways shrink",
    "a4-grown": "the low-priority zone has its size",
    "a4-smaller": "smaller trash ways did no harm: one way fewer",
    "a4-done": "the trash ways have their size",
    "a4-ddio": "DDIO misses {ddio_percent:.0f} % of inbound lines (limit {limit_percent:.0f} %)",
    "a4-first-half": "first of the two samples of a tick",
    "a4-same-load": "same load: the LLC hit rate of {tenant:name} changed most, "
    "{before_percent:.0f} % -> {after_percent:.0f} %; a change of more than {share:share} and "
    "{points:.0f} points counts as another load",
    "a4-unguarded": "no high-priority tenant without a device was measured",
    "a4-changed": "the load has changed",
    "a4-detected": "a tenant has become an antagonist",
    "a4-launched": "a tenant came",
    "antagonist": "antagonist, to the trash ways: {cause:also}",
    "antagonist-no-more": "no antagonist any more: {cause:also}",
    "antagonists-miss-l2": "the antagonists miss L2 more often than before the trash ways shrank",
    "antagonists-miss-llc": "the antagonists miss the LLC more often than before the trash ways "
    "shrank",
    "cores-miss": "L2 misses {l2_percent:.0f} %, LLC misses {llc_percent:.0f} %",
    "dca-off": "off at root port {port}",
    "dca-on": "on again at root port {port}",
    "ddio-misses-changed": "DDIO misses {before_percent:.0f} % before, {after_percent:.0f} % now",
    "hits-changed": "LLC hits {before_percent:.0f} % before, {after_percent:.0f} % now",
    "l2-misses-changed": "L2 misses {before_percent:.0f} % before, {after_percent:.0f} % now",
    "llc-misses-changed": "LLC misses {before_percent:.0f} % before, {after_percent:.0f} % now",
    "low-zone-size": "low-priority zone: {ways:ways}",
    "more-memory-traffic": "more bytes come from memory than before the trash ways shrank",
    "network-less": "less arrives from the network than before the trash ways shrank",
    "size-because": "{size:also}: {causes:also}",
    "storage-leaks": "DDIO misses {ddio_percent:.0f} %, its own LLC misses "
    "{llc_percent:.0f} %; storage writes {storage_percent:.0f} % of the network's bytes",
    "storage-reads": "storage reads {before_bytes_per_s:gbps} before, {after_bytes_per_s:gbps} now",
    "storage-reads-less": "storage reads less than before the trash ways shrank",
    "tenant-hits-changed": "{tenant:name}: LLC hits {before_percent:.0f} % before, "
    "{after_percent:.0f} % now",
    "trash-ways-size": "trash ways: {ways:ways}",
    "threshold-t1": "T1 hit rate {share:share}",
    "threshold-t2": "T2 DDIO misses {percent:.0f}%",
    "threshold-t3": "T3 storage {percent:.0f}% of inbound",
    "threshold-t4": "T4 its LLC misses {percent:.0f}%",
    "threshold-t5": "T5 LLC misses {percent:.0f}%",
}
