# SPDX-License-Identifier: Apache-2.0
"""README's two commands end with status 0 on a bare Debian, in the folder where people clone.

The root is minbase with git, sudo and certificates, and has from this machine what pip needs to
reach its index. It shares this machine's network: daemons that apt installs are not started.
"""

import os
import shutil
import subprocess
import tempfile
import unittest

from tests.packages.debian_root import OLD_SUITE, PROJECT, SUITE, Root, missing

BARE = ("bare", "--include=ca-certificates,git,sudo")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
PIP = [name for name in os.environ if name.startswith("PIP_") and name != "PIP_FIND_LINKS"]
PREPARED = f"""
[ ! -e /mnt/pip.conf ] || cp /mnt/pip.conf /etc/pip.conf
cp /mnt/certificates {CERTIFICATES}
printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
useradd --create-home --shell /bin/bash debian
echo 'debian ALL=(ALL:ALL) NOPASSWD: ALL' >/etc/sudoers.d/debian
for account in root debian; do su --login "$account" --command 'cp -r /mnt/iat-nova .'; done
mkdir -m 1777 /mnt/logs
"""


class Quickstart(unittest.TestCase):
    """A clone in the home folder; what the commands wrote stays in quickstart-run."""

    def setUp(self):
        if why := missing():
            self.skipTest(why)

    def run_both(self, suite, account):
        """Run both commands, the second also where the first fails."""
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="iat-nova-bare-"))
        root = Root(folder, *BARE, suite=suite)
        share = root.folder / "share"
        for file, name in (("/etc/pip.conf", "pip.conf"), (CERTIFICATES, "certificates")):
            if os.path.exists(file):
                shutil.copy(file, share / name)
        subprocess.run(["git", "clone", "-q", PROJECT, share / "iat-nova"], check=True)
        root.run("sh", "-ec", PREPARED)
        for command in ("./quickstart", "./quickstart test"):
            log = f"bare-{suite}-{account}{command[12:].replace(' ', '-')}.txt"
            script = f"(cd iat-nova && time {command}) >/mnt/logs/{log} 2>&1"
            with self.subTest(command, log=f"quickstart-run/{log}"):
                try:
                    root.run(
                        "bash", "-c", '"$@"; exit', "init",  # which reaps what daemons leave
                        "env", *(f"{name}={os.environ[name]}" for name in PIP),
                        "su", "--login", "--whitelist-environment", ",".join(PIP),
                        "--command", script, account,
                    )  # fmt: skip
                finally:
                    shutil.copytree(share / "logs", PROJECT / "quickstart-run", dirs_exist_ok=True)

    def test_debian_13_root(self):
        """By root, in /root, which no other account may read."""
        self.run_both(SUITE, "root")

    def test_debian_13_sudo(self):
        """By an ordinary user with sudo."""
        self.run_both(SUITE, "debian")

    def test_debian_12_root(self):
        """By root there."""
        self.run_both(OLD_SUITE, "root")

    def test_debian_12_sudo(self):
        """By an ordinary user there."""
        self.run_both(OLD_SUITE, "debian")
