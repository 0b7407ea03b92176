# SPDX-License-Identifier: Apache-2.0
"""What iat-nova-agent says when it starts."""

import errno
import io
import pathlib
import tempfile
import unittest
from unittest import mock

from iat_nova import conf
from iat_nova.cmd import agent
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.enforcement import snapshot as snapshot
from iat_nova.model import verbatim
from iat_nova.policy import PolicyError, Problem
from iat_nova.report import exporter
from iat_nova.store import heartbeat
from iat_nova.strategies.registry import StrategyError
from tests.said import sentence


class ExitStatus(unittest.TestCase):
    """What systemd, or a person, learns from how a start failed."""

    def setUp(self) -> None:
        self.file = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "conf"
        self.file.write_text("[iat]\n")
        self.enterContext(mock.patch("iat_nova.cmd.logs.setup"))  # it is this whole process's

    def status_of(self, error: Exception, text: str) -> int:
        """Return the status after an error, whose text is what is said."""
        with (
            mock.patch("iat_nova.cmd.agent.only_agent", side_effect=error),
            mock.patch("sys.stderr", io.StringIO()) as said,
        ):
            status = agent.main(["--config-file", str(self.file)])
        self.assertEqual(f"iat-nova-agent: {text}\n", said.getvalue())
        return status

    def test_each_kind(self) -> None:
        """Configuration, another writer, a host that is not as found, and everything else."""
        for error, status in (
            (conf.ConfigError(verbatim("no")), 78),
            (exporter.MetricsError(verbatim("no")), 78),
            (exporter.CannotListen(verbatim("no")), 1),  # systemd starts it again
            (PolicyError([Problem("", None, verbatim("no"))], "file"), 78),
            (StrategyError("no"), 78),
            (heartbeat.AlreadyRunning("no"), 75),
            (snapshot.HostTaken("no"), 75),
            (snapshot.RestoreError("no"), 71),
            (heartbeat.StateError("no"), 1),
            (HardwareError("no"), 1),
            (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 1),
        ):
            with self.subTest(error):
                self.assertEqual(status, self.status_of(error, sentence(error)))

    def test_a_configuration_that_does_not_load(self) -> None:
        """Status 78 too, which the unit does not retry; the help tells of it."""
        for line, words in (
            ("mode = x", "mode"),
            ("strategy = magic", "no strategy 'magic'"),  # before the hardware is looked at
            ("shadow = magic", "no strategy 'magic'"),
            (f"policy_file = {self.file}.yaml", "cannot be read"),
        ):
            self.file.write_text(f"[iat]\n{line}\n")
            with mock.patch("sys.stderr", io.StringIO()) as said:
                self.assertEqual(78, agent.main(["--config-file", str(self.file)]))
            self.assertIn(words, said.getvalue())
        self.assertIn("78", agent.EPILOG)
