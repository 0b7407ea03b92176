# SPDX-License-Identifier: Apache-2.0
"""Debian's packages under their own systemd: a root of Debian 13 in which they are installed.

/mnt/root is that root as tests/packages/debian_root.py leaves it, a layer over a clean Debian. What
is done to it here stays in memory. systemd is the only thing that is started; `STORY` is a service.
"""

import json
import subprocess
import unittest
from pathlib import Path

from tests.lab.guest import service
from tests.lab.guest.machine import unmount

LAYER = Path("/mnt/root")
ROOT = Path("/tmp/root")
SEEN = Path("/mnt/seen")
TIMEOUT_S = 500.0
# Guests are of libvirt's test driver; all else is as the package has it.
CONFIGURATION = service.CONFIGURATION.replace("mode = enforce\n", "")
DROP_IN = "\n".join(
    line for line in service.DROP_IN.splitlines() if not line.startswith("Standard")
)
STORY = """#!/bin/sh
# Observe as installed; enforce when told to; be purged at work.
exec >/mnt/seen/log 2>&1
set -x
seen() { [ ! -d /sys/fs/resctrl/iat-nova.1 ]; echo $? >"/mnt/seen/$1"; }
/usr/lib/systemd/systemd-sysctl
systemctl start iat-nova-agent
iat-nova status -f json >/mnt/seen/status.json
iat-nova explain instance-00000001 >/mnt/seen/explain
seen observing
echo 'mode = enforce' >>/etc/iat-nova/iat-nova.conf.d/lab.conf
systemctl restart iat-nova-agent
for second in $(seq 120); do [ ! -d /sys/fs/resctrl/iat-nova.1 ] || break; sleep 1; done
seen enforcing
systemctl show -p User,AmbientCapabilities,FragmentPath iat-nova-agent >/mnt/seen/unit
DEBIAN_FRONTEND=noninteractive dpkg --purge iat-nova-agent
echo $? >/mnt/seen/purged
seen afterwards
systemctl is-active iat-nova-agent >/mnt/seen/active
journalctl --no-pager -n 200 || true
"""
UNIT = f"""[Unit]
DefaultDependencies=no
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
TimeoutStartSec={TIMEOUT_S:.0f}
ExecStart=/story
"""
ENTER = """
mount --make-rprivate /
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mount --bind /mnt "$1/mnt"
mount -t tmpfs -o mode=755 run "$1/run"
mkdir -p "$1/run/systemd/system/iat-nova-agent.service.d"
cp "$1/story.service" "$1/run/systemd/system"
cp "$1/lab.conf" "$1/run/systemd/system/iat-nova-agent.service.d"
cd "$1"
mkdir -p old
pivot_root . old
umount --lazy /old
mount --make-rshared /
exec env -i container=lab PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/lib/systemd/systemd --system \
    --unit=story.service --log-target=kmsg --show-status=no
"""


class Packaged(unittest.TestCase):
    def setUp(self):
        layers = f"{LAYER}/upper:{(LAYER / 'lower').read_text().strip()}"
        for name in ("upper", "work", "root"):
            (ROOT.parent / name).mkdir()
        subprocess.run(
            ["mount", "-t", "overlay", "overlay", "-o",
             f"lowerdir={layers},upperdir=/tmp/upper,workdir=/tmp/work", ROOT],
            check=True,
        )  # fmt: skip
        own = ROOT / "etc/iat-nova/iat-nova.conf.d"
        own.mkdir()
        (own / "lab.conf").write_text(
            CONFIGURATION.split("[compute]")[0].replace("/node.xml", "/iat-nova.conf.d/node.xml")
        )
        (own / "node.xml").write_text(service.GUEST)
        (own / "a-compute.conf").write_text(
            "[compute]" + CONFIGURATION.split("[compute]")[1]
        )  # before lab.conf, to which the story appends
        (ROOT / "story").write_text(STORY)
        (ROOT / "story").chmod(0o755)
        (ROOT / "story.service").write_text(UNIT)
        (ROOT / "lab.conf").write_text(DROP_IN)
        unmount()
        subprocess.run(["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"], check=True)
        SEEN.mkdir()

    def test_observes_enforces_and_is_purged(self):
        """As installed it only looks; told to, it enforces; purged at work, all is as found."""
        as_found = service.found()
        systemd = ["unshare", "--fork", "--pid", "--mount", "sh", "-ec", ENTER, "sh", ROOT]
        subprocess.run(systemd, timeout=TIMEOUT_S + 60, check=False)
        kernel = subprocess.run(["dmesg"], capture_output=True, text=True, check=False).stdout
        log = SEEN / "log"
        said = f"{log.read_text() if log.exists() else 'no story'}\n{kernel[-8000:]}"
        seen = {one.name: one.read_text().strip() for one in SEEN.glob("*")}
        self.assertEqual("observe", json.loads(seen.get("status.json") or "{}").get("mode"), said)
        self.assertIn("instance-00000001", seen["explain"])
        groups = [seen.get(name) for name in ("observing", "enforcing", "afterwards")]
        self.assertEqual(["0", "1", "0"], groups, said)
        self.assertIn("User=iat-nova", seen["unit"])
        self.assertIn("FragmentPath=/usr/lib/systemd/system/iat-nova-agent.service", seen["unit"])
        self.assertEqual(("0", "inactive"), (seen["purged"], seen["active"]), said)
        self.assertEqual(as_found, service.found(), said)
        for name in ("var/lib/iat-nova", "etc/iat-nova", "usr/bin/iat-nova"):
            self.assertFalse((ROOT / name).exists(), name)
