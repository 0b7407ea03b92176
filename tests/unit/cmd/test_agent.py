# SPDX-License-Identifier: Apache-2.0
"""What iat-nova-agent says when it starts."""

import contextlib
import logging
import unittest
from unittest import mock

from iat_nova import conf
from iat_nova.cmd import agent
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.backends import Choice


class Start(unittest.TestCase):
    def test_a_knob_that_is_denied_is_a_warning(self) -> None:
        """What else was chosen is for information."""
        hands = mock.Mock(
            about=(Choice("cat", "resctrl", "mounted"), Choice("ddio", "none", "msr: no", True)),
            ours=mock.Mock(side_effect=HardwareError("no further")),
        )
        with (
            mock.patch("iat_nova.assembly.machine", return_value=hands),
            self.assertLogs("iat_nova", logging.INFO) as logs,
            contextlib.suppress(HardwareError),
        ):
            agent._run(conf.load(), mock.Mock())
        self.assertEqual(
            ["INFO:iat_nova:cat: resctrl (mounted)", "WARNING:iat_nova:ddio: none (msr: no)"],
            logs.output,
        )
