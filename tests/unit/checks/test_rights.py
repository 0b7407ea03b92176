# SPDX-License-Identifier: Apache-2.0
"""What the service may do, asked by being it."""

import os
import pwd
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from iat_nova.checks import rights
from iat_nova.hardware.kernel.capabilities import NUMBERS, held
from iat_nova.model import message

NOBODY = rights.Service("nobody", frozenset({"CAP_DAC_OVERRIDE"}))


def says(text, unit="iat-nova-agent.service"):
    """Return what stands for systemctl, which knows one unit."""

    def run(command, **_):
        known = text if command[-1] == unit else "LoadState=not-found\n"
        return subprocess.CompletedProcess(command, 0, known)

    return run


class Service(unittest.TestCase):
    """Whom the unit runs as."""

    def test_as_systemd_has_it(self):
        """User and capabilities of the unit as it is, drop-ins included."""
        text = "LoadState=loaded\nUser=iat\nAmbientCapabilities=cap_sys_admin cap_net_raw\n"
        found = rights.service(says(text))
        self.assertEqual(rights.Service("iat", frozenset({"CAP_SYS_ADMIN"})), found)
        account = message("account-capable", user="iat", capabilities=("CAP_SYS_ADMIN",))
        self.assertEqual(account, found.described())
        text = "LoadState=loaded\nUser=\nAmbientCapabilities=\n"
        root = rights.service(says(text, "devstack@iat-nova-agent.service"))
        self.assertEqual(rights.Service("root", frozenset(NUMBERS)), root)

    def test_as_shipped(self):
        """Without the unit, or without systemd, as the unit that we ship has it."""

        absent = mock.Mock(side_effect=FileNotFoundError("systemctl"))
        hidden = mock.Mock(side_effect=PermissionError("systemctl"))  # in a folder of PATH
        for run in (absent, hidden, says("LoadState=not-found\n"), says("")):
            self.assertEqual(rights.SHIPPED, rights.service(run))

    def test_a_user_that_is_not_there_yet(self):
        """nobody stands in, with the service's capabilities, and that is said."""
        found = rights.Service("no-such-user", frozenset({"CAP_PERFMON"})).existing()
        self.assertEqual(("nobody", {"CAP_PERFMON"}), (found.user, found.capabilities))
        account = message("account-capable", user="nobody", capabilities=("CAP_PERFMON",))
        stands_in = message("account-stands-in", account=account, absent="no-such-user")
        self.assertEqual(stands_in, found.described())
        self.assertEqual(NOBODY, NOBODY.existing())
        bare = rights.Service("iat", frozenset())
        self.assertEqual(message("account-bare", user="iat"), bare.described())


class BeIt(unittest.TestCase):
    """A child process is the service; this one stays what it is."""

    def setUp(self):
        if os.geteuid() or NOBODY.capabilities - held("CapPrm"):
            self.skipTest("only root may become another user, and pass capabilities on")

    def test_user_and_capabilities(self):
        """Exactly these, and no group of the caller's."""
        seen = rights.run_as(
            NOBODY, lambda: [os.getresuid(), os.getgroups(), sorted(held("CapEff"))]
        )
        user = pwd.getpwnam("nobody")
        self.assertEqual([[user.pw_uid] * 3, [user.pw_gid], ["CAP_DAC_OVERRIDE"]], seen)
        self.assertEqual((0, 0, 0), os.getresuid())

    def test_what_it_may_not(self):
        """Root's own file is out of reach without the capability, and within with it."""
        with tempfile.NamedTemporaryFile() as file:  # mode 0600
            read = Path(file.name).read_text
            self.assertEqual("", rights.run_as(NOBODY, read))
            with self.assertRaises(rights.NotPossible) as raised:
                rights.run_as(rights.Service("nobody", frozenset()), read)
            self.assertEqual("files-denied", raised.exception.message.code)

    def test_a_failure(self):
        """It comes back in one line; the traceback is in the log for --debug."""
        with self.assertRaisesRegex(RuntimeError, "^ZeroDivisionError: [^\n]*$"):
            rights.run_as(NOBODY, lambda: 1 // 0)

    def test_not_root(self):
        """Said, and nothing is called."""
        said = rights.run_as(NOBODY, self._ask_as_nobody)
        self.assertEqual("not-root", said)

    @staticmethod
    def _ask_as_nobody():
        try:
            return rights.run_as(NOBODY, os.getpid)
        except rights.NotPossible as reason:
            return reason.message.code
