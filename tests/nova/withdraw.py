# SPDX-License-Identifier: Apache-2.0
"""Withdrawing from Placement while a guest holds guaranteed ways, as the page says."""

import re

from tests import flavor_commands
from tests.nova.case import GuestCase
from tests.nova.cloud import until

PAGE = flavor_commands.ROOT / "doc/source/operator/openstack.rst"
PINNED = {"hw:cpu_policy": "dedicated"}
WAYS, TRAITS = "CUSTOM_IAT_LLC_WAY", {"CUSTOM_IAT", "CUSTOM_IAT_DDIO"}


def documented() -> str:
    """Return what the page has the operator type into the client: the traits, then the usage."""
    _, _, section = PAGE.read_text().partition("Withdrawing from Placement\n")
    section, _, _ = section.partition("\n===")  # the next one's
    blocks = re.findall(r"^   \$ .*(?:\n   .*)*", section, re.MULTILINE)
    return "\n".join(re.sub(r"^   (?:\$ )?", "", block, flags=re.MULTILINE) for block in blocks)


class WithdrawTests(GuestCase):
    """Mixed into the class that has the cloud."""

    @property
    def host(self) -> str:
        """The path of the host's resource provider."""
        (one,) = self.cloud.api.placement("/resource_providers")["resource_providers"]
        return f"/resource_providers/{one['uuid']}"

    def offered(self) -> dict[str, int] | None:
        """Return the host's inventory of ways, None: it has none."""
        inventories = self.cloud.api.placement(f"{self.host}/inventories")["inventories"]
        return inventories.get(WAYS)

    def traits(self) -> set[str]:
        return TRAITS & set(self.cloud.api.placement(f"{self.host}/traits")["traits"])

    def used(self) -> int:
        return self.cloud.api.placement(f"{self.host}/usages")["usages"].get(WAYS, 0)

    def withdraw(self) -> None:
        self.cloud.iat_nova("provider-config", "--withdraw", "-o", str(self.provider_config))
        self.cloud.restart_compute()

    def offer_again(self) -> None:
        self.cloud.iat_nova("provider-config", "-o", str(self.provider_config))
        self.cloud.restart_compute()
        until(lambda: (self.offered() or {}).get("reserved") == 0, "the ways are offered again")
        until(lambda: self.traits() == TRAITS, "the traits are set again")

    def test_offer_withdrawn(self) -> None:
        """Who has ways keeps them, nobody gets any; the file goes when nobody has any more."""
        asks = {"iat:llc_ways": "2", f"resources:{WAYS}": "2", "trait:CUSTOM_IAT": "required"}
        guest = self.boot(PINNED | {"iat:priority": "PC"} | asks)
        run = self.seen().guest(guest).run
        self.addCleanup(self.offer_again)

        self.withdraw()
        until(lambda: self.offered()["reserved"] == self.offered()["total"] == 3, "all reserved")
        self.assertEqual((2, TRAITS), (self.used(), self.traits()))  # Nova takes no trait back
        self.assert_unharmed(guest, run)
        one_way = {f"resources:{WAYS}": "1"}
        self.assertIn("No valid host was found", self.refused("a-way", one_way))
        self.delete(self.boot({}))

        said = self.cloud.openstack(documented().replace("HOST", self.hypervisor.getHostname()))
        self.assertEqual(set(), self.traits(), said.stderr)
        self.assertRegex(said.stdout, rf"{WAYS} +\| +2 ")

        # What the page warns of, and its cure.
        self.provider_config.unlink()
        self.cloud.restart_compute(reports=False)
        refusal = f"Inventory for '{WAYS}' on resource provider"
        until(lambda: refusal in self.cloud.log("nova-compute.log"), "nova-compute has given up")
        self.withdraw()
        self.delete(self.boot({}))
        self.assertEqual((2, set()), (self.used(), self.traits()))
        self.assert_unharmed(guest, run)

        self.delete(guest)
        self.assertEqual(0, self.used())
        self.provider_config.unlink()
        self.cloud.restart_compute()
        until(lambda: self.offered() is None, "nothing is offered")

    def assert_unharmed(self, guest: str, run: str) -> None:
        """The guest runs as before, in the ways that it was promised, or more."""
        picture = self.seen()
        self.assertEqual("ACTIVE", self.status(guest))
        self.assertEqual(run, picture.guest(guest).run)
        self.assertLessEqual(2, picture.mask_of(guest).count)
