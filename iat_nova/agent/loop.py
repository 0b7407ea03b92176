# SPDX-License-Identifier: Apache-2.0
"""The loop: Figure 5 of the paper on one page.

    Get Tenant Info -> LLC Alloc -> [ Poll Prof Data -> stable? -> State Transition
                                      -> LLC Re-alloc ] -> Sleep -> ...

One thread owns the whole state. Other threads (events of libvirt and OVSDB, signals) only set an
event. After a failure (of a source, a counter, a policy) the last good state is kept, the failure
is shown, and the loop goes on. After a refused write the loop restores the host and only observes.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from typing import Any

from iat_nova.agent.hand_over import HandedOver
from iat_nova.agent.holding import Holding
from iat_nova.agent.interlock import Interlock
from iat_nova.agent.monitoring import Following
from iat_nova.agent.offline import OfflineCpus
from iat_nova.agent.parts import Parts
from iat_nova.agent.sampling import Sampler
from iat_nova.common.last_good import LastGood
from iat_nova.common.untrusted import worded
from iat_nova.hardware.api import FAILURES, DomainOffline, HardwareError
from iat_nova.hardware.ddio.effect import DdioCheck
from iat_nova.hardware.enforcement.enforcer import Effective
from iat_nova.model import (
    CacheDomain,
    Decision,
    DomainInventory,
    Facts,
    Parameters,
    Sample,
)
from iat_nova.model.message import Message, MessageError, as_message, message, verbatim
from iat_nova.model.reasons import Code, Reason
from iat_nova.policy import Classified, Policy
from iat_nova.store.records import EventKind
from iat_nova.strategies.api import Checked, decide, outlook
from iat_nova.strategies.layout.plan import LayoutError
from iat_nova.strategies.outlook import Outlook

FIRST_SAMPLE_S = 0.1  # the first layout waits no longer than this for its rates
LEAST_SAMPLE_S = 0.05  # rates over a shorter time are noise, even if events wake the loop


class ThreadDied(MessageError):
    """An unexpected error ended a thread that the loop needs; the host is restored."""


class Agent:
    """The main loop: joins the parts and holds the strategy's state of every cache domain.

    `tenants` is the latest inventory of tenants by cache domain.
    """

    def __init__(self, parts: Parts) -> None:
        monitor, cpus = parts.monitor, parts.outside.cpus
        self.inventory, self.policies = parts.inventory, parts.policies
        self.enforcer, self.journal, self.clock = parts.enforcer, parts.journal, parts.clock
        self.counters = parts.counters
        self.make_strategy, self.shadow = parts.make_strategy, parts.shadow
        self.paused, self.placement, self.drift = parts.paused, parts.placement, parts.drift
        self.holding = Holding(parts.holds, self.journal, parts.clock)
        self.interlock = Interlock(
            self.enforcer, self.journal, self.clock, parts.outside, observe=parts.observe
        )
        self._following = (
            None
            if monitor is None
            else Following(monitor, self.journal, self.clock, self.interlock.excuses)
        )
        self._offline = OfflineCpus(cpus, self.enforcer, self.journal)
        self._stop = threading.Event()
        self._failure: Message | None = None
        self._sampler = Sampler()
        self.tenants: dict[int, DomainInventory] = {}
        self._states: dict[int, Any] = {}
        self._checked: dict[int, Checked] = {}  # the last layouts
        self._io: dict[str, bool] = {}
        self._classified = LastGood("the tenants", Classified({}, {}, (), {}))
        self._effects: dict[int, DdioCheck] = {}
        self._fixed: set[int] = set()  # domains whose DDIO register was found without effect
        self._polled_s = -math.inf
        self._unread = True  # no reading of the inventory yet, or the last one failed
        self._domains: tuple[CacheDomain, ...] = ()  # with or without tenants
        self._succession = parts.succession
        if parts.left is not None:
            self._adopt(parts.left)
        self._take(self.policy.parameters)

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.policies.policy

    def run(self, until_s: float = math.inf) -> None:
        """Run the agent's loop, then restore the original hardware settings.

        The loop ends after a call of `stop`, or when the clock reaches `until_s`.

        After a request to hand over, the masks are left to the next agent instead.
        """
        in_order = False
        try:
            self.journal.starting()
            self._look()
            self.poll()
            # Adopted masks are on the hardware already: the first rates may take a whole interval.
            pause_s = self.policy.parameters.interval_s if self._states else FIRST_SAMPLE_S
            while not self._stop.is_set() and self.clock.now() < until_s:
                self.clock.wait(self.inventory.changed, pause_s)
                if self._stop.is_set():
                    break
                self._look()
                pause_s = FIRST_SAMPLE_S
                if self.clock.now() - self._polled_s >= LEAST_SAMPLE_S:
                    self.iterate()
                    pause_s = self.policy.parameters.interval_s
            in_order = self._failure is None
        finally:
            self._end(in_order)
        if self._failure is not None:
            raise ThreadDied(self._failure)

    def stop(self) -> None:
        """End the loop after the iteration under way; callable from any thread."""
        self._stop.set()
        self.inventory.changed.set()

    def fail(self, said: Message) -> None:
        """End the loop as `stop` does, and have `run` raise `ThreadDied`; from any thread."""
        self._failure = said
        self.stop()

    def reload_policy(self) -> None:
        """Request a new reading of the policy before the next iteration; from any thread."""
        self.policies.ask()
        if self.shadow is not None:
            self.shadow.ask()

    def iterate(self) -> None:
        """Poll, decide, write, record: one iteration over all cache domains."""
        started = time.perf_counter()
        samples = self.poll()
        read_s = time.perf_counter() - started
        pause = self.paused(self.clock.wall())
        if self.interlock.check():
            self.inventory.changed.set()
        if self.holding.changed:
            self.inventory.changed.set()
        if pause is None:
            for domain, sample in samples.items():
                self._decide(self.tenants[domain], sample, read_s)
        if self._following is not None and not self.interlock.taken:
            self._following.follow(self.tenants, self.enforcer.writes)
        self.journal.status(self.interlock.reasons, pause)

    def _look(self) -> None:
        """Read the inventory after a hint, a change of online CPUs, or a failed reading."""
        with self.interlock.stage(
            Code.SOURCE, "host-stale", "sources-answered", "cpus-moved-checking"
        ):
            moved = self._offline.moved(self._domains)
            if moved or self._unread or self.inventory.changed.is_set():
                self._unread = True
                self.get_tenant_info()
                self._unread = False

    def get_tenant_info(self) -> None:
        """Read the inventory, classify guests into tenants and watch the tenants' CPUs."""
        self.inventory.changed.clear()  # before reading: an event during the reading is not lost
        facts = self.inventory.facts()
        self._domains = facts.host.domains
        self.policies.look(facts.host, self._use)
        classified = self._classify(facts)
        for domain, seen in self.holding.apply(classified.domains).items():
            if self._offline.skips(seen.domain, facts):
                self.tenants.pop(domain, None)
                self._undecided(domain)
                continue
            inventory = _ddio_fixed(seen) if domain in self._fixed else seen
            if self.tenants.get(domain) != inventory:
                self.tenants[domain] = inventory
        warnings = self._warnings(facts, classified)
        self.journal.inventory(facts, self.tenants, warnings, classified.reasons)
        self._offline.notice_unseen(facts)
        self._offline.notice_guests(facts)
        self._show_to_shadow(facts)
        self.interlock.look(facts)
        self._compare_offer(facts)
        self._watch()

    def _undecided(self, domain: int) -> None:
        """End the problems of decisions on a domain that is offline: none is made."""
        for code in (Code.LAYOUT_IMPOSSIBLE, Code.STRATEGY_FAILED, Code.SHADOW_FAILED):
            self.journal.solved(code, message("domain-offline", domain=domain), domain)

    def _classify(self, facts: Facts) -> Classified:
        """Apply the policy; after an error, keep the tenants of the last inventory."""
        last = self._classified
        classified = last.update(lambda: self.policy.classify(facts, self._io))
        problem = None
        if last.error is not None:
            problem = message("last-good-kept", what=last.what, error=last.error)
        self.journal.note(Code.CLASSIFICATION_FAILED, problem, message("classified-again"))
        self._io = dict(classified.io)
        return classified

    def _warnings(self, facts: Facts, classified: Classified) -> tuple[Reason, ...]:
        """Return the warnings of policy, host and files, each once."""
        found = [Reason(Code.POLICY_WARNING, one.located) for one in self.policy.warnings]
        found += classified.warnings
        drift = self.drift(self.policy)
        if self.policies.refused:  # a problem already says that the file's policy is not in force
            drift = tuple(one for one in drift if one.code != Code.POLICY_UNREAD)
        found += drift
        return tuple(dict.fromkeys(found))

    def _compare_offer(self, facts: Facts) -> None:
        """Report if the offer to Placement differs from the ways that this host can guarantee."""
        if facts.warnings:
            return  # a source is unavailable: the possible offer of the host is unknown
        found, problem = self.placement(self.policy, facts)
        self.journal.placement(found)
        self.journal.note(Code.PLACEMENT_OFFER, problem, message("placement-agrees"))

    def _watch(self) -> None:
        """Count on the CPUs of all tenants; tenants on other CPUs have no rates."""
        tenants = (one for known in self.tenants.values() for one in known.tenants)
        with self.interlock.stage(
            Code.NOT_ALL_COUNTED, "not-all-counted", "all-counted", "cpus-moved-counting"
        ):
            self.counters.watch({cpu for tenant in tenants for cpu in tenant.counted_cpus})

    def poll(self) -> dict[int, Sample]:
        """Read the counters; return samples by domain, empty after an error or a first reading."""
        self._polled_s = self.clock.now()
        samples: dict[int, Sample] = {}
        with self.interlock.stage(
            Code.COUNTERS_UNREADABLE,
            "counters-unreadable",
            "counters-readable",
            "cpus-moved-reading",
        ):
            counts = self.counters.read()
            if self._following is not None:
                counts = self._following.added_to(counts)
            samples = self._sampler.update(counts, self.tenants)
        return samples

    def _decide(self, inventory: DomainInventory, sample: Sample, read_s: float) -> None:
        """Take one step of one domain's strategy, write the layout and record the iteration."""
        started = time.perf_counter()
        decided_from = self._step(inventory, sample)
        if decided_from is None:
            return
        before, decision, left = decided_from
        decided = time.perf_counter()
        effective = self._write(inventory, decision)
        written = time.perf_counter()
        timings_us = {
            "read": read_s * 1e6,
            "decide": (decided - started) * 1e6,
            "write": (written - decided) * 1e6,
        }
        after = self._states[sample.domain]
        left = Outlook.NOT_WRITTEN if effective is None else left
        self.journal.iteration(before, sample, decision, effective, timings_us, after, left)
        self._verify_ddio(sample, effective)
        self.holding.verify(inventory, decision.layout)
        self._look_at_shadow(inventory, sample, decision)

    def _show_to_shadow(self, facts: Facts) -> None:
        """Let the shadow classify the inventory by its own policy, if any."""
        if self.shadow is not None:
            problem = self.shadow.see(facts, self.holding.known, self.clock.wall())
            over = message("shadow-classified")
            self.journal.note(Code.SHADOW_FAILED, problem, over, "policy")

    def _look_at_shadow(
        self, inventory: DomainInventory, sample: Sample, decision: Decision
    ) -> None:
        """Let the shadow strategy decide on the same sample, after the real decision."""
        if self.shadow is None:
            return
        problem = self.shadow.look(inventory, sample, decision, self.clock.now())
        domain = inventory.domain.id
        over = message("shadow-decides-again", domain=domain)
        self.journal.note(Code.SHADOW_FAILED, problem, over, domain)
        self.journal.shadow(self.shadow.now)

    def _step(
        self, inventory: DomainInventory, sample: Sample
    ) -> tuple[Any, Decision, Outlook] | None:
        """Return the state before the decision, the decision, and the outlook (`Outlook`).

        None after a failure.

        No error of a strategy passes this function. A strategy may be a plug-in: any exception, and
        an impossible layout, is logged and shown. The previous state and masks are kept, and the
        strategy decides again in the next iteration.
        """
        domain, now_s = inventory.domain.id, self.clock.now()
        strategy = self._own.get(domain, self.strategy)
        try:
            before, checked = self._states.get(domain), self._checked.get(domain)
            state, after, decision = decide(strategy, before, inventory, sample, now_s, checked)
            left = outlook(strategy, after, now_s)
        except LayoutError as error:
            problem = message("layout-impossible", domain=domain, error=as_message(error))
            self.journal.problem(Code.LAYOUT_IMPOSSIBLE, problem, domain)
            return None
        except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
            problem = message("strategy-failed", domain=domain, error=worded(error))
            self.journal.failed(Code.STRATEGY_FAILED, problem, domain)
            return None
        self._states[domain] = after
        self._checked[domain] = inventory, decision.layout
        for code in (Code.LAYOUT_IMPOSSIBLE, Code.STRATEGY_FAILED):
            self.journal.solved(code, message("decided-again", domain=domain), domain)
        return state, decision, left

    def _verify_ddio(self, sample: Sample, effective: Effective | None) -> None:
        """Check whether DDIO follows its register; if not, report and take DDIO as fixed."""
        effect, mask = self._effects.get(sample.domain), effective.ddio if effective else None
        if effect is None:
            low = self.policy.parameters.of(sample.domain).threshold_miss_low_per_s
            effect = self._effects[sample.domain] = DdioCheck(low)
        if effect.trial is None and effect.mask == mask:
            return
        readers = {one.id for one in self.tenants[sample.domain].tenants if one.io}
        verdict = effect.look(sample, mask, readers)
        if verdict is not None:
            self._fixed.add(sample.domain)
            self.tenants[sample.domain] = _ddio_fixed(self.tenants[sample.domain])
            problem = message("ddio-no-effect", domain=sample.domain, verdict=verdict.message)
            self.journal.problem(Code.DDIO_NO_EFFECT, problem, sample.domain)

    def _write(self, inventory: DomainInventory, decision: Decision) -> Effective | None:
        """Write the layout to the hardware; return None while observing or after an error."""
        if self.interlock.reasons:
            return None
        try:
            effective = self.enforcer.apply(inventory, decision.layout)
        except DomainOffline:
            self.inventory.changed.set()  # offline since the last reading: read again
            return None
        except FAILURES as error:
            if self.interlock.excuses("cpus-moved-writing", domain=decision.domain):
                self.enforcer.forget(decision.domain)
                self.inventory.changed.set()
            else:
                self.interlock.refused(error)
            return None
        self.interlock.accepted()
        return effective

    def _end(self, in_order: bool) -> None:
        """Restore the original hardware settings or hand over; close counters and journal."""
        self.journal.ending()
        if self._failure is not None:
            self.journal.problem(Code.THREAD_DIED, self._failure)
        if not (in_order and self._hand_over()):
            self.interlock.restore()
        self.counters.close()
        self.journal.close()

    def _hand_over(self) -> bool:
        """Leave masks and states to the next agent, if requested and possible; return success."""
        succession = self._succession
        if succession is None or not self.enforcer.wrote:
            return False
        if not succession.files.asked:
            if why := succession.files.unreadable:
                self.journal.tell(message("not-handed-over", error=verbatim(why)))
            return False
        if self.interlock.reasons:
            return False
        try:
            succession.leave(self._states, self._fixed, self._domains, self.enforcer.memory)
        except HardwareError as error:
            self.journal.tell(message("not-handed-over", error=as_message(error)))
            return False
        self.journal.tell(message("handed-over"), EventKind.HANDED_OVER)
        self.journal.handed_over()
        return True

    def _adopt(self, left: HandedOver) -> None:
        """Continue with the masks and states that the previous agent left."""
        self.enforcer.adopt(left.enforcer)
        self._states = dict(left.states)
        self._fixed = set(left.fixed)
        age_s = self.clock.now() - left.at_s
        self.journal.tell(message("adopted", version=left.version, age_s=age_s))
        self.journal.adopted()

    def _take(self, parameters: Parameters) -> None:
        """Make the strategy, and another strategy per cache domain with its own parameters."""
        strategy = self.make_strategy(parameters)
        own = {number: self.make_strategy(one) for number, one in parameters.domains.items()}
        self.strategy, self._own = strategy, own

    def _use(self, policy: Policy) -> None:
        """Put a new policy into force. Raises `StrategyError`."""
        if self.shadow is not None:
            self.shadow.use(policy.parameters)
        self._take(policy.parameters)
        self._effects.clear()
        for domain in self._fixed:
            over = message("ddio-tried-again", domain=domain)
            self.journal.solved(Code.DDIO_NO_EFFECT, over, domain)
        self._fixed.clear()
        self.journal.settings(policy.parameters, policy.effective)


def _ddio_fixed(inventory: DomainInventory) -> DomainInventory:
    domain = dataclasses.replace(inventory.domain, ddio_resizable=False)
    return dataclasses.replace(inventory, domain=domain)
