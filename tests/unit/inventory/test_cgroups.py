# SPDX-License-Identifier: Apache-2.0
import pathlib
import tempfile
import unittest

from iat_nova.inventory import cgroups


class CgroupTest(unittest.TestCase):
    def test_guests(self):
        """A guest's group is known by libvirt's id, in each place and version of cgroups."""
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        unified, legacy = "cpuset.cpus.effective", "cpuset.effective_cpus"
        for path, file, cpus in (
            (r"machine.slice/machine-qemu\x2d7\x2da\x2d1.scope", unified, "0-3"),
            (r"machine.slice/machine-x.slice/machine-qemu\x2d8\x2db.scope", unified, "4"),
            ("machine/qemu-9-c.libvirt-qemu", unified, ""),
            ("cpuset/machine.slice/qemu-10-d.libvirt-qemu", legacy, "5,7"),
            (r"machine.slice/machine-lxc\x2d11\x2de.scope", unified, "1"),
        ):
            (root / path).mkdir(parents=True)
            (root / path / file).write_text(f"{cpus}\n")
        found = cgroups.of_guests(root)
        cpus = {run: cgroups.allowed_cpus(group) for run, group in found.items()}
        self.assertEqual({7: {0, 1, 2, 3}, 8: {4}, 9: None, 10: {5, 7}}, cpus)
        self.assertEqual({}, cgroups.of_guests(root / "absent"))
        self.assertIsNone(cgroups.allowed_cpus(None))
