# SPDX-License-Identifier: Apache-2.0
"""iat-nova hold and iat-nova release."""

from __future__ import annotations

import argparse
import time

from iat_nova.cmd import guests
from iat_nova.cmd.arguments import natural
from iat_nova.cmd.base import Command, Failure, folded
from iat_nova.cmd.pause import agent_runs, end_s, existing, take_while, who
from iat_nova.model import Hold
from iat_nova.policy import holds
from iat_nova.report import escape, sentences, times, words
from iat_nova.store.requests import Holds


class HoldCommand(Command):
    """Hold a guest at a fixed number of ways, for a time or until `iat-nova release`.

    All other decisions continue. status, tenants, top and explain show the hold until its end.
    Without --for only `iat-nova release` ends it. A hold outlasts restarts of the agent, the guest
    and the host.
    Minimum ways of other tenants, and ways guaranteed by flavors, take precedence: a hold that does
    not fit is refused.
    """

    _writes = True
    _epilog = """
GUEST is a UUID or its first 8 digits, a name, or the name in libvirt (instance-0000002a);
also vswitch, pool, host.

examples:
  iat-nova hold db --ways 3 --for 2h --reason "nightly import"
  iat-nova hold instance-0000002a --ways 1       until iat-nova release
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("guest", metavar="GUEST", help="the guest to hold")
        parser.add_argument(
            "--ways", type=natural, required=True, metavar="N", help="the number of ways"
        )
        take_while(parser, "release it")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Write the hold's file, if the hold fits."""
        now_s = time.time()
        until_s = end_s(parsed_args, now_s)
        folder = existing(self.state_dir(parsed_args))
        with self.history(parsed_args) as reader:
            subject = guests.now(reader, parsed_args.guest)
            seen = reader.status()
        if subject.floats or not subject.tenants:
            raise Failure(
                f"{subject.title} floats over shared CPUs: it has no ways of its own, but the "
                "pool's (iat-nova hold pool)"
            )
        reason, ways = parsed_args.reason, parsed_args.ways
        hold = Hold(subject.key, subject.name, ways, now_s, until_s, reason, who())
        if (why := holds.why_not(hold, subject.tenants)) is not None:
            raise Failure(
                f"{subject.title} cannot be held at {ways}: {escape.plain(sentences.text(why))}"
            )
        Holds(folder).write(hold)
        self.app.stdout.write(f"Held: {escape.plain(words.held(hold))}.\n")
        if not agent_runs(self, folder):
            told = f"No agent is seen running with {folder}; one that starts there holds it."
            self.app.stdout.write(f"{folded(told, self.app.stdout)}\n")
        elif seen is not None and seen.status.reasons:
            self.app.stdout.write(f"{folded(_OBSERVES, self.app.stdout)}\n")


_OBSERVES = (
    "The agent only observes: the hold changes nothing on the hardware. iat-nova status says why."
)


class Release(Command):
    """End a hold of `iat-nova hold`.

    From the next iteration on, the guest has the policy's bounds again.
    """

    _writes = True
    _epilog = """
examples:
  iat-nova release db
  iat-nova release --all
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        whom = parser.add_mutually_exclusive_group(required=True)
        whom.add_argument("guest", nargs="?", metavar="GUEST", help="the guest to release")
        whom.add_argument("--all", action="store_true", help="all held guests")

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Remove the files of the holds."""
        folder = Holds(existing(self.state_dir(parsed_args)))
        held = folder.current(time.time())
        found = held if parsed_args.all else self._found(parsed_args, held)
        if parsed_args.all:
            folder.clear_all()
        for hold in found:
            if not parsed_args.all:
                folder.clear(hold.tenant)
            since = times.duration(time.time() - hold.since_s)
            by = f" by {escape.plain(hold.by)}" if hold.by else ""
            name = escape.plain(hold.name)
            self.app.stdout.write(f"Released: {name}. It was held{by} for {since}.\n")
        if not found:
            whom = "No guest" if parsed_args.all else escape.plain(parsed_args.guest)
            self.app.stdout.write(f"{whom} {'was' if parsed_args.all else 'was not'} held.\n")
        return 0

    def _found(self, parsed_args: argparse.Namespace, held: tuple[Hold, ...]) -> tuple[Hold, ...]:
        """Return the requested hold; a hold's own name finds guests that have left."""
        text = parsed_args.guest
        for found in (
            tuple(hold for hold in held if hold.tenant == text),
            tuple(hold for hold in held if hold.name == text),
        ):
            if len(found) == 1:
                return found
        with self.history(parsed_args) as reader:
            subject, _ = guests.anywhere(reader, text)
        return tuple(hold for hold in held if hold.tenant == subject.key)
