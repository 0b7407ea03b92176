# SPDX-License-Identifier: Apache-2.0
"""The notification driver inside a real oslo.messaging Notifier, with Nova's own payloads."""

import os
import pathlib
import tempfile

from iat_nova.inventory.spool import Spool
from tests.openstack.nova_venv import NovaCase

ONE = "6f9619ff-8b86-4011-b42d-00cf4fc964ff"
TWO = "0b6b2c1a-4b0e-4c8e-9a51-2c8d8e8f0a11"
SPECS = {"iat:priority": "PC", "hw:cpu_policy": "dedicated"}


def step(action, phase="end", uuid=ONE, *, host="here", instance_host="here", state="active",
         extra_specs=None):  # fmt: skip
    return {
        "action": action,
        "phase": phase,
        "uuid": uuid,
        "host": host,
        "instance_host": instance_host,
        "state": state,
        "extra_specs": SPECS if extra_specs is None else extra_specs,
    }


NOVA_CONF = """
[DEFAULT]
transport_url = fake:/
[notifications]
notification_format = {format}
[oslo_messaging_notifications]
driver = iat_spool
# oslo.messaging's own, which keeps what it is given; it comes after ours.
driver = test
[iat]
state_dir = {state_dir}
"""


class NotifierTest(NovaCase):
    """What Nova sends, what the agent then reads."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.state_dir = self.folder / "state"
        self.state_dir.mkdir()
        self.spool = Spool(self.state_dir / "spool")

    def run_nova(self, *steps, format="both", garbage=()):
        nova_conf = self.folder / "nova.conf"
        nova_conf.write_text(NOVA_CONF.format(format=format, state_dir=self.state_dir))
        return self.run_in_nova("notify.py", nova_conf=str(nova_conf), steps=steps, garbage=garbage)

    def send(self, *steps, **more):
        answer = self.run_nova(*steps, **more)
        expected = [f"instance.{each['action']}.{each['phase']}" for each in steps]
        self.assertEqual(expected, answer["sent"][: len(expected)], "the next driver lost some")
        return answer

    def test_a_guests_life(self):
        """Written at its creation, replaced at a resize, removed at its deletion."""
        self.send(step("power_on"), step("power_on", uuid=TWO, extra_specs={}))
        self.assertEqual(SPECS, self.spool.extra_specs_of(ONE))
        self.assertEqual({}, self.spool.extra_specs_of(TWO))
        self.send(step("resize_finish", extra_specs={"iat:priority": "BE"}))
        self.assertEqual({"iat:priority": "BE"}, self.spool.extra_specs_of(ONE))
        answer = self.send(step("delete", state="deleted", instance_host=None))
        self.assertIsNone(self.spool.extra_specs_of(ONE))
        self.assertEqual([f"{TWO}.json"], os.listdir(self.state_dir / "spool"))
        self.assertEqual([], answer["logged"])

    def test_migrations(self):
        """A guest that left is forgotten; one that comes is known before its record says so."""
        self.send(step("power_on"), step("power_on", uuid=TWO))
        self.send(
            step("live_migration_post"),
            step("resize", uuid=TWO, instance_host="there"),
        )
        self.assertEqual([], os.listdir(self.state_dir / "spool"))
        self.send(step("live_migration_pre", instance_host="there"))
        self.assertEqual(SPECS, self.spool.extra_specs_of(ONE))
        self.send(step("live_migration_rollback_dest", instance_host="there"))
        self.assertIsNone(self.spool.extra_specs_of(ONE))

    def test_a_folder_that_cannot_be_written(self):
        """Nova's own notifications go on, and the log says it once."""
        (self.state_dir / "spool").write_text("a file, not a folder")
        answer = self.send(step("power_on"), step("reboot"), step("pause"))
        self.assertEqual(1, len(answer["logged"]), answer["logged"])
        self.assertIn("File exists; [iat] spool_dir names the folder", answer["logged"][0])

    def test_a_state_folder_that_is_missing(self):
        """A missing parent is a failure like any other; it is not made with Nova's rights."""
        self.state_dir = self.folder / "missing"
        answer = self.send(step("power_on"))
        self.assertEqual(1, len(answer["logged"]), answer["logged"])
        self.assertIn("No such file or directory; make the folder", answer["logged"][0])
        self.assertFalse(self.state_dir.exists())

    def test_garbage(self):
        """Payloads that no Nova sends neither raise nor leave a file."""
        deep = {"nova_object.data": {"uuid": ONE, "flavor": {"nova_object.data": []}}}
        garbage = [
            None, [], "text", {"nova_object.data": {"uuid": "../../etc/passwd"}}, deep,
            {"nova_object.data": {"uuid": ONE, "flavor": None, "host": 7, "state": []}},
        ]  # fmt: skip
        answer = self.send(garbage=garbage)
        self.assertEqual(len(garbage), len(answer["sent"]))
        self.assertEqual([], answer["logged"])
        self.assertFalse((self.state_dir / "spool").exists())

    def test_unversioned_notifications_write_nothing(self):
        """They carry no extra specs: notification_format must be versioned or both."""
        self.run_nova(step("power_on"), format="unversioned")
        self.assertFalse((self.state_dir / "spool").exists())
