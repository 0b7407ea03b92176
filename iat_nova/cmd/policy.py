# SPDX-License-Identifier: Apache-2.0
"""iat-nova policy ...: check, show and compare policies."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from iat_nova.agent import facts_file
from iat_nova.cmd.base import EXIT_FAILURE, EXIT_USAGE, Command, Failure, Lister, Table
from iat_nova.inventory.host import time_of_day
from iat_nova.model import CacheDomain, Facts, HostFacts
from iat_nova.policy import DEFAULT_NAME, Policy, PolicyError, document, schema
from iat_nova.policy.rendered import unchanged
from iat_nova.report import escape, sentences
from iat_nova.store.database import HistoryError

COLUMNS = ("name", "class", "priority", "io", "domain", "ways", "reason", "warnings")

ASSUMED_WAYS = 11
FACTS = "a host's facts as `iat-nova policy facts` wrote them"


class OfPolicy(Command):
    """Common parts of commands on a policy: file and host."""

    _elsewhere = True
    """Whether the host may be another one, known by its facts."""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "file",
            nargs="?",
            metavar="FILE",
            help="the policy; default: the one the configuration names, or the default policy; "
            "where --state-dir is given, and no configuration, the one its agent reads",
        )
        parser.set_defaults(facts=None)
        if self._elsewhere:
            what = f"{FACTS}; default: this host's"
            parser.add_argument("--facts", metavar="FACTS", help=what)

    def policy(self, parsed_args: argparse.Namespace, host: HostFacts) -> Policy:
        """Return the policy for a host. Raises `Failure` with all errors."""
        from iat_nova.agent import policy_file  # noqa: PLC0415 - slow to load

        path = parsed_args.file or self._in_use(parsed_args)
        with refusals():
            return policy_file.load(path, host)

    def _in_use(self, parsed_args: argparse.Namespace) -> str | pathlib.Path | None:
        """Return the configured policy file, or for a bare state directory its agent's file."""
        bare = not self.named_files(parsed_args)
        if bare and self.names_state(parsed_args, self.state_dir(parsed_args)):
            with contextlib.suppress(HistoryError), self.history(parsed_args) as reader:
                said = reader.status()
                if said is not None and said.status.policy_source:
                    source = said.status.policy_source
                    return None if source == DEFAULT_NAME else source
        return self.settings(parsed_args).policy_file

    def facts(self, parsed_args: argparse.Namespace) -> Facts:
        """Return the named facts, the agent's last facts, or those of an assumed host."""
        if parsed_args.facts is not None:
            return facts_file.load(parsed_args.facts)
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
        host = HostFacts(os.uname().nodename, (domain,), cpus, (), *time_of_day(time.time()))
        return Facts(host, (), None)


@contextlib.contextmanager
def refusals(what: str = "policy") -> Iterator[None]:
    """Turn a `PolicyError` into a `Failure` that shows every line."""
    try:
        yield
    except PolicyError as error:
        lines = escape.lines(sentences.text(error.message))
        raise Failure(f"the {what} cannot be used\n{lines}", EXIT_FAILURE) from error


class PolicyCheck(OfPolicy, Lister):
    """Check a policy; list the classes that the policy gives the present tenants.

    Every error is shown with line and path. The host's facts are the agent's last record. Without a
    record, a host with one cache domain of 11 ways and without tenants is assumed.
    """

    _epilog = """
examples:
  iat-nova policy check /etc/iat-nova/policy.yaml
  iat-nova policy check               the policy the configuration names, or the default one
  iat-nova policy check --facts compute-7.yaml policy.yaml
"""

    _legend = ""

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Check the policy, and return a row per tenant. Raises `Failure` with all errors."""
        facts = self.facts(parsed_args)
        policy = self.policy(parsed_args, facts.host)
        for warning in policy.warnings:
            self.note(escape.plain(f"{policy.source}: {sentences.text(warning.located)}"))
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
                sentences.text(classified.reasons[tenant.id])
                if tenant.id in classified.reasons
                else None,
                list(map(sentences.text, tenant.all_warnings)),
            )
            for number, inventory in sorted(classified.domains.items())
            for tenant in inventory.tenants
        ]
        cells = [tuple(self.cell(parsed_args, value) for value in row) for row in rows]
        if parsed_args.formatter == "table" and not parsed_args.columns:
            self._legend = "ways: least/at the start/most" if cells else ""
            return _brief(cells, len(classified.domains))
        return COLUMNS, cells

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> Any:
        """Write the list, and below the short table what its numbers of ways are."""
        status = super().produce_output(parsed_args, column_names, data)
        if self._legend:
            self.app.stdout.write(f"{self._legend}\n")
        return status


def _brief(rows: Sequence[tuple[object, ...]], domains: int) -> Table:
    """Return headings and rows for people: I/O beside the priority, no column without content."""
    found = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    for row in found:
        row["priority"] = f"{row['priority']}{' I/O' if row['io'] == 'yes' else ''}"
    empty = {"io"} if domains > 1 else {"io", "domain"}
    empty |= {name for name in COLUMNS if not any(row[name] not in (None, "") for row in found)}
    headings = tuple(name for name in COLUMNS if name not in empty)
    return headings, [tuple(row[name] for name in headings) for row in found]


class PolicyShow(OfPolicy):
    """Show the effective policy of a host: templates rendered, every default written out.

    The output is itself a policy. With --rendered the output is the file as the template made it.
    """

    _epilog = """
examples:
  iat-nova policy show
  iat-nova policy show --rendered policy.yaml
  iat-nova policy show --running      what the agent has in force
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        super()._options(parser)
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--rendered", action="store_true", help="the rendered file")
        what.add_argument("--running", action="store_true", help="the agent's own, as it is now")
        parser.add_argument(
            "-f", "--format", choices=("yaml", "json"), default="yaml", help="default: yaml"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Write the policy to standard output."""
        if parsed_args.running:
            if parsed_args.file or parsed_args.facts:
                raise Failure("--running takes neither FILE nor --facts", EXIT_USAGE)
            text = _running(self, parsed_args)
        else:
            policy = self.policy(parsed_args, self.facts(parsed_args).host)
            text = policy.rendered if parsed_args.rendered else policy.effective
        if parsed_args.format == "json":
            text = json.dumps(document.read(unchanged(text)).value, indent=2)
        self.app.stdout.write(escape.lines(text.rstrip("\n")) + "\n")


class PolicyDiff(OfPolicy):
    """Show how a policy differs from the agent's policy in force.

    Both are shown with templates rendered and every default written out. Ends with status 1 if they
    differ: a change of the file was not reloaded, or the policy is only a draft.
    """

    _elsewhere = False  # the agent's policy was rendered for this host

    _epilog = """
examples:
  iat-nova policy diff                      was the file changed since it was read?
  iat-nova policy diff new-policy.yaml
  iat-nova policy diff --state-dir /var/lib/iat-nova     the file that its agent reads
"""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Write the differences to standard output."""
        before = _running(self, parsed_args)
        policy = self.policy(parsed_args, self.facts(parsed_args).host)
        lines = difflib.unified_diff(
            before.splitlines(), policy.effective.splitlines(), "running", policy.source, n=2,
            lineterm="",
        )  # fmt: skip
        shown = [escape.plain(line) for line in lines]
        self.app.stdout.write("".join(f"{line}\n" for line in shown))
        return EXIT_FAILURE if shown else 0


class PolicySchema(Command):
    """Write the policy's JSON Schema, for editors that complete and check YAML.

    Quantities with units are text or numbers in the schema; `iat-nova policy check` is more exact.
    """

    _epilog = """
example:
  iat-nova policy schema > policy.schema.json
"""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Write the schema to standard output."""
        self.app.stdout.write(f"{json.dumps(schema.for_editors(sentences.text), indent=2)}\n")


class PolicyFacts(Command):
    """Write the agent's facts of this host, for --facts elsewhere.

    The file has names of guests, flavors and projects: check before you pass it on.
    """

    _epilog = """
example:
  iat-nova policy facts > compute-7.yaml
"""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Write the facts to standard output."""
        with self.history(parsed_args) as reader:
            inventory = reader.latest_inventory()
        if inventory is None:
            raise Failure("nothing has been recorded yet")
        self.app.stdout.write(facts_file.dump(inventory.facts))


def _running(command: Command, parsed_args: argparse.Namespace) -> str:
    """Return the agent's policy in force, or its last. Raises `Failure`."""
    seen = command.view(parsed_args)
    command._status = 0
    if seen.now is None or not seen.now.status.policy:
        raise Failure("the agent has not recorded its policy")
    return seen.now.status.policy
