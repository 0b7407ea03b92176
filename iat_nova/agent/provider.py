# SPDX-License-Identifier: Apache-2.0
"""The host's possible offer to Placement, and the comparison with provider.yaml."""

from __future__ import annotations

import dataclasses
import pathlib

from iat_nova.agent import provider_config
from iat_nova.agent.provider_config import Offer, ProviderConfigError
from iat_nova.conf import Settings
from iat_nova.model import Facts, Message, message
from iat_nova.model.message import as_message
from iat_nova.policy import Policy, guarantee
from iat_nova.store.records import Placement


def offer(settings: Settings, policy: Policy, facts: Facts) -> Offer:
    """Return the host's offer under a policy; in mode observe, nothing for new guests."""
    guarantees = guarantee.of_host(
        facts,
        policy.rules,
        policy.parameters,
        assume_stack=settings.ovsdb_connection is not None,
    )
    domains = facts.host.domains
    found = Offer(
        total=sum(known.left for known in guarantees),
        max_unit=max((known.left for known in guarantees), default=0),
        ddio=bool(domains) and all(domain.ddio_resizable for domain in domains),
        reasons=tuple(one.message for one in guarantees) or (message("offer-no-domain"),),
    )
    if settings.mode == "observe":
        reasons = (message("offer-observing"), *found.reasons)
        return dataclasses.replace(found, withdrawn=True, reasons=reasons)
    return found


class ProviderFiles:
    """The files of `[compute] provider_config_location`, compared with the possible offer."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def compare(self, policy: Policy, facts: Facts) -> tuple[Placement, Message | None]:
        """Return Nova's files and the host's possible offer, with a message on any difference.

        The message is None without a difference. A host without one of our files offers nothing;
        this is not a difference.
        """
        able = offer(self._settings, policy, facts)
        found = Placement(_ways(able), able.traits)
        try:
            paths = provider_config.files(self._settings.provider_config_location)
        except ProviderConfigError as error:
            return found, message("placement-unknown", error=as_message(error))
        try:
            for path in paths:
                said = provider_config.offered(path)
                if said is not None:
                    found = dataclasses.replace(
                        found, offered_ways=_ways(said), offered_traits=said.traits
                    )
                    if not _same(said, able):
                        return found, _difference(path, said, able)
        except ProviderConfigError as error:
            return found, message("placement-unreadable", error=as_message(error))
        return found, None


def _ways(offered: Offer) -> int:
    return 0 if offered.withdrawn else offered.total


def _same(said: Offer, able: Offer) -> bool:
    if said.withdrawn or able.withdrawn:
        return said.withdrawn and able.withdrawn
    return (said.total, said.max_unit, said.traits) == (able.total, able.max_unit, able.traits)


def _difference(path: pathlib.Path, said: Offer, able: Offer) -> Message:
    some = able.withdrawn or able.total
    return message(
        "placement-differs" if some else "placement-withdraw",
        path=str(path),
        offered=said.message,
        able=able.message if some else message("offer-nothing"),
        reasons=able.reasons,
    )
