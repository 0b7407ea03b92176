# SPDX-License-Identifier: Apache-2.0
"""What `iat-nova reload` does when the service is stopped while it waits."""

import signal
import unittest

from iat_nova.cmd import reload


class EndTest(unittest.TestCase):
    """systemd ends what reloads a service that it stops."""

    def test_sigterm_ends_the_wait_in_order(self) -> None:
        """A reload ended by a signal would make a failure of the stop."""
        before = signal.getsignal(signal.SIGTERM)
        with self.assertRaises(SystemExit) as raised, reload._ended_in_order():
            signal.raise_signal(signal.SIGTERM)
        self.assertEqual(0, raised.exception.code)
        self.assertIs(before, signal.getsignal(signal.SIGTERM))
