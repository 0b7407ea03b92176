# SPDX-License-Identifier: Apache-2.0
"""Guests of a real Nova, and what the agent makes of them: what the tests share."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
import statistics
import time
import unittest
from collections.abc import Mapping
from typing import ClassVar

import libvirt

from iat_nova.model import Guest, Tenant, TenantKind, WayMask
from iat_nova.store.database import HistoryError
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Inventory
from tests.nova.api import PLAIN
from tests.nova.cloud import Cloud, CloudError, agent, until, why_not

RESULTS = pathlib.Path(__file__).parents[2] / "quickstart-run/nova-latency.txt"
WITHIN_S = 1.0
FIRST_ITERATION_S = 180.0  # a limit for a busy machine: an idle one needs seconds
_NUMBERS = itertools.count(1)  # the names of flavors are unique


@dataclasses.dataclass(frozen=True)
class Picture:
    """What the agent recorded last. `masks`: by tenant id, as read back from the machine."""

    inventory: Inventory
    masks: Mapping[str, WayMask]

    def guest(self, uuid: str) -> Guest | None:
        """Return what the inventory knows of a guest."""
        return next((one for one in self.inventory.facts.guests if one.uuid == uuid), None)

    def tenant(self, uuid: str) -> Tenant | None:
        """Return the tenant a guest with CPUs of its own is."""
        return next((one for one in self.tenants if one.uuid == uuid), None)

    def own(self, kind: TenantKind) -> Tenant | None:
        """Return the stack, the pool or the host."""
        return next((one for one in self.tenants if one.kind is kind), None)

    @property
    def tenants(self) -> tuple[Tenant, ...]:
        """All tenants of the emulated server's one cache domain."""
        return self.inventory.domains[0].tenants

    def mask_of(self, uuid: str) -> WayMask | None:
        """Return the ways in which a guest runs: its own, or the pool's; None: none yet."""
        tenant = self.tenant(uuid)
        guest = self.guest(uuid)
        if guest is None or (tenant is None and not guest.floating_cpus):
            return None
        tenant = tenant or self.own(TenantKind.POOL)
        if tenant is None or (
            tenant.kind is TenantKind.POOL and guest.display_name not in tenant.members
        ):
            return None
        return self.masks.get(tenant.id)


def recorded(state: pathlib.Path) -> Picture | None:
    """Return what the agent of a state directory recorded last, None before that."""
    with (
        contextlib.suppress(HistoryError),
        HistoryReader(state / "history.sqlite") as reader,
    ):
        latest = reader.latest(0)
        if latest is None:
            return None
        inventory = reader.inventory(latest.iteration.inventory_id)
        assert inventory is not None
        return Picture(inventory, latest.iteration.effective or {})
    return None


class GuestCase(unittest.TestCase):
    """One cloud for a class, with nova-compute and the agent; each test ends its guests."""

    cloud: ClassVar[Cloud]
    started_s: ClassVar[list[float]]  # from the guest's start to its ways enforced
    active_s: ClassVar[list[float]]  # from ACTIVE to its ways enforced; negative: before it
    released_s: ClassVar[list[float]]  # from the guest's end to its ways taken back

    @classmethod
    def setUpClass(cls) -> None:
        if (why := why_not()) is not None:
            raise unittest.SkipTest(why)
        cls.cloud = Cloud()
        cls.addClassCleanup(cls.cloud.close)
        cls.cloud.start()
        cls.addClassCleanup(cls._agent_ended_well)
        process = cls.enterClassContext(agent(cls.cloud.folder))
        until(
            lambda: cls.picture() or process.poll() is not None, "an iteration", FIRST_ITERATION_S
        )
        # As an operator does it: after the agent has run once, before nova-compute starts.
        cls.provider_config = cls.cloud.folder / "provider_config/iat-nova.yaml"
        cls.cloud.iat_nova("provider-config", "-o", str(cls.provider_config))
        cls.cloud.start_compute()
        cls.hypervisor = libvirt.open(cls.cloud.uri)
        cls.addClassCleanup(cls.hypervisor.close)
        cls.started_s, cls.active_s, cls.released_s = [], [], []
        cls.addClassCleanup(cls._write_results)

    @classmethod
    def _agent_ended_well(cls) -> None:
        log = cls.cloud.log("agent.log") + cls.cloud.log("iat-nova-agent.log")
        if "Traceback" in log or "agent stopped" not in log:
            raise CloudError(f"the agent did not end well:\n{log}")

    @classmethod
    def _write_results(cls) -> None:
        with contextlib.suppress(FileNotFoundError):  # no quickstart-run: nobody to tell
            RESULTS.write_text(
                f"from the guest's start to its ways: {distribution(cls.started_s)}\n"
                f"from ACTIVE to its ways (negative: before): {distribution(cls.active_s)}\n"
                f"from its end until they are taken back: {distribution(cls.released_s)}\n"
            )

    @classmethod
    def picture(cls) -> Picture | None:
        """Return what the agent recorded last, None before its first iteration."""
        return recorded(cls.cloud.state)

    def flavor(self, name: str, extra_specs: Mapping[str, str], vcpus: int = 1) -> str:
        """Make a flavor for this test; return its id."""
        made = self.cloud.api.make_flavor(f"{name}-{next(_NUMBERS)}", vcpus, extra_specs)
        self.addCleanup(self.cloud.api.nova, "DELETE", f"/flavors/{made}")
        return made

    def boot(
        self,
        extra_specs: Mapping[str, str],
        vcpus: int = 1,
        image: str = PLAIN,
        port: str | None = None,
    ) -> str:
        """Boot a guest, wait until it is ACTIVE and enforced; return its UUID."""
        name = self._testMethodName
        uuid = self.cloud.api.boot(name, self.flavor(name, extra_specs, vcpus), image, port)
        self.addCleanup(self.delete, uuid)
        self.watch_it_start(uuid)
        return uuid

    def watch_it_start(self, uuid: str) -> Picture:
        """Wait until a guest is ACTIVE and in its ways; both moments are noted.

        What comes first counts from when it had not yet come, the ways from when they could be read
        in the history: the truth is shorter.
        """
        building_s = absent_s = time.monotonic()
        enforced_s: float | None = None

        def started() -> bool:
            nonlocal building_s, absent_s, enforced_s
            asked_s = time.monotonic()
            if enforced_s is None and not self.runs(uuid):
                absent_s = asked_s
            if enforced_s is None and (picture := self.picture()) and picture.mask_of(uuid):
                enforced_s = time.monotonic()
            asked_s = time.monotonic()
            if (status := self.status(uuid)) != "ACTIVE":
                building_s = asked_s
            if status == "ERROR":
                self.fail(f"{self.fault(uuid)}\n{self.cloud.log('nova-compute.log')}")
            return status == "ACTIVE" and enforced_s is not None

        until(started, f"guest {uuid} ACTIVE and enforced")
        assert enforced_s is not None
        self.started_s.append(enforced_s - absent_s)
        self.active_s.append(enforced_s - building_s)
        return self.seen()

    def seen(self) -> Picture:
        """Return what the agent recorded last."""
        picture = self.picture()
        assert picture is not None
        return picture

    def delete(self, uuid: str) -> None:
        """Delete a guest and wait until Nova and the agent have forgotten it."""
        if self.cloud.api.server(uuid) is None:
            return
        self.cloud.api.nova("DELETE", f"/servers/{uuid}")
        self.watch_it_end(uuid)
        until(lambda: self.cloud.api.server(uuid) is None, f"guest {uuid} deleted")

    def watch_it_end(self, uuid: str) -> None:
        """Wait until a guest's process has gone, and its ways; the time between is noted."""
        running_s = time.monotonic()

        def gone() -> bool:
            nonlocal running_s
            asked_s = time.monotonic()
            if self.runs(uuid):
                running_s = asked_s
                return False
            picture = self.seen()
            return picture.guest(uuid) is None and not any(
                key.startswith(uuid) for key in picture.masks
            )

        until(gone, f"the ways of guest {uuid} taken back")
        self.released_s.append(time.monotonic() - running_s)

    def runs(self, uuid: str) -> bool:
        """Tell whether libvirt runs the guest."""
        running = self.hypervisor.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
        return any(domain.UUIDString() == uuid for domain in running)

    def status(self, uuid: str) -> str:
        """Return what Nova says of a guest."""
        return str((self.cloud.api.server(uuid) or {}).get("status"))

    def fault(self, uuid: str) -> str:
        """Return why Nova could not build a guest."""
        return str((self.cloud.api.server(uuid) or {}).get("fault", {}).get("message"))

    def refused(self, name: str, extra_specs: Mapping[str, str]) -> str:
        """Ask for a guest for which there must be no host; return Nova's reason."""
        uuid = self.cloud.api.boot(name, self.flavor(name, extra_specs))
        self.addCleanup(self.delete_unbuilt, uuid)
        until(lambda: self.status(uuid) != "BUILD", f"guest {uuid} built or refused")
        self.assertEqual("ERROR", self.status(uuid))
        return self.fault(uuid)

    def delete_unbuilt(self, uuid: str) -> None:
        """Delete a guest that never ran."""
        self.cloud.api.nova("DELETE", f"/servers/{uuid}")
        until(lambda: self.cloud.api.server(uuid) is None, f"guest {uuid} deleted")


def distribution(values_s: list[float]) -> str:
    """Write least, median and most in words."""
    if not values_s:
        return "not measured"
    return (
        f"{len(values_s)} guests: {min(values_s):.2f} s at least, "
        f"{statistics.median(values_s):.2f} s in the median, {max(values_s):.2f} s at most"
    )
