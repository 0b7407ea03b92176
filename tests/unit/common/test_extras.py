# SPDX-License-Identifier: Apache-2.0
"""The commands that install extras."""

import sys
import unittest
from unittest import mock

from iat_nova.common import extras


class InstallTest(unittest.TestCase):
    def install(self, extra: str, prefix: str, apt_get: str | None) -> str:
        """Return the command for a Python with this prefix."""
        which = mock.patch.object(extras.shutil, "which", return_value=apt_get)
        with mock.patch.object(sys, "prefix", prefix), which:
            return extras.install(extra)

    def test_of_this_python(self) -> None:
        """A Python of a virtual environment, or built beside Debian's, has its own pip."""
        command = f"{sys.executable} -m pip install 'iat-nova[sim]'"
        for prefix in ("/opt/x", "/usr/local"):
            self.assertEqual(command, self.install("sim", prefix, "/usr/bin/apt-get"))

    def test_of_the_distribution(self) -> None:
        """Debian's Python takes Debian's packages; what has none needs a virtual environment."""
        for extra, apt_get, command in (
            ("metrics", "/usr/bin/apt-get", "apt-get install python3-prometheus-client"),
            ("metrics", None, "pip install 'iat-nova[metrics]' in a virtual environment"),
            (
                "bench",
                "/usr/bin/apt-get",
                "pip install 'iat-nova[bench]' in a virtual environment",
            ),
        ):
            self.assertEqual(command, self.install(extra, "/usr", apt_get))
