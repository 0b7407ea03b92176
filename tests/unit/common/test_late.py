# SPDX-License-Identifier: Apache-2.0
"""Modules that are loaded when they are first used."""

import subprocess
import sys
import unittest

TRIED = """
import sys
from iat_nova.common import late
late.load("rfc3986")
late.load("netaddr")
from oslo_config import types
loaded = "rfc3986.misc", "netaddr.ip"
assert not any(name in sys.modules for name in loaded)
assert types.URI(schemes=["http"])("http://a/b") == "http://a/b"
assert types.IPAddress()("::1") == "::1"
assert all(name in sys.modules for name in loaded)
import netaddr.ip
import rfc3986.validators
assert not isinstance(netaddr.IPAddress, str) and rfc3986.validators.Validator
"""
ABSENT = """
import sys
from iat_nova.common import late
late.load("no_such_module")
assert "no_such_module" not in sys.modules
late.load("sys")
assert sys.modules["sys"] is sys
"""


class LateTest(unittest.TestCase):
    def test_first_use(self) -> None:
        """An import loads nothing; the first use loads the module, and submodules are found."""
        for code in (TRIED, ABSENT):
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=False
            )
            self.assertEqual((0, ""), (done.returncode, done.stderr))
