# SPDX-License-Identifier: Apache-2.0
"""Tempest runs the plug-in, in an environment of its own that knows the cloud.

Tempest takes some 140 MB, so its environment is made once: ``$IAT_NOVA_TEMPEST_VENV`` names one, or
``quickstart-run/tempest-venv`` is made where ``$CI`` is true.
"""

import os
import pathlib
import re
import subprocess
import unittest
from typing import ClassVar

from tests.nova.api import AUTH_URL, PASSWORD, PLAIN, REGION
from tests.nova.case import GuestCase
from tests.nova.cloud import why_not
from tests.openstack import own_venv
from tests.openstack.nova_venv import on_top

PLUGIN = own_venv.ROOT / "tests" / "tempest-plugin"
PACKAGES = ("tempest>=38",)
DEADLINE_S = 300.0

CONFIGURATION = """
[auth]
admin_username = admin
admin_password = {password}
admin_project_name = admin
admin_domain_name = Default
use_dynamic_credentials = true
create_isolated_networks = false
[identity]
uri_v3 = {url}
region = {region}
[compute]
image_ref = {image}
flavor_ref = {flavor}
build_interval = 1
[service_available]
cinder = false
neutron = false
swift = false
[oslo_concurrency]
lock_path = {folder}/lock
"""


class TempestTests(GuestCase):
    """Mixed into the class that has the cloud."""

    python: ClassVar[pathlib.Path]
    no_tempest: ClassVar[Exception | None] = None

    @classmethod
    def setUpClass(cls) -> None:
        """Install Tempest and the plug-in first: from the cloud's network nothing is fetched."""
        if why_not() is None:
            try:
                venv = own_venv.made("tempest", "IAT_NOVA_TEMPEST_VENV", PACKAGES, 140)
                cls.python = on_top(venv, str(PLUGIN))
            except (AssertionError, subprocess.CalledProcessError, unittest.SkipTest) as reason:
                cls.no_tempest = reason  # of that test alone
        super().setUpClass()

    def tempest(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Tempest's in its workspace."""
        return subprocess.run(
            [self.python, "-m", "tempest.cmd.main", *words],
            cwd=self.folder,
            env={"PATH": os.environ.get("PATH", ""), "HOME": str(self.cloud.folder)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def test_tempest_plugin(self) -> None:
        """Its tests are found by Tempest and pass; nothing is left of what they made."""
        if self.no_tempest is not None:
            raise self.no_tempest
        self.folder = self.cloud.folder / "tempest"
        self.folder.mkdir()
        done = self.tempest("init")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        # A disk: without one a server is for administrators alone.
        size = {"name": "tempest", "ram": 128, "vcpus": 1, "disk": 1}
        flavor = self.cloud.api.nova("POST", "/flavors", {"flavor": size})["flavor"]["id"]
        self.addCleanup(self.cloud.api.nova, "DELETE", f"/flavors/{flavor}")
        text = CONFIGURATION.format(
            url=AUTH_URL, password=PASSWORD, region=REGION, image=PLAIN, folder=self.folder,
            flavor=flavor,
        )  # fmt: skip
        (self.folder / "etc/tempest.conf").write_text(text)
        before = self.cloud.api.nova("GET", "/flavors")
        done = self.tempest("run", "--concurrency", "1", "--regex", "^iat_nova_tempest_plugin")
        said = done.stdout + done.stderr
        self.assertEqual(0, done.returncode, said)
        passed = re.findall(r"ExtraSpecsTest\.(\w+)\S* \[\S+\] \.\.\. ok", said)
        self.assertEqual(
            {"test_mistakes_are_refused", "test_priority_is_taken_and_seen"}, set(passed), said
        )
        self.assertEqual(before, self.cloud.api.nova("GET", "/flavors"))
        self.assertEqual([], self.cloud.api.nova("GET", "/servers?all_tenants=1")["servers"])
