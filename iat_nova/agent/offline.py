# SPDX-License-Identifier: Apache-2.0
"""CPUs that are offline: what the loop does about them, and which notices it logs.

Nova's ``[libvirt] cpu_power_management`` takes the CPUs of a guest offline with the guest.
"""

from __future__ import annotations

from collections.abc import Iterable

from iat_nova.agent.journal import Journal
from iat_nova.common.cpulist import format_cpus
from iat_nova.enforcement.enforcer import Enforcer
from iat_nova.hardware.cpu_watch import Cpus
from iat_nova.model import CacheDomain, Facts
from iat_nova.model.reasons import Code


class OfflineCpus:
    """Follows the CPUs of a host for the loop, from the loop's thread."""

    def __init__(self, cpus: Cpus, enforcer: Enforcer, journal: Journal) -> None:
        self._cpus = cpus
        self._enforcer = enforcer
        self._journal = journal
        self._guests: dict[str, str] = {}  # names of guests with CPUs offline, by uuid and run

    def moved(self, domains: Iterable[CacheDomain]) -> bool:
        """Whether CPUs came or went since the last call.

        The layout of a domain that was offline is forgotten, so that all of it is written anew.
        """
        if not self._cpus.begin():
            return False
        for domain in domains:
            if self._cpus.lost(domain.cpus):
                self._enforcer.forget(domain.id)
        return True

    def skips(self, domain: CacheDomain, facts: Facts) -> bool:
        """Whether a whole domain is offline: it is skipped until one of its CPUs is back."""
        gone = set(domain.cpus).isdisjoint(facts.host.online_cpus)
        text = f"cache domain {domain.id}: all CPUs offline; cache domain skipped"
        over = f"cache domain {domain.id}: CPUs are online again"
        self._journal.notice(Code.DOMAIN_OFFLINE, text if gone else None, over, domain.id)
        return gone

    def notice_unseen(self, facts: Facts) -> None:
        """Log how many cache domains have been offline since the agent started."""
        count = facts.host.unseen_domains
        text = f"cache domains whose CPUs have been offline since the start: {count}"
        over = "every cache domain has been online"
        self._journal.notice(Code.DOMAIN_OFFLINE, text if count else None, over, "unseen")

    def notice_guests(self, facts: Facts) -> None:
        """Log which guests run with CPUs offline."""
        offline = {f"{one.uuid}/{one.run}": one for one in facts.guests if one.offline_cpus}
        running = {f"{one.uuid}/{one.run}" for one in facts.guests}
        for key, guest in offline.items():
            many = len(guest.offline_cpus) > 1
            cpus = f"CPU{'s' if many else ''} {format_cpus(guest.offline_cpus)}"
            text = f"{cpus} of {guest.display_name} {'are' if many else 'is'} offline"
            self._journal.notice(Code.CPUS_OFFLINE, text, "", key)
        for key in self._guests.keys() - offline.keys():
            what = "all CPUs are online again" if key in running else "has ended"
            over = f"{self._guests[key]}: {what}"
            self._journal.notice(Code.CPUS_OFFLINE, None, over, key)
        self._guests = {key: guest.display_name for key, guest in offline.items()}
