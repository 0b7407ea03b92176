# SPDX-License-Identifier: Apache-2.0
"""What was rolled out and is not in force is told, with what puts it into force."""

import pathlib
import shutil
import tempfile
import unittest
from unittest import mock

from iat_nova import conf
from iat_nova.agent import on_disk, policy_file
from iat_nova.common import config_files
from iat_nova.model import message
from iat_nova.model.reasons import Code
from tests.unit import stories

POLICY = "parameters: {ddio_ways_max: 3}\n"


class DriftTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.policy, self.config = self.folder / "policy.yaml", self.folder / "nova.conf"
        self.policy.write_text(POLICY)
        self.configure()
        self.watch()
        self.running = policy_file.load(self.policy, stories.facts().host)

    def configure(self, mode="observe", more=""):
        self.config.write_text(
            f"[iat]\nmode = {mode}\npolicy_file = {self.policy}\n{more}[DEFAULT]\nx = 1\n"
        )

    def watch(self):
        named = [f"{self.folder}/"]
        self.files = on_disk.OnDisk(conf.load(named), lambda: config_files.expanded(named))

    def drift(self):
        return {one.code: one.message for one in self.files.drift(self.running)}

    def test_nothing_changed(self):
        """As at the start; what is not ours may change."""
        self.assertEqual({}, self.drift())
        self.config.write_text(self.config.read_text().replace("x = 1", "x = 22"))
        self.assertEqual({}, self.drift())

    def test_a_policy_that_nobody_read(self):
        """It is told until it runs, or lies there again as it runs."""
        self.policy.write_text(POLICY.replace("3", "4"))
        unread = message("policy-unread", path=str(self.policy))
        self.assertEqual({Code.POLICY_UNREAD: unread}, self.drift())
        self.policy.write_text(POLICY)
        self.assertEqual({}, self.drift())
        self.policy.write_text(POLICY.replace("3", "4"))
        self.running = policy_file.load(self.policy, stories.facts().host)
        self.assertEqual({}, self.drift())

    def test_a_policy_that_is_gone(self):
        """The agent goes on; its next start would fail."""
        self.policy.unlink()
        self.assertEqual("policy-unreadable", self.drift()[Code.POLICY_UNREAD].code)

    def test_the_default_policy_has_no_file(self):
        """There is nothing to differ from."""
        self.config.write_text("[iat]\n")
        self.watch()
        self.assertEqual({}, self.drift())

    def test_a_mode_that_waits_for_a_restart(self):
        """Which options differ is told, and it ends when the file is as it was."""
        self.configure("enforce", "interval = 3\nhistory_days = 3\n")
        ((code, unread),) = self.drift().items()
        self.assertEqual((Code.CONFIG_UNREAD, "config-unread"), (code, unread.code))
        differ = {one.values["option"]: one.values for one in unread.values["options"]}
        self.assertLessEqual({"mode", "history_days"}, differ.keys())
        self.assertEqual({"option": "mode", "now": "enforce", "running": "observe"}, differ["mode"])
        self.configure()
        self.assertEqual({}, self.drift())

    def test_a_file_that_came(self):
        """A file that the next start would read counts like a line in one that was there."""
        other = self.folder / "z.conf"
        other.write_text("[iat]\nstrategy = iat\n")
        (differs,) = self.drift()[Code.CONFIG_UNREAD].values["options"]
        self.assertEqual(("strategy", "iat"), (differs.values["option"], differs.values["now"]))
        other.unlink()
        self.assertEqual({}, self.drift())

    def test_a_configuration_that_cannot_be_used(self):
        """It is told before the restart that would fail."""
        for text in ("mode = perhaps", "state_dir = $state_dir/iat"):
            self.config.write_text(f"[iat]\n{text}\n")
            for _ in range(2):
                self.assertEqual("config-invalid", self.drift()[Code.CONFIG_UNREAD].code)
        shutil.rmtree(self.folder)
        self.assertEqual("config-invalid", self.drift()[Code.CONFIG_UNREAD].code)
        self.folder.mkdir()

    def test_what_was_not_touched_is_not_read_again(self):
        """A look costs a look at the files' times."""
        self.drift()
        read = []
        self.enterContext(mock.patch.object(on_disk, "load", read.append))
        self.drift()
        self.assertEqual([], read)
