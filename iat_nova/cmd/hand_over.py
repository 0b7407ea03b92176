# SPDX-License-Identifier: Apache-2.0
"""iat-nova hand-over."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from iat_nova.cmd.base import EXIT_NOT_RUNNING, Command, Failure
from iat_nova.cmd.pause import existing
from iat_nova.conf import LOCK
from iat_nova.store.heartbeat import look

ANSWER_S = 10.0  # systemd waits for this command while the service stops
MAIN = "iat_nova.cmd.main"
LATER_S = 2.0  # after this time nothing can be adopted, by any clock
AGAIN_S = 10.0


class HandOver(Command):
    """Make the agent's next end leave the masks to an agent that starts afterwards.

    The next agent adopts the masks and past decisions within [iat] hand_over_s (60 s), if the
    hardware is unchanged. If no agent adopts them, systemd restores the host: this command requests
    the restore, and does nothing without systemd. The unit runs this command before each of its
    stops, because a stop may be part of a restart. If you run this command by hand, stop the agent
    within half of hand_over_s.
    """

    _writes = True
    _epilog = """
examples:
  iat-nova hand-over --if-restarting iat-nova-agent.service    (systemd: ExecStop)
  iat-nova hand-over && systemctl stop iat-nova-agent          start it again within 60 s
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--if-restarting",
            metavar="UNIT",
            help="only where systemd stops this unit to start it again",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Request a timely restore by systemd, then the hand-over by the agent."""
        settings = self.settings(parsed_args)
        unit = parsed_args.if_restarting
        if not settings.hand_over_s:
            self.app.stdout.write("hand_over_s = 0: the agent restores when it stops\n")
            return
        if unit is not None and not restarting(unit):
            self.app.stdout.write(f"{unit} is not restarted: the agent restores when it stops\n")
            return
        folder = existing(self.state_dir(parsed_args))
        if not look(folder / LOCK).alive:
            raise Failure(f"no agent is seen running with {folder}", EXIT_NOT_RUNNING)
        restore_in(
            settings.hand_over_s + LATER_S, settings.state_dir, self.named_files(parsed_args)
        )
        from iat_nova.agent import restoring  # noqa: PLC0415 - slow to load

        restoring.hand_over_files(settings).ask()
        self.app.stdout.write(
            f"The agent's next end hands over.\nThe host is restored in {settings.hand_over_s:g} s "
            "where no agent has adopted it.\n"
        )


def restarting(unit: str) -> bool:
    """Whether systemd is restarting a unit. Raises `Failure` if systemd does not answer."""
    said = _run("systemctl", "list-jobs", "--plain", "--no-legend", unit)
    jobs = (line.split() for line in said.splitlines())
    return any(job[1:3] == [unit, "restart"] for job in jobs)


def restore_in(seconds: float, state_dir: Path, config_files: Sequence[str] = ()) -> None:
    """Make systemd restore the host after this time, unless an agent runs. Raises `Failure`."""
    program = sys.argv[0]
    command = [program] if os.access(program, os.X_OK) else [sys.executable, "-m", MAIN]
    # systemd runs the command in /. The final slash, which marks a folder's name, stays.
    here = os.getcwd()
    named = [word for name in config_files for word in ("--config-file", os.path.join(here, name))]
    _run(
        "systemd-run",
        "--quiet",
        "--collect",
        "--description=iat-nova: restore the host where no agent has adopted it",
        f"--on-active={seconds:g}s",
        "--timer-property=AccuracySec=1s",
        # Until the host is restored, or an agent is responsible.
        "--property=Restart=on-failure",
        f"--property=RestartSec={AGAIN_S:g}",
        # No dependencies: the unit must not delay a shutdown.
        "--timer-property=DefaultDependencies=no",
        "--property=DefaultDependencies=no",
        *(os.path.abspath(command[0]), *command[1:], "restore", "--unless-taken"),
        *("--state-dir", os.path.join(here, state_dir), *named),
    )


def _run(*command: str) -> str:
    """Return a command's output. Raises `Failure` with the command's error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=ANSWER_S)
    except subprocess.CalledProcessError as error:
        raise Failure(
            f"{command[0]}: {error.stderr.strip()}; the agent restores when it stops"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"{command[0]}: {error}; the agent restores when it stops") from error
    return done.stdout
