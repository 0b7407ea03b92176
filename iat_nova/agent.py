# SPDX-License-Identifier: Apache-2.0
"""The loop: Figure 5 of the paper on one page.

    Get Tenant Info -> LLC Alloc -> [ Poll Prof Data -> stable? -> State Transition
                                      -> LLC Re-alloc ] -> Sleep -> ...

One thread owns all of it. Others (libvirt's events, OVSDB's, signals) only set an event. What
may fail (a source, a counter, a policy) leaves the last good state standing, is shown, and the
loop goes on; a refused write puts the host back as it was found, and the loop only observes.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from iat_nova.clock import Clock
from iat_nova.control.layout import LayoutError
from iat_nova.effect import DdioEffect
from iat_nova.enforce import Effective, Enforcer
from iat_nova.hardware.api import Counters, DomainOffline, HardwareError
from iat_nova.journal import Journal
from iat_nova.model import CacheDomain, Decision, DomainInventory, Facts, Parameters, Sample
from iat_nova.pause import Pause
from iat_nova.policy import Policy, PolicyError
from iat_nova.restraint import Restraint
from iat_nova.sampling import Sampler
from iat_nova.strategies import Strategy

FIRST_SAMPLE_S = 0.1  # the first layout waits no longer than this for its rates
LEAST_SAMPLE_S = 0.05  # rates over less than this are noise, however often we are woken


class TenantSource(Protocol):
    """What the loop needs of an inventory: `changed` is set whenever `facts` are worth a look."""

    changed: threading.Event

    def facts(self) -> Facts:
        """Return a full picture of the host; never raises."""


class Agent:
    """Joins the parts and holds the controller's state of every cache domain.

    `read_policy` reads the policy anew and raises `PolicyError`; `make_strategy` makes the
    strategy for its parameters; `paused` tells whether an operator holds the present masks.
    `observe` forbids every write from the start; `other_owners` names who else allocates cache,
    `foreign_changes` what another hand did to what is ours.
    `tenants` is the last picture by cache domain.
    """

    def __init__(
        self,
        *,
        inventory: TenantSource,
        read_policy: Callable[[], Policy],
        make_strategy: Callable[[Parameters], Strategy],
        counters: Counters,
        enforcer: Enforcer,
        journal: Journal,
        clock: Clock,
        paused: Callable[[], Pause | None],
        observe: bool = False,
        other_owners: Callable[[], tuple[str, ...]] = tuple,
        foreign_changes: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self.inventory = inventory
        self.read_policy = read_policy
        self.make_strategy = make_strategy
        self.counters = counters
        self.enforcer = enforcer
        self.journal = journal
        self.clock = clock
        self.paused = paused
        self.restraint = Restraint(
            enforcer, journal, clock, observe=observe, owners=other_owners, changes=foreign_changes
        )
        self._reload = threading.Event()
        self._stop = threading.Event()
        self._sampler = Sampler()
        self.tenants: dict[int, DomainInventory] = {}
        self._states: dict[int, Any] = {}
        self._io: dict[str, bool] = {}
        self._effects: dict[int, DdioEffect] = {}
        self._fixed: set[int] = set()  # domains whose knob of DDIO was found without effect
        self._polled_s = -math.inf
        self.policy = read_policy()
        self.strategy = make_strategy(self.policy.parameters)

    def run(self, until_s: float = math.inf) -> None:
        """Run until `stop` or the clock's `until_s`, then leave the hardware as it was found."""
        try:
            self.get_tenant_info()
            self.poll()
            pause_s = FIRST_SAMPLE_S
            while not self._stop.is_set() and self.clock.now() < until_s:
                self.clock.wait(self.inventory.changed, pause_s)
                if self._stop.is_set():
                    break
                if self.inventory.changed.is_set():
                    self.get_tenant_info()
                pause_s = FIRST_SAMPLE_S
                if self.clock.now() - self._polled_s >= LEAST_SAMPLE_S:
                    self.iterate()
                    pause_s = self.policy.parameters.interval_s
        finally:
            self._end()

    def stop(self) -> None:
        """End the loop after the iteration under way; callable from any thread."""
        self._stop.set()
        self.inventory.changed.set()

    def reload_policy(self) -> None:
        """Have the policy read again before the next iteration; callable from any thread."""
        self._reload.set()
        self.inventory.changed.set()

    def iterate(self) -> None:
        """Poll, decide, write, record: one iteration over all cache domains."""
        started = time.perf_counter()
        samples = self.poll()
        read_s = time.perf_counter() - started
        pause = self.paused()
        if pause is None:
            for domain, sample in samples.items():
                self._decide(self.tenants[domain], sample, read_s)
        self.journal.status(self.restraint.reasons, pause)

    def get_tenant_info(self) -> None:
        """Read the whole picture anew, classify it and watch its processors."""
        self.inventory.changed.clear()  # before reading: a hint during it is not lost
        if self._reload.is_set():
            self._reload.clear()
            self._read_policy_again()
        facts = self.inventory.facts()
        classified = self.policy.classify(facts, self._io)
        self._io = dict(classified.io)
        for domain, seen in classified.domains.items():
            if self._offline(seen.domain, facts):
                self.tenants.pop(domain, None)
                continue
            inventory = _ddio_fixed(seen) if domain in self._fixed else seen
            if self.tenants.get(domain) != inventory:
                self.tenants[domain] = inventory
            if domain not in self._states:
                self._states[domain] = self.strategy.initial(inventory, self.clock.now())
        self.restraint.look(facts)
        self._watch()
        warnings = tuple(dict.fromkeys((*map(str, self.policy.warnings), *classified.warnings)))
        self.journal.inventory(self.clock.wall(), facts, self.tenants, warnings)

    def _offline(self, domain: CacheDomain, facts: Facts) -> bool:
        """Whether a whole domain is off-line: it is left alone until it is back."""
        gone = set(domain.cpus).isdisjoint(facts.host.online_cpus)
        if gone:
            text = f"cache domain {domain.id}: its processors are all off-line; it is left alone"
            self.journal.problem(self.clock.wall(), f"domain {domain.id}", text)
        else:
            text = f"cache domain {domain.id}: processors are on-line again"
            self.journal.solved(self.clock.wall(), f"domain {domain.id}", text)
        return gone

    def _watch(self) -> None:
        """Count on the processors of all tenants; what cannot be counted stays without rates."""
        tenants = (one for known in self.tenants.values() for one in known.tenants)
        try:
            self.counters.watch({cpu for tenant in tenants for cpu in tenant.cpus})
        except HardwareError as error:
            self.journal.problem(self.clock.wall(), "watch", f"not all is counted: {error}")
        else:
            self.journal.solved(self.clock.wall(), "watch", "all is counted again")

    def poll(self) -> dict[int, Sample]:
        """Read the counters; empty when they cannot be read or at the first reading."""
        self._polled_s = self.clock.now()
        try:
            samples = self._sampler.update(self.counters.read(), self.tenants)
        except HardwareError as error:
            self.journal.problem(self.clock.wall(), "counters", str(error))
            return {}
        self.journal.solved(self.clock.wall(), "counters", "the counters can be read again")
        return samples

    def _decide(self, inventory: DomainInventory, sample: Sample, read_s: float) -> None:
        """One step of one domain's controller, written and recorded."""
        domain = inventory.domain.id
        before = self._states[domain]
        started = time.perf_counter()
        try:
            self._states[domain], decision = self.strategy.step(before, inventory, sample)
        except LayoutError as error:
            text = f"cache domain {domain}: {error}; its last masks stay"
            self.journal.problem(self.clock.wall(), f"layout {domain}", text)
            return
        self.journal.solved(
            self.clock.wall(), f"layout {domain}", f"cache domain {domain}: laid out"
        )
        decided = time.perf_counter()
        effective = self._write(inventory, decision)
        written = time.perf_counter()
        timings_us = {
            "read": read_s * 1e6,
            "decide": (decided - started) * 1e6,
            "write": (written - decided) * 1e6,
        }
        wall_s = self.clock.wall()
        self.journal.iteration(wall_s, before, sample, decision, effective, timings_us)
        self._verify_ddio(sample, effective)

    def _verify_ddio(self, sample: Sample, effective: Effective | None) -> None:
        """Have the strategy know when DDIO does not follow its knob."""
        low = self.policy.parameters.threshold_miss_low_per_s
        effect = self._effects.setdefault(sample.domain, DdioEffect(low))
        verdict = effect.look(sample, effective.ddio if effective else None)
        if verdict is not None:
            self._fixed.add(sample.domain)
            self.tenants[sample.domain] = _ddio_fixed(self.tenants[sample.domain])
            text = f"cache domain {sample.domain}: {verdict}"
            self.journal.problem(self.clock.wall(), f"ddio {sample.domain}", text)

    def _write(self, inventory: DomainInventory, decision: Decision) -> Effective | None:
        """Put the layout on the hardware; None while only observing."""
        if self.restraint.reasons:
            return None
        try:
            return self.enforcer.apply(inventory, decision.layout)
        except DomainOffline:
            self.inventory.changed.set()  # it went since we looked: look again
            return None
        except HardwareError as error:
            self.restraint.refused(error)
            return None

    def _end(self) -> None:
        """Leave the hardware as it was found and close what is open."""
        self.journal.ending()
        self.restraint.restore()
        self.counters.close()
        self.journal.close(self.clock.wall())

    def _read_policy_again(self) -> None:
        """Take the policy as it is on disk now; the old one stays when that is broken."""
        wall_s = self.clock.wall()
        try:
            self.policy = self.read_policy()
        except PolicyError as error:
            self.journal.problem(
                wall_s, "policy", f"the policy was not reloaded, the old one stays: {error}"
            )
            return
        self.strategy = self.make_strategy(self.policy.parameters)
        self._effects.clear()
        for domain in self._fixed:
            self.journal.solved(wall_s, f"ddio {domain}", f"cache domain {domain}: DDIO is tried")
        self._fixed.clear()
        self.journal.settings(self.policy.parameters)
        self.journal.solved(wall_s, "policy", "the policy is sound again")
        self.journal.tell(wall_s, "policy reloaded")


def _ddio_fixed(inventory: DomainInventory) -> DomainInventory:
    """Return the inventory of a domain in which DDIO cannot be resized."""
    domain = dataclasses.replace(inventory.domain, ddio_resizable=False)
    return dataclasses.replace(inventory, domain=domain)
