# SPDX-License-Identifier: Apache-2.0
"""iat-nova-agent: configuration in, exit status out; the loop is `iat_nova.agent`."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import logging
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

from iat_nova import assembly, exporter
from iat_nova.agent import Agent
from iat_nova.conf import DEFAULT_FILES, ConfigError, Settings, default_files, load
from iat_nova.hardware.api import HardwareError
from iat_nova.policy import PolicyError
from iat_nova.report.observed import Observer
from iat_nova.strategies import StrategyError

LOG = logging.getLogger("iat_nova")

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

EXIT_OK, EXIT_FAILURE = 0, 1

EPILOG = """
The options are in section [iat] of the configuration: see etc/iat-nova/iat-nova.conf.sample.
Signals: SIGHUP reads the policy again; SIGTERM and SIGINT end the agent and leave the hardware
as it was found. Exit status: 0 ended by a signal or, emulated, by the scenario's end; 1 could not
start (the reason is on standard error); 2 wrong arguments.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent until a signal ends it."""
    arguments = _parser().parse_args(argv)
    files = arguments.config_file or default_files()
    try:
        settings = load(files)
        _log_to_stderr(settings.debug)
        observer = Observer()
        with (
            _signals_blocked(),
            assembly.only_agent(settings.lock_path),
            _metrics(settings, observer),
        ):
            _run(settings, observer)
    except (
        ConfigError,
        PolicyError,
        StrategyError,
        HardwareError,
        assembly.AlreadyRunning,
        OSError,
    ) as error:
        print(f"iat-nova-agent: {error}", file=sys.stderr)
        return EXIT_FAILURE
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="iat-nova-agent",
        description="Manage the last-level cache of this compute host.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config-file",
        action="append",
        metavar="FILE",
        help="configuration to read, may be repeated, the last one wins; default: "
        + " and ".join(DEFAULT_FILES),
    )
    version = importlib.metadata.version("iat-nova")
    parser.add_argument("--version", action="version", version=f"iat-nova {version}")
    return parser


def _run(settings: Settings, observer: Observer) -> None:
    """Start the sources and the loop; end both."""
    hands = assembly.machine(settings)
    for one in hands.about:
        level = logging.WARNING if one.denied else logging.INFO
        LOG.log(level, "%s: %s (%s)", one.role, one.chosen, one.why)
    with hands.ours():
        host = assembly.host_reader(settings, hands.allocator)
        source = assembly.inventory(settings, host, hands.clock)
        agent = assembly.agent(settings, hands, source, host, observer)
        _obey_signals(agent)
        source.start()
        with contextlib.closing(source):
            agent.run(hands.ends_s)


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Keep our signals for the thread that waits for them; others inherit that from here."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _obey_signals(agent: Agent) -> None:
    """SIGTERM and SIGINT end the agent, SIGHUP has the policy read again.

    A thread waits for them: a handler would run in the loop's thread, in the midst of what that
    holds, and the events it sets are no safe ground there.
    """

    def obey() -> None:
        while True:
            if signal.sigwait(SIGNALS) == signal.SIGHUP:
                agent.reload_policy()
            else:
                agent.stop()

    threading.Thread(target=obey, name="signals", daemon=True).start()


def _metrics(settings: Settings, observer: Observer) -> contextlib.AbstractContextManager[object]:
    """Serve the metrics where the settings ask for them."""
    if not settings.metrics_port:
        return contextlib.nullcontext()
    return exporter.serving(settings.metrics_address, settings.metrics_port, observer)


def _log_to_stderr(debug: bool) -> None:
    """Log to standard error, where the journal of the service manager picks it up."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    logging.getLogger("iat_nova").setLevel(logging.DEBUG if debug else logging.INFO)


if __name__ == "__main__":
    sys.exit(main())
