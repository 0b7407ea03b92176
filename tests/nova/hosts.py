# SPDX-License-Identifier: Apache-2.0
"""Guests that change hosts, a host that is lost, and a host whose CPUs Nova powers down.

One test, because the start of the second host takes longer than any part of the test.
"""

from __future__ import annotations

from tests.nova.case import GuestCase, Picture
from tests.nova.cloud import until
from tests.nova.second import NAME, SecondHost

WAYS = "CUSTOM_IAT_LLC_WAY"
PROMISED = {"hw:cpu_policy": "dedicated", "iat:priority": "PC", f"resources:{WAYS}": "2"}
HERE, THERE = "compute1", NAME


class HostTests(GuestCase):
    """Mixed into the class that has the cloud."""

    def test_two_hosts(self) -> None:
        """Where a guest runs, there are its ways; on the other host nothing of the guest is."""
        # nova-compute counts an evacuated guest's CPU as used after the guest's end, until its next
        # look at its resources, which it takes once a minute and when it starts.
        self.addCleanup(self.cloud.restart_compute)
        self.second = SecondHost(self.cloud)
        self.addCleanup(self.second.leave)
        self.second.start()
        uuid = self.boot_on(HERE)
        self.migrate(uuid)
        self.evacuate(uuid)
        self.end(uuid)
        self.power()
        said = self.second.log("iat-nova-agent.log") + self.second.log("agent.log")
        self.assertNotRegex(said, "ERROR|Traceback")

    # ----------------------------------------------------------------- two hosts

    def boot_on(self, host: str) -> str:
        """Boot a guest on a host and wait until it is in its ways there alone."""
        name = self._testMethodName
        flavor = self.flavor(name, PROMISED)
        uuid = self.cloud.api.boot(name, flavor, host=host)
        self.addCleanup(self.end, uuid)
        self.settles(uuid, host)
        return uuid

    def settles(
        self, uuid: str, host: str, status: str = "ACTIVE", files: tuple[str, ...] = ()
    ) -> None:
        """Wait until the guest has its ways on a host, and nothing of it is on the other one.

        `files`: further hosts where the driver's file of the guest is.
        """

        def settled() -> bool:
            if (now := self.status(uuid)) == "ERROR":
                self.fail(f"{self.fault(uuid)}\n{self.second.log('nova-compute.log')[-8000:]}")
            pictures = {HERE: self.seen(), THERE: self.second.picture()}
            picture = pictures.pop(host)
            (other,) = pictures.values()
            assert picture is not None and other is not None
            return now == status and held(picture, uuid) and not traces(other, uuid)

        until(settled, f"guest {uuid} {status} in its ways on {host} alone")
        used = {HERE: 0, THERE: 0, host: 2}
        if status == "VERIFY_RESIZE":  # Nova keeps the way back free
            used = {HERE: 2, THERE: 2}
        until(lambda: used == self.ways_used(), f"Placement counts {used}")
        files_of = {host, *files}
        until(lambda: files_of == self.spooled(uuid), f"the driver's files on {files_of}")

    def end(self, uuid: str) -> None:
        """Delete a guest, and wait until neither agent has anything of it."""
        if self.cloud.api.server(uuid) is None:
            return
        self.cloud.api.nova("DELETE", f"/servers/{uuid}")
        until(lambda: self.cloud.api.server(uuid) is None, f"guest {uuid} deleted")
        for picture in (self.seen, self.second.picture):
            until(lambda picture=picture: not traces(picture(), uuid), f"nothing left of {uuid}")

    def ways_used(self) -> dict[str, int]:
        """Return how many ways Placement has given out, by host."""
        found = self.cloud.api.placement("/resource_providers")["resource_providers"]
        used = {}
        for one in found:
            usages = self.cloud.api.placement(f"/resource_providers/{one['uuid']}/usages")
            used[one["name"]] = usages["usages"].get(WAYS, 0)
        return used

    def spooled(self, uuid: str) -> set[str]:
        """Return the hosts where the driver's file of a guest is."""
        states = {HERE: self.cloud.state, THERE: self.second.state}
        return {host for host, state in states.items() if (state / f"spool/{uuid}.json").exists()}

    def migrate(self, uuid: str) -> None:
        """Cold migration: there, back again, and there for good."""
        for verdict, host in (("revertResize", HERE), ("confirmResize", THERE)):
            self.cloud.api.action(uuid, "migrate", {"host": THERE})
            self.settles(uuid, THERE, "VERIFY_RESIZE")
            self.cloud.api.action(uuid, verdict)
            self.settles(uuid, host)

    def evacuate(self, uuid: str) -> None:
        """A host without power: its guest comes here, and is not there when the power is back."""
        self.second.cut()
        self.second.force_down(True)
        self.cloud.api.action(uuid, "evacuate", {"host": HERE})
        until(lambda: held(self.seen(), uuid), "the guest in its ways here")
        self.second.force_down(False)
        self.second.start()
        # Nova tells the old host's driver nothing: the folder's bound takes that file.
        self.settles(uuid, HERE, files=(THERE,))

    # ---------------------------------------------------------- the power of CPUs

    def power(self) -> None:
        """Nova has the dedicated CPU online while a guest runs on it; the agent follows.

        What Nova does in which order is what the lab does to CPUs under a real kernel.
        """
        self.second.manage_power("cpu_state")
        # Up first, so that libvirt learns the CPUs' sockets.
        self.assert_powered(["up", "down"], online=False)
        uuid = self.boot_on(THERE)
        self.assert_powered(["up"])
        self.cloud.api.action(uuid, "reboot", {"type": "HARD"})
        until(lambda: self.status(uuid) == "ACTIVE", "the guest is rebooted")
        self.settles(uuid, THERE)
        self.assert_powered(["down", "up"])
        self.cloud.api.action(uuid, "os-stop")
        until(lambda: self.status(uuid) == "SHUTOFF", "the guest is stopped")
        until(lambda: not traces(self.second.picture(), uuid), "its ways taken back")
        self.assert_powered(["down"], online=False)
        self.cloud.api.action(uuid, "os-start")
        self.settles(uuid, THERE)
        self.assert_powered(["down", "up"])

        # A restart takes the CPU away from the guest that runs on it, and no event says so.
        self.second.manage_power("cpu_state")
        self.assert_powered(["up", "down"], online=False)
        self.settles(uuid, THERE)

        self.second.switch_on()  # else Nova refuses the other strategy
        self.second.manage_power("governor")
        self.assertEqual("powersave", self.second.governor())
        self.cloud.api.action(uuid, "reboot", {"type": "HARD"})
        until(lambda: self.second.governor() == "performance", "the CPU at its highest")
        until(lambda: self.status(uuid) == "ACTIVE", "the guest is rebooted")
        self.settles(uuid, THERE)
        self.end(uuid)
        self.assertEqual("powersave", self.second.governor())

    def assert_powered(self, steps: list[str], *, online: bool = True) -> None:
        """Nova has done these steps since the last look, and no others."""
        self.assertEqual((steps, online), (self.second.powered(), self.second.online()))


def held(picture: Picture, uuid: str) -> bool:
    """Tell whether the guest is a performance-critical tenant in the ways it was promised."""
    tenant, mask = picture.tenant(uuid), picture.mask_of(uuid)
    return tenant is not None and tenant.priority.name == "PC" and bool(mask) and mask.count >= 2


def traces(picture: Picture | None, uuid: str) -> bool:
    """Tell whether anything of a guest is left with an agent."""
    assert picture is not None
    return picture.guest(uuid) is not None or any(key.startswith(uuid) for key in picture.masks)
