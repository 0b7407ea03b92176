# SPDX-License-Identifier: Apache-2.0
"""Print the modules that a quiet iteration passes, and a guest's event to a tenant and after.

A real agent runs on the emulated server in virtual time, with libvirt's test driver in this process
and a private ovsdb-server: the host of the quick start. A module is passed if one of its functions
runs. The emulated server itself is left out; on a host, modules of `hardware` are in its place.
The history's thread is counted apart: the loop does not wait for that thread.

    python -m tools.passage
"""

from __future__ import annotations

import contextlib
import pathlib
import shlex
import sys
import tempfile
import threading
import types
from collections.abc import Iterator, Mapping
from typing import Any

import libvirt

import iat_nova
from iat_nova import conf
from iat_nova.agent import sources, wiring
from iat_nova.agent.loop import Agent
from iat_nova.agent.ownership import ownership
from iat_nova.model import Decision, DomainInventory
from iat_nova.report.log import LogLanguage
from tests.functional.daemons import short_folder
from tests.functional.ovs_daemons import OvsDaemons
from tools import demo_host

URI = "test:///default"
ITERATIONS = 25  # of virtual seconds; the burst of the scenario comes at 12 s
EVENT_S = 10.0  # for libvirt's event to arrive
LAST = 4  # the guest that arrives last
_ROOT = str(pathlib.Path(iat_nova.__file__).parent) + "/"


class Passage:
    """The modules in which a function ran, by thread, while recording."""

    def __init__(self) -> None:
        self.threads: dict[str, set[str]] = {}
        self._on = False

    def _note(self, frame: types.FrameType, event: str, _: Any) -> None:
        if self._on and event == "call":
            name = frame.f_code.co_filename
            if name.startswith(_ROOT) and not name.startswith(f"{_ROOT}experiments/"):
                passed = self.threads.setdefault(threading.current_thread().name, set())
                passed.add(name.removeprefix(_ROOT).removesuffix(".py"))

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Record what runs in this context, in every thread."""
        self.threads, self._on = {}, True
        sys.setprofile(self._note)
        try:
            with self.followed():
                yield
        finally:
            sys.setprofile(None)
            self._on = False

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Have threads that start in this context noted as long as they live."""
        threading.setprofile(self._note)
        try:
            yield
        finally:
            threading.setprofile(None)  # type: ignore[arg-type]

    def modules(self) -> set[str]:
        """Return the recorded modules of all threads but the history's."""
        return set().union(*(one for name, one in self.threads.items() if name != "history"))


def _settings(folder: pathlib.Path, ovs: OvsDaemons) -> conf.Settings:
    demo_host.write_sysfs(folder / "sys")
    path = folder / "nova.conf"
    path.write_text(
        f"""[compute]
cpu_dedicated_set = {demo_host.DEDICATED}
cpu_shared_set = {demo_host.SHARED}
[iat]
mode = enforce
hardware = emulated
emulated_scenario = quickstart
emulated_seconds = 600
emulated_pace = 0
libvirt_uri = {URI}
ovsdb_connection = {ovs.address}
ovs_rundir = {ovs.folder}
sysfs_root = {folder / "sys"}
state_dir = {folder}
"""
    )
    return conf.load([str(path)])


@contextlib.contextmanager
def _agent(passage: Passage) -> Iterator[tuple[Agent, libvirt.virConnect]]:
    """Yield an agent whose sources have answered, and the host of its guests."""
    with contextlib.ExitStack() as stack:
        ovs = OvsDaemons(stack.enter_context(short_folder()))
        stack.callback(ovs.stop)
        ovs.start_ovsdb()
        ovs.vsctl("--no-wait", "init")
        for command in demo_host.switch_commands():
            ovs.vsctl("--no-wait", *shlex.split(command))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="iat-nova-passage-"))
        settings = _settings(pathlib.Path(folder), ovs)
        machine = sources.machine(settings)
        owned = ownership(settings, machine)
        stack.enter_context(owned.held())
        host = sources.host_reader(settings, machine, owned.finish)
        source = sources.inventory(settings, host, machine.clock)
        with passage.followed():
            agent = wiring.agent(settings, owned, source, host, LogLanguage())
            source.start()
        stack.enter_context(contextlib.closing(source))
        stack.callback(agent.journal.close)
        hypervisor = stack.enter_context(contextlib.closing(libvirt.open(URI)))
        hypervisor.lookupByName("test").destroy()
        for guest in demo_host.GUESTS:
            if guest.number != LAST:
                hypervisor.createXML(demo_host.domain_xml(guest))
        while not (facts := source.facts()).guests or facts.waiting_for:
            source.changed.wait(EVENT_S)
        yield agent, hypervisor


def _quiet(agent: Agent, passage: Passage) -> list[set[str]]:
    """Return the modules of each iteration that was stable and wrote nothing."""
    decisions: list[Decision] = []
    record = agent.journal.iteration

    def noted(*values: Any) -> None:
        decisions.append(values[2])
        record(*values)

    found = []
    for _ in range(ITERATIONS):
        agent.clock.wait(threading.Event(), agent.policy.parameters.interval_s)
        writes = agent.enforcer.writes
        agent.journal.iteration = noted  # type: ignore[method-assign]
        with passage.recorded():
            agent.iterate()
        if agent.enforcer.writes == writes and decisions and decisions[-1].stable:
            found.append(passage.modules())
    return found


def _event(
    agent: Agent, hypervisor: libvirt.virConnect, passage: Passage
) -> tuple[set[str], set[str]]:
    """Return the modules from libvirt's event on a new guest to its tenant, and all with the rest.

    The rest of the inventory's iteration checks the host, and records and reports the tenant.
    """
    guest = next(one for one in demo_host.GUESTS if one.number == LAST)
    agent.inventory.changed.clear()
    before: list[set[str]] = []
    apply = agent.holding.apply

    def noted(domains: Mapping[int, DomainInventory]) -> dict[int, DomainInventory]:
        tenants = apply(domains)
        before.append(passage.modules())
        return tenants

    agent.holding.apply = noted  # type: ignore[method-assign]
    with passage.recorded():
        hypervisor.createXML(demo_host.domain_xml(guest))
        while agent.inventory.changed.wait(EVENT_S):
            agent.get_tenant_info()
            if any(t.name == guest.name for one in agent.tenants.values() for t in one.tenants):
                agent.holding.apply = apply  # type: ignore[method-assign]
                return before[-1], passage.modules()
    raise SystemExit("the guest did not become a tenant")


def main() -> None:
    """Print both lists, and how many modules each has."""
    passage = Passage()
    with _agent(passage) as (agent, hypervisor):
        agent.get_tenant_info()
        agent.poll()
        tenant, event = _event(agent, hypervisor, passage)
        quiet = _quiet(agent, passage)
    if not quiet:
        raise SystemExit("no iteration was quiet")
    for title, modules in (
        ("quiet iteration", min(quiet, key=len)),
        ("guest's event, to its tenant", tenant),
        ("guest's event, checks and reports after that", event - tenant),
    ):
        print(f"{title}: {len(modules)} modules")
        for name in sorted(modules):
            print(f"  {name}")


if __name__ == "__main__":
    main()
