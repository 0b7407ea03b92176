# SPDX-License-Identifier: Apache-2.0
"""iat-nova provider-config."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import time

from iat_nova.agent import provider_config
from iat_nova.agent.provider_config import Offer
from iat_nova.cmd.base import Command, Failure
from iat_nova.common.kernel_files import exists
from iat_nova.conf import Settings
from iat_nova.hardware.api import HardwareError
from iat_nova.model import Facts, message
from iat_nova.policy import PolicyError
from iat_nova.report import escape, sentences, times
from iat_nova.store.database import HistoryError
from iat_nova.store.records import Inventory

WITHDRAWN = message("offer-withdrawn")
REMOVAL = (
    "Remove it only when no guest has ways of this host any more: "
    "openstack resource provider usage show UUID"
)

MOST_AGE_S = 86400.0
"""Maximum age of a host's record; an older host may have changed, and is read again."""


class ProviderConfig(Command):
    """Write the provider.yaml that describes this host's LLC ways to Placement.

    The file has the trait CUSTOM_IAT, and CUSTOM_IAT_DDIO where DDIO's ways can be sized. Ways that
    can be guaranteed to guests are listed as CUSTOM_IAT_LLC_WAY. Guaranteed ways are the ways left
    by DDIO at its maximum, Open vSwitch and the pool. All cache domains count, also domains whose
    CPUs are offline. The command uses the agent's record of the host if at most a day old, and
    otherwise reads the host. nova-compute reads the file at its start only.

    With mode = observe, and with --withdraw, the file has no traits and all ways are reserved:
    guests with ways keep them, no other guest gets any. Do not remove a file while a guest has ways
    of the offer: nova-compute would not start.
    """

    _epilog = """
examples:
  iat-nova provider-config                                              show it
  iat-nova provider-config -o /etc/nova/provider_config/iat-nova.yaml   write it
  iat-nova provider-config --withdraw -o /etc/nova/provider_config/iat-nova.yaml
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "-o", "--output", metavar="FILE", help="the file to replace; default: standard output"
        )
        parser.add_argument(
            "--node",
            metavar="UUID|NAME",
            default=provider_config.COMPUTE_NODE,
            help="the compute node it describes; default: all of the nova-compute that reads it",
        )
        parser.add_argument(
            "--withdraw",
            action="store_true",
            help="offer nothing any more; guests that have ways keep them",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Render and print or write the file. Raises `Failure` with the reason."""
        settings = self.settings(parsed_args)
        try:
            made = self._offer(parsed_args, settings)
            reasons = list(map(sentences.text, made.reasons))
            text = provider_config.render(made, parsed_args.node, reasons)
            if parsed_args.output is None:
                self.app.stdout.write(text)
                return
            provider_config.write(parsed_args.output, text)
        except provider_config.ProviderConfigError as error:
            unchanged = ""
            if parsed_args.output and exists(parsed_args.output):
                unchanged = f"; {parsed_args.output} stays as it was"
            raise Failure(escape.lines(f"{sentences.text(error.message)}{unchanged}")) from error
        except (PolicyError, HardwareError) as error:
            what = "the policy cannot be used: " if isinstance(error, PolicyError) else ""
            raise Failure(escape.lines(f"{what}{sentences.text(error.message)}")) from error
        self.note(escape.plain(f"{parsed_args.output} is written; restart nova-compute to use it"))
        if made.withdrawn:
            self.note(f"it offers nothing: {reasons[0]}. {REMOVAL}")

    def _offer(self, parsed_args: argparse.Namespace, settings: Settings) -> Offer:
        """Return the offer to write; a withdrawn offer comes from the present file if possible."""
        if not parsed_args.withdraw:
            return self._offer_of_host(parsed_args, settings)
        with contextlib.suppress(provider_config.ProviderConfigError):
            if parsed_args.output and (before := provider_config.offered(parsed_args.output)):
                return dataclasses.replace(before, withdrawn=True, reasons=(WITHDRAWN,))
        found = self._offer_of_host(parsed_args, settings)
        return dataclasses.replace(found, withdrawn=True, reasons=(WITHDRAWN, *found.reasons))

    def _offer_of_host(self, parsed_args: argparse.Namespace, settings: Settings) -> Offer:
        from iat_nova.agent import policy_file  # noqa: PLC0415 - slow to load

        facts = self._facts(parsed_args, settings)
        policy = policy_file.load(settings.policy_file, facts.host)
        return provider_config.offer(settings, policy, facts)

    def _facts(self, parsed_args: argparse.Namespace, settings: Settings) -> Facts:
        """Return the recorded host, else the present host without guests and switch."""
        recorded, age_s = self._recorded(parsed_args)
        if recorded is not None and age_s <= MOST_AGE_S:
            return recorded.facts
        if recorded is not None:
            self.note(
                f"what the agent recorded of this host is {times.duration(age_s)} old and is not "
                "used. The host is asked itself, which does not show on which cores Open vSwitch "
                "polls: start iat-nova-agent and do this again to have them counted exactly"
            )
        from iat_nova.agent import sources  # noqa: PLC0415 - slow to load

        read = sources.host_reader(settings, sources.machine(settings))
        return Facts(read(), (), None)

    def _recorded(self, parsed_args: argparse.Namespace) -> tuple[Inventory | None, float]:
        """Return the agent's last record of the host, and its age in seconds.

        Only changes of the inventory are recorded: the age is the time since the agent's last
        report.
        """
        try:
            with self.history(parsed_args) as reader:
                recorded, now = reader.latest_inventory(), reader.status()
        except HistoryError:
            return None, 0.0
        if recorded is None:
            return None, 0.0
        return recorded, now.age_s if now else time.time() - recorded.wall_s
