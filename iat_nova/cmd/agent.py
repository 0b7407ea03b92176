# SPDX-License-Identifier: Apache-2.0
"""iat-nova-agent: configuration in, exit status out; the loop is `iat_nova.agent.loop`."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import importlib.metadata
import logging
import os
import signal
import sys
from collections.abc import Sequence

from iat_nova.agent import policy_file, restoring, sources, wiring
from iat_nova.agent.endings import Endings, blocked, watch
from iat_nova.agent.loop import ThreadDied
from iat_nova.agent.on_disk import OnDisk
from iat_nova.agent.ownership import ownership
from iat_nova.cmd import logs
from iat_nova.common import config_files
from iat_nova.common.plugins import PluginError
from iat_nova.conf import ConfigError, Settings, add_arguments, load
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.enforcement.snapshot import HostTaken, RestoreError
from iat_nova.model.message import as_message
from iat_nova.policy import PolicyError
from iat_nova.report import escape, exporter, log, sentences
from iat_nova.store.heartbeat import AlreadyRunning, Heartbeat, StateError, only_agent
from iat_nova.store.observed import Observer
from iat_nova.strategies import registry as strategies

LOG = logging.getLogger("iat_nova")

# Exit statuses beyond 2 are from sysexits.h: `systemctl status` shows their names.
EXIT_OK, EXIT_FAILURE = 0, 1
EXIT_CONFIGURATION, EXIT_TAKEN, EXIT_NOT_RESTORED = os.EX_CONFIG, os.EX_TEMPFAIL, os.EX_OSERR

EPILOG = """
The options are in section [iat] of the configuration: see etc/iat-nova/iat-nova.conf.sample.
Signals: SIGHUP reads the policy again; SIGTERM and SIGINT end the agent and leave the hardware
as it was found, also while it starts; where `iat-nova hand-over` has asked for it, as a restart of
the unit does, they leave it as it is to the next agent; SIGUSR1 writes to the log where each
thread stands.
Exit status (the reason is on standard error): 0 ended by a signal or, emulated, by
the scenario's end; 1 could not start; 2 wrong arguments; 71 the original hardware settings could
not be restored; 75 another agent or writer is running; 78 invalid configuration, policy or
strategy: no later start would do better.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent until a signal ends it."""
    arguments = _parser().parse_args(argv)
    log.speak()

    def named() -> list[str]:
        return config_files.expanded(arguments.config_file or config_files.by_default())

    try:
        settings = load(arguments.config_file or config_files.by_default())
        for name in filter(None, (settings.strategy, settings.shadow)):
            strategies.find(name)  # before the hardware: its repair may take a reboot
        for path in filter(None, (settings.policy_file, settings.shadow_policy)):
            policy_file.read(path)
        logs.setup(settings.read_files, settings.debug, _version())
        faulthandler.register(signal.SIGUSR1, file=2)  # also while Python cannot run
        observer = Observer()
        with blocked(), only_agent(settings.lock_path, words=_line) as heartbeat:
            endings = Endings(lambda: _leave(heartbeat))
            watch(endings)
            restoring.note_state_dir(settings)
            with _metrics(settings, observer):
                _run(settings, OnDisk(settings, named), observer, heartbeat, endings)
    except (
        ConfigError,
        exporter.MetricsError,
        PolicyError,
        PluginError,
        HardwareError,
        AlreadyRunning,
        StateError,
        ThreadDied,
        OSError,
    ) as error:
        text = escape.lines(sentences.text(as_message(error)))
        print(f"iat-nova-agent: {text}", file=sys.stderr)
        if not logs.on_stderr():
            LOG.error("%s", _line(error))
        return _status(error)
    return EXIT_OK


def _line(error: BaseException) -> str:
    """Return the sentence of an error that ends the agent, in one line."""
    if not isinstance(error, Exception):
        return str(error)
    return sentences.text(as_message(error), within=True)


def _status(error: Exception) -> int:
    """Return the exit status for the error that ended the start or the run."""
    if isinstance(error, exporter.CannotListen):
        return EXIT_FAILURE  # as an address before the network is up: a later start does better
    if isinstance(error, (ConfigError, exporter.MetricsError, PolicyError, PluginError)):
        return EXIT_CONFIGURATION
    if isinstance(error, (AlreadyRunning, HostTaken)):
        return EXIT_TAKEN
    return EXIT_NOT_RESTORED if isinstance(error, RestoreError) else EXIT_FAILURE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="iat-nova-agent",
        description="Manage the last-level cache of this compute host.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, "the configuration")
    parser.add_argument("--version", action="version", version=f"iat-nova {_version()}")
    return parser


def _version() -> str:
    return importlib.metadata.version("iat-nova")


def _run(
    settings: Settings,
    on_disk: OnDisk,
    observer: Observer,
    heartbeat: Heartbeat,
    endings: Endings,
) -> None:
    """Start the sources and the loop; end both."""
    heartbeat.starting("opening the hardware")
    if settings.hardware == "auto":
        for line in restoring.restore_earlier(settings):
            LOG.warning("an agent with another state directory had not restored: %s", line)
    with endings.at_once():
        machine = sources.machine(settings)
    for one in machine.choices:
        level = logging.WARNING if one.denied else logging.INFO
        LOG.log(level, "%s: %s (%s)", one.role, one.chosen, one.reason)
    owned = ownership(settings, machine)
    with owned.held(adopt=True) as left:
        host = sources.host_reader(settings, machine, owned.finish, left)
        source = sources.inventory(settings, host, machine.clock)
        agent = wiring.agent(
            settings,
            owned,
            source,
            host,
            log.LogLanguage(),
            observer,
            heartbeat,
            on_disk.drift,
            left,
        )
        endings.attach(agent)
        LOG.info("configuration: %s", ", ".join(settings.read_files) or "no file: all defaults")
        LOG.debug("%s", settings)
        heartbeat.starting("waiting for libvirt and Open vSwitch")
        # With adopted masks the end must restore the host, by way of the loop.
        with endings.at_once() if left is None else contextlib.nullcontext():
            source.start()
        with contextlib.closing(source):
            # Programs and tables stay for good. Each full collection would scan them and delay the
            # loop by tens of milliseconds every few minutes.
            gc.freeze()
            agent.run(machine.ends_s)


def _leave(heartbeat: Heartbeat) -> None:
    """End the process at once, from any thread: nothing has to be restored."""
    heartbeat.stopped()
    logging.shutdown()
    os._exit(EXIT_OK)


def _metrics(settings: Settings, observer: Observer) -> contextlib.AbstractContextManager[object]:
    if not settings.metrics_port:
        return contextlib.nullcontext()
    return exporter.serving(settings.metrics_address, settings.metrics_port, observer)


if __name__ == "__main__":
    sys.exit(main())
