# SPDX-License-Identifier: Apache-2.0
"""What the RPMs bring, as far as a machine without a Fedora shows: installed by rpm in a Debian.

Fedora's macros for Python and systemd are stood in for (tools/packaging/build-rpms), dependencies
are those of Debian's packages, and systemd does not run.
"""

import os
import pathlib
import shutil
import sys
import tempfile
import unittest

from tests.packages.debian_root import CLEAN, OLD_SUITE, TOOLS, Root, missing, packages, said

PACKAGES = ("iat-nova-agent", "python3-iat-nova-plugin", "python3-iat-nova-simulator")
MODULES = ("PYTHONPATH=/usr/lib/python3.11/site-packages", "PYTHONDONTWRITEBYTECODE=1")
KEPT = "/etc/iat-nova/iat-nova.conf"


class TestRpm(unittest.TestCase):
    """The three packages, in Debian 12: built where Python is 3.11, as there."""

    @classmethod
    def setUpClass(cls):
        why = missing() or (None if shutil.which("rpmbuild") else "not installed: rpm")
        if sys.version_info[:2] != (3, 11):
            why = "RPMs of another Python than Debian 12's"
        if why:
            raise unittest.SkipTest(why)
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="iat-rpm-")))
        (sdist,) = packages(OLD_SUITE).glob("iat_nova-*.tar.gz")
        cls.root = Root(folder / "root", *CLEAN, suite=OLD_SUITE)
        said(
            TOOLS / "build-rpms", folder / "rpms", sdist,
            env={**os.environ, "PYTHON": sys.executable},
        )  # fmt: skip
        for name in PACKAGES:
            (rpm,) = (folder / "rpms").glob(f"*/{name}-[0-9]*.rpm")
            shutil.copy(rpm, cls.root.folder / "share" / f"{name}.rpm")
        # What the agent needs, by the name that Debian has for it; then the agent of the RPM alone.
        cls.root.install("iat-nova-agent")
        cls.root.run("apt-get", "install", "-qq", "-y", "--no-install-recommends", "rpm")
        cls.root.run("dpkg", "--purge", "--force-depends", "iat-nova-agent")
        cls.root.run("userdel", "iat-nova")

    def test_installed_and_removed(self):
        """User, folders and programs are there; a removal leaves the configuration if changed."""
        run = self.root.run
        names = (f"/mnt/{name}.rpm" for name in PACKAGES)
        settings = self.root.settings_after("rpm", "--install", "--nodeps", *names)
        self.assertRegex(settings, r"(^|\n)1\n2\n$")
        self.assertRegex(run("getent", "passwd", "iat-nova"), r"^iat-nova:")
        owners = run("stat", "-c", "%U %a", "/var/lib/iat-nova", "/run/iat-nova")
        self.assertEqual("iat-nova 750\niat-nova 755\n", owners)
        for module, word in (("main", "doctor"), ("agent", "--config-file")):
            program = ("env", *MODULES, "python3", "-m", f"iat_nova.cmd.{module}")
            self.assertRegex(run(*program, "--version"), r"^iat-nova \d")
            self.assertIn(word, run(*program, "--help"))
        run("env", *MODULES, "python3", "-c", "import iat_nova_plugin.extra_specs")
        self.assertIn("Explain a decision", run("man", "iat-nova-explain"))
        self.assertNotIn("iat-nova", run("systemd-analyze", "verify", "iat-nova-agent.service"))
        run("sh", "-c", f"echo '# mine' >>{KEPT}")
        erase = ("env", *MODULES, "rpm", "--erase", "--nodeps")
        run("sed", "-i", "1s,.*,#!/usr/bin/python3,", "/usr/bin/iat-nova")  # was its builder's
        run("sh", "-c", "echo '{' >/var/lib/iat-nova/snapshot.json")
        refused = run(*erase, "iat-nova-agent", status=1)
        self.assertRegex(refused, "snapshot.json(?s:.*)iat-nova-agent is not removed")
        run("rm", "/var/lib/iat-nova/snapshot.json")
        run(*erase, *PACKAGES)
        left = run("find", "/usr", "/etc", "-xdev", "-name", "*iat[-_]nova*").split()
        self.assertEqual(["/etc/iat-nova", f"{KEPT}.rpmsave"], sorted(left))
