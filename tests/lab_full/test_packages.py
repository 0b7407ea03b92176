# SPDX-License-Identifier: Apache-2.0
"""Debian's packages of this checkout in the lab's guest."""

import tempfile
import unittest
from pathlib import Path

from tests.lab.lab import GuestCase
from tests.lab.test_service import OWN_DEFAULT
from tests.packages.debian_root import CLEAN, Root, missing


class Packages(GuestCase):
    """Installed in a clean Debian 13, whose systemd starts the service."""

    def test_installed(self):
        """The service observes, enforces when it is told to, and is purged at work."""
        if why := missing():
            raise unittest.SkipTest(why)
        with tempfile.TemporaryDirectory(prefix="iat-nova-lab-") as share:
            root = Root(Path(share) / "root", *CLEAN)
            root.install("iat-nova-agent")
            self.guest("packaged", least=1, share=share, options=OWN_DEFAULT, timeout_s=900)
