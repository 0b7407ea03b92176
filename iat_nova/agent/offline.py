# SPDX-License-Identifier: Apache-2.0
"""CPUs that are offline: the loop's reactions, and the notices in the log.

Nova's ``[libvirt] cpu_power_management`` takes the CPUs of a guest offline with the guest.
"""

from __future__ import annotations

from collections.abc import Iterable

from iat_nova.agent.journal import Journal
from iat_nova.common.cpulist import format_cpus
from iat_nova.hardware.enforcement.enforcer import Enforcer
from iat_nova.hardware.kernel.cpu_watch import Cpus
from iat_nova.model import CacheDomain, Facts
from iat_nova.model.message import message
from iat_nova.model.reasons import Code


class OfflineCpus:
    """Detect and report offline CPUs and cache domains; called from the loop's thread alone."""

    def __init__(self, cpus: Cpus, enforcer: Enforcer, journal: Journal) -> None:
        self._cpus = cpus
        self._enforcer = enforcer
        self._journal = journal
        self._guests: dict[str, str] = {}  # names of guests with CPUs offline, by uuid and run

    def moved(self, domains: Iterable[CacheDomain]) -> bool:
        """Return whether CPUs went online or offline since the last call.

        The layout of a domain that may have been offline as a whole is forgotten, so that the whole
        layout is written again.
        """
        if not self._cpus.begin():
            return False
        for domain in domains:
            if self._cpus.lost(domain.cpus):
                self._enforcer.forget(domain.id)
        return True

    def skips(self, domain: CacheDomain, facts: Facts) -> bool:
        """Return whether a whole domain is offline and skipped until a CPU is back."""
        gone = set(domain.cpus).isdisjoint(facts.host.online_cpus)
        said = message("domain-offline", domain=domain.id) if gone else None
        over = message("domain-online", domain=domain.id)
        self._journal.notice(Code.DOMAIN_OFFLINE, said, over, domain.id)
        return gone

    def notice_unseen(self, facts: Facts) -> None:
        """Log the number of cache domains that have been offline since the agent's start."""
        count = facts.host.unseen_domains
        said = message("domains-unseen", count=count) if count else None
        self._journal.notice(Code.DOMAIN_OFFLINE, said, message("domains-seen"), "unseen")

    def notice_guests(self, facts: Facts) -> None:
        """Log the guests that run with CPUs offline."""
        offline = {f"{one.uuid}/{one.run}": one for one in facts.guests if one.offline_cpus}
        running = {f"{one.uuid}/{one.run}" for one in facts.guests}
        for key, guest in offline.items():
            code = "guest-cpus-offline" if len(guest.offline_cpus) > 1 else "guest-cpu-offline"
            cpus = format_cpus(guest.offline_cpus)
            said = message(code, guest=guest.display_name, cpus=cpus)
            over = message("guest-cpus-online", guest=guest.display_name)
            self._journal.notice(Code.CPUS_OFFLINE, said, over, key)
        for key in self._guests.keys() - offline.keys():
            code = "guest-cpus-online" if key in running else "guest-ended"
            over = message(code, guest=self._guests[key])
            self._journal.notice(Code.CPUS_OFFLINE, None, over, key)
        self._guests = {key: guest.display_name for key, guest in offline.items()}
