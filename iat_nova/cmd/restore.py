# SPDX-License-Identifier: Apache-2.0
"""iat-nova restore: restores the host's hardware after an agent that could not."""

from __future__ import annotations

import argparse

from iat_nova import conf
from iat_nova.agent import state_pointer
from iat_nova.cmd.base import Command, Failure
from iat_nova.common.kernel_files import exists
from iat_nova.model.message import Message, as_message
from iat_nova.report import sentences


class Restore(Command):
    """Restore the original hardware settings, from the snapshot before the agent's first write.

    For use after a crash; the agent does the same when it ends and before it starts. May be
    repeated: without a snapshot of this boot nothing is done. Refuses while an agent runs. Masks
    handed over to the next agent are restored as well, and are not adopted then. No configuration
    is needed: without --state-dir the snapshot is read from the last agent's state directory.
    """

    _epilog = """
examples:
  iat-nova restore
  iat-nova restore --state-dir /srv/iat-nova
  iat-nova restore --unless-handed-over    (systemd: ExecStopPost)
  iat-nova restore --note-state-dir        (systemd: ExecStartPre, as root)

exit status: 0 restored, or nothing to restore; 1 a setting stays changed, or an agent runs
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--unless-handed-over",
            action="store_true",
            help="do nothing, once, when the agent that ended has just left the host to the next",
        )
        parser.add_argument(
            "--unless-taken",
            action="store_true",
            help="do nothing while an agent runs, which restores when it ends",
        )
        parser.add_argument(
            "--note-state-dir",
            action="store_true",
            help="restore nothing; as root note the configured state directory for later restores, "
            "which may find the configuration unreadable",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Restore; report the changes, then errors of the configuration."""
        if parsed_args.note_state_dir:
            state_pointer.write(self.settings(parsed_args).state_dir)
            return
        from iat_nova.agent import restoring  # noqa: PLC0415 - a start of the unit only notes
        from iat_nova.hardware.api import HardwareError  # noqa: PLC0415

        settings, unusable = self._settings(parsed_args)
        alone = self.names_state(parsed_args, settings.state_dir)
        if unusable is not None and not self.named_state_dir(parsed_args):
            # The configuration may name another directory than the environment.
            alone = alone and state_pointer.holds_snapshot(settings.state_dir)
        done: list[Message] = []
        failed: list[str] = []
        places: tuple[conf.Settings, ...] = (settings,)
        if not alone:
            try:
                places = restoring.places(settings)
            except OSError as error:  # of the note: an earlier directory may hold a snapshot
                failed.append(f"{error.filename}: {error.strerror}")
        for place in places:
            try:
                done += restoring.restore(
                    place,
                    unless_handed_over=parsed_args.unless_handed_over,
                    unless_taken=parsed_args.unless_taken,
                )
            except HardwareError as error:
                failed.append(sentences.text(error.message))
        for one in done:
            self.app.stdout.write(f"{sentences.text(one)}\n")
        if unusable is not None:
            why = sentences.text(as_message(unusable))
            self.note(f"done without the configuration, which cannot be used: {why}")
        if failed:
            raise Failure("; ".join(failed))
        if not done:
            self.app.stdout.write("nothing to restore\n")
            if alone and not exists(settings.state_dir):
                self.note(f"there is no state directory {settings.state_dir}")

    def _settings(self, parsed_args: argparse.Namespace) -> tuple[conf.Settings, Exception | None]:
        """Return the settings; for an unusable configuration the defaults, and the error."""
        try:
            return self.settings(parsed_args), None
        except (conf.ConfigError, OSError) as error:
            return conf.load(state_dir=self.named_state_dir(parsed_args)), error
