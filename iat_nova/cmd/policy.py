# SPDX-License-Identifier: Apache-2.0
"""iat-nova policy check."""

from __future__ import annotations

import argparse
import os

from iat_nova.agent import policy_file
from iat_nova.cmd.base import EXIT_FAILURE, Failure, Lister
from iat_nova.model import CacheDomain, Facts, HostFacts
from iat_nova.policy import PolicyError
from iat_nova.report import escape
from iat_nova.store.database import HistoryError

COLUMNS = ("name", "class", "priority", "io", "domain", "ways", "reason", "warnings")

ASSUMED_WAYS = 11


class PolicyCheck(Lister):
    """Check a policy; list the classes it would give the tenants that are here now.

    Every error is shown with line and path. The host's facts are those the agent recorded last;
    without a record a host with one cache domain of 11 ways is assumed, and no tenants.
    """

    _epilog = """
examples:
  iat-nova policy check /etc/iat-nova/policy.yaml
  iat-nova policy check               the policy the configuration names, or the default one
"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the argument."""
        parser = super().get_parser(prog_name)
        parser.add_argument("file", nargs="?", metavar="FILE", help="the policy to check")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return a row a tenant. Raises `Failure` with all that is wrong."""
        facts = self._facts(parsed_args)
        path = parsed_args.file or self.settings(parsed_args).policy_path
        try:
            policy = policy_file.load(path, facts.host)
        except PolicyError as error:
            lines = [escape.plain(line) for line in str(error).splitlines()]
            raise Failure("the policy cannot be used\n" + "\n".join(lines), EXIT_FAILURE) from error
        for warning in policy.warnings:
            self.note(escape.plain(f"{policy.source}: {warning}"))
        classified = policy.classify(facts, {})
        self.note(f"{escape.plain(policy.source)} is valid")
        rows = [
            (
                tenant.name,
                tenant.class_name or None,
                str(tenant.priority),
                tenant.io,
                number,
                f"{tenant.ways.min}/{tenant.ways.initial}/{tenant.ways.max}",
                classified.reasons.get(tenant.id),
                list(tenant.warnings),
            )
            for number, inventory in sorted(classified.domains.items())
            for tenant in inventory.tenants
        ]
        return COLUMNS, [tuple(self.cell(parsed_args, value) for value in row) for row in rows]

    def _facts(self, parsed_args: argparse.Namespace) -> Facts:
        """Return what the agent saw last, or an assumed host."""
        try:
            with self.history(parsed_args) as reader:
                inventory = reader.latest_inventory()
        except HistoryError as error:
            self.note(f"{error}; a host with one cache domain of {ASSUMED_WAYS} ways is assumed")
            inventory = None
        if inventory is not None:
            return inventory.facts
        cpus = tuple(range(os.cpu_count() or 1))
        domain = CacheDomain(id=0, cpus=cpus, ways=ASSUMED_WAYS, classes=16)
        return Facts(HostFacts(os.uname().nodename, (domain,), cpus), (), None)
