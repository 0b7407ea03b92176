# SPDX-License-Identifier: Apache-2.0
"""Join the parts: from `Settings` to an `Agent` that can run."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import pathlib
from collections.abc import Callable

import iat_nova.policy.render  # noqa: F401 - without Jinja2 the agent does not start
from iat_nova import policy
from iat_nova.agent import policy_file, provider_config
from iat_nova.agent.hand_over import HandedOver
from iat_nova.agent.interlock import CONFIGURED
from iat_nova.agent.journal import Journal, Language
from iat_nova.agent.loop import Agent
from iat_nova.agent.ownership import Ownership
from iat_nova.agent.parts import FactsSource, Parts
from iat_nova.agent.policy_keeper import PolicyKeeper
from iat_nova.agent.shadow import ShadowPolicy, ShadowStrategy
from iat_nova.agent.watchdog import Watchdog
from iat_nova.conf import Settings
from iat_nova.hardware.enforcement.enforcer import Enforcer
from iat_nova.model import HostFacts, Parameters
from iat_nova.model.message import as_message, message
from iat_nova.model.reasons import Reason
from iat_nova.store.heartbeat import Heartbeat
from iat_nova.store.observed import Observer
from iat_nova.store.records import Status
from iat_nova.store.requests import Holds, PauseFile
from iat_nova.store.writer import History
from iat_nova.strategies import registry as strategies
from iat_nova.strategies.api import Strategy


def enforcer(owned: Ownership) -> Enforcer:
    """Make the only writer of masks and DDIO's ways of a machine."""
    machine = owned.machine
    return Enforcer(machine.allocator, machine.ddio, owned.snapshot, machine.dca, machine.port_ways)


def agent(
    settings: Settings,
    owned: Ownership,
    source: FactsSource,
    host: Callable[[], HostFacts],
    language: Language,
    observer: Observer | None = None,
    heartbeat: Heartbeat | None = None,
    drift: Callable[[policy.Policy], tuple[Reason, ...]] = lambda running: (),
    left: HandedOver | None = None,
) -> Agent:
    """Join all parts; `observer` gets the values of metrics, `heartbeat` each iteration.

    `language` makes the text of log lines.
    `drift` returns differences between the files and the running agent, given the running policy.
    `left`: the adopted state of the last agent.

    Raises `PolicyError` and `StrategyError` for an invalid policy or strategy.
    """

    machine = owned.machine

    def read(path: pathlib.Path | None) -> policy.Policy:
        try:
            facts = host()
        except (OSError, ValueError) as error:
            said = message("host-facts-unreadable", error=as_message(error))
            raise policy.PolicyError.of(said, source="the policy's host") from error
        return policy_file.load(path, facts)

    def make_strategy(parameters: Parameters) -> Strategy:
        return strategies.make(settings.strategy, parameters)

    read_policy = functools.partial(read, settings.policy_file)
    make_shadow = functools.partial(strategies.make, settings.shadow or settings.strategy)
    first = read_policy()
    parameters = first.parameters
    for make in (make_strategy, make_shadow):
        make(parameters)  # before the history: a name that does not exist leaves no trace
    history = History(
        settings.history_path,
        whole_s=settings.history_whole_hours * 3600,
        max_age_s=settings.history_days * 86400,
        max_bytes=settings.history_mib << 20,
        clock=machine.clock,
        sentence=language.sentence,
    )
    observes = settings.mode == "observe"
    status = Status(
        mode=settings.mode,
        reasons=(CONFIGURED,) if observes else (),
        pid=os.getpid(),
        version=importlib.metadata.version("iat-nova"),
        strategy=settings.strategy,
        interval_s=parameters.interval_s,
        started_s=machine.clock.wall(),
        parameters=parameters,
        policy=first.effective,
        policy_source=first.source
        if settings.policy_file is None
        else os.path.abspath(first.source),
        phases=strategies.phases(settings.strategy),
        rules=strategies.rules(settings.strategy),
    )
    journal = Journal(
        history,
        status,
        machine.clock,
        language,
        observer,
        Watchdog(),
        heartbeat,
        settings.reconcile_s,
    )
    shadow_policy = shadow = None
    if settings.shadow_policy is not None:
        shadow_policy = ShadowPolicy(
            str(settings.shadow_policy),
            first,
            functools.partial(read, settings.shadow_policy),
            policy_file.again,
            journal,
            source.changed,
        )
    if settings.shadow is not None or shadow_policy is not None:
        name = settings.shadow or settings.strategy
        shadow = ShadowStrategy(name, make_shadow, parameters, machine.clock.wall(), shadow_policy)
    parts = Parts(
        inventory=source,
        policies=PolicyKeeper(first, read_policy, policy_file.again, journal, source.changed),
        make_strategy=make_strategy,
        counters=machine.counters,
        enforcer=enforcer(owned),
        journal=journal,
        clock=machine.clock,
        paused=PauseFile(settings.state_dir).current,
        holds=Holds(settings.state_dir).current,
        placement=functools.partial(provider_config.compare, settings),
        drift=drift,
        observe=observes,
        outside=owned.outside(),
        shadow=shadow,
        monitor=machine.monitor,
        succession=owned.succession,
        left=left,
    )
    return Agent(parts)
