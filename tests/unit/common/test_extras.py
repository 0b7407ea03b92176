# SPDX-License-Identifier: Apache-2.0
"""The commands that install extras."""

import sys
import unittest
from unittest import mock

from iat_nova.common import extras


class InstallTest(unittest.TestCase):
    def test_of_this_python(self) -> None:
        """In a virtual environment its own pip, in Debian's Python the packages of Debian."""
        with mock.patch.object(sys, "prefix", "/opt/x"):
            command = f"{sys.executable} -m pip install 'iat-nova[sim]'"
            self.assertEqual(command, extras.install("sim"))
        which = mock.patch.object(extras.shutil, "which", return_value="/usr/bin/apt-get")
        with mock.patch.object(sys, "prefix", sys.base_prefix), which:
            command = "apt-get install python3-prometheus-client python3-waitress"
            self.assertEqual(command, extras.install("metrics"))
            self.assertIn("-m pip install 'iat-nova[bench]'", extras.install("bench"))
