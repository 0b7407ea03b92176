# SPDX-License-Identifier: Apache-2.0
"""A snapshot of the first release, which every later version restores.

At an upgrade the host is restored by a version that did not save it: the old agent was killed, or
the new one cannot adopt what the old one handed over. A version that refuses the file leaves the
host changed. So a new format needs a reader of this one, too.
"""

import json

from iat_nova.hardware.enforcement.snapshot_file import SnapshotFile
from iat_nova.hardware.host import backends
from tests.unit.hardware import test_probe

PARTS = {
    "ddio io_alloc": {"masks": {"0": "ffff"}, "state": "enabled"},
    "ddio iordt": {"switches": {"0": 0, "1": 0}, "tags": [[0, 1, 0, 0], [0, 1, 1, 32769]]},
    "ddio msr": {"0": "600", "1": "600"},
    "iordt rmids": {"switches": {"0": 0}, "tags": [[0, 1, 0, 0]]},
    "port dca": {"0000:3a:00.0": 128},
    "pqos-msr": {
        "bandwidth": {"0": {"0": 100}},
        "classes": {"0": 0, "1": 0},
        "masks": {"0": {"0": 2047, "1": 2047}},
    },
    "resctrl": {
        "default": {"L3CODE": {"0": "7ff"}, "L3DATA": {"0": "7ff"}},
        "monitors": {"theirs": "0-1,3"},
    },
}
BOOT = "5c3d1e0a-8e63-4c8e-9a55-3f0f3c3f1a77"
CHECKSUM = "7c9b903e308e2b308051250a42e1d293ccb8a2422ced663a36bd29f6378bb277"


class FirstRelease(test_probe.HostCase):
    """Format 2, with every part that an agent can save."""

    def test_read(self):
        """Checksum, format and the form of each part are accepted as they were written."""
        restorers = backends.restorers(self.host())
        self.assertEqual(PARTS.keys(), restorers.keys())
        snapshot, boot_id = self.folder / "snapshot.json", self.folder / "boot_id"
        content = {"format": 2, "boot": BOOT, "parts": PARTS, "sha256": CHECKSUM}
        snapshot.write_text(json.dumps(content))
        boot_id.write_text(f"{BOOT}\n")
        shapes = {name: part.shape for name, part in restorers.items()}
        self.assertEqual(PARTS, SnapshotFile(snapshot, shapes, boot_id=boot_id).read())
