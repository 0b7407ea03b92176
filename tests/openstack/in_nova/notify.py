# SPDX-License-Identifier: Apache-2.0
"""Under Nova's Python: send the notifications of nova-compute through a real oslo.messaging.

In: {"nova_conf": FILE, "garbage": [PAYLOAD, ...], "steps": [{"host": .., "action": ..,
"phase": .., "uuid": .., "instance_host": .., "state": .., "extra_specs": {..}}, ...]}. Out: what
reached another driver, and our lines of the log. An exception that reaches Nova ends the script.
"""

import datetime
import json
import logging
import sys

import nova.conf
import oslo_messaging
from nova import context, objects, rpc
from nova.compute import utils
from nova.network import model
from oslo_messaging.notify import _impl_test

asked = json.loads(sys.argv[1])
CONF = nova.conf.CONF
objects.register_all()


class Logged(logging.Handler):
    """Keeps what is logged."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(f"{record.name}: {record.getMessage()}")


logged = Logged()
logging.getLogger().addHandler(logged)

CONF([], project="nova", default_config_files=[asked["nova_conf"]], default_config_dirs=[])
rpc.init(CONF)


def instance(step):
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    flavor = objects.Flavor(
        flavorid="7", name="nfv.large", memory_mb=1024, vcpus=2, root_gb=0, ephemeral_gb=0, swap=0,
        rxtx_factor=1.0, vcpu_weight=0, disabled=False, is_public=True, description=None,
        extra_specs=step["extra_specs"] or {},
    )  # fmt: skip
    return objects.Instance(
        context.get_admin_context(), id=1, uuid=step["uuid"], user_id="user", project_id="project",
        reservation_id="r-1", display_name="guest", display_description="", hostname="guest",
        host=step["instance_host"], node=step["instance_host"], os_type=None, architecture=None,
        availability_zone="nova", image_ref="", key_name=None, kernel_id="", ramdisk_id="",
        created_at=now, launched_at=now, terminated_at=None, deleted_at=None, updated_at=now,
        vm_state=step["state"], power_state=1, task_state=None, progress=0, metadata={},
        locked=False, auto_disk_config=False, system_metadata={}, flavor=flavor, deleted=False,
        info_cache=objects.InstanceInfoCache(network_info=model.NetworkInfo([])),
    )  # fmt: skip


for step in asked["steps"]:
    utils.notify_about_instance_action(
        context.RequestContext("user", "project"),
        instance(step),
        step["host"],
        step["action"],
        phase=step["phase"],
        bdms=[],
    )
if asked["garbage"]:
    transport = oslo_messaging.get_notification_transport(CONF)
    raw = oslo_messaging.Notifier(transport, publisher_id="nova-compute:here")
    for payload in asked["garbage"]:
        raw.info({}, "instance.create.end", payload)

print(
    json.dumps(
        {
            "sent": [message["event_type"] for _, message, _, _ in _impl_test.NOTIFICATIONS],
            "logged": [line for line in logged.lines if "iat" in line or "Problem" in line],
        }
    )
)
