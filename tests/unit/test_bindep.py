# SPDX-License-Identifier: Apache-2.0
"""bindep.txt is what bindep understands, and ./quickstart reads the same from it."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).parents[2]
LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9+_.-]+)(?: \[([a-z0-9:. -]+)\])?")  # bindep's grammar

# quickstart's own function, with nothing installed.
MISSING = """
dpkg-query() { :; }
eval "$(sed -n "/^DPDK_DRIVERS=/,/]'/p; /^missing_packages/,/^}/p" quickstart)"
missing_packages %s
"""


def wanted(platforms: set[str], profiles: set[str]) -> list[str]:
    """Return the packages of a platform as bindep chooses: one of each kind of selector."""
    found = []
    for line in (ROOT / "bindep.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, selectors = LINE.fullmatch(line).groups()
        here = {one.removeprefix("platform:") for one in (selectors or "").split() if ":" in one}
        asked = {one for one in (selectors or "").split() if ":" not in one}
        if (not here or here & platforms) and (not asked or asked & profiles):
            found.append(name)
    return found


class BindepTest(unittest.TestCase):
    def test_its_lines(self) -> None:
        """Each is one that bindep can parse; no package is there twice for a platform."""
        names = wanted({"dpkg", "debian"}, {"compile", "doc", "lab", "test"})
        self.assertEqual(sorted(set(names)), sorted(names))
        self.assertIn("libvirt-dev", names)

    def test_quickstart_reads_it_so(self) -> None:
        """For the demonstration and for the tests, with what has no name for bindep."""
        for asked, profiles, more in (
            ("demo", {"compile"}, []),
            ("doc", {"compile", "doc"}, []),
            ("test", {"compile", "test"}, ["librte-mempool-ring*", "librte-net-null*"]),
            ("test lab", {"compile", "lab", "test"}, ["librte-mempool-ring*", "librte-net-null*"]),
        ):
            command = ["bash", "-euc", MISSING % asked]
            said = subprocess.check_output(command, cwd=ROOT, text=True).split()
            self.assertEqual(wanted({"dpkg", "debian"}, profiles) + more, said)

    def test_a_python_for_each_rpm(self) -> None:
        """RHEL 9's own Python is too old."""
        for system, version in (("rhel", 9), ("centos", 10), ("fedora", 44), ("rocky", 9)):
            names = wanted({"rpm", system, f"{system}-{version}"}, {"compile"})
            python = "python3.11-devel" if version == 9 else "python3-devel"
            self.assertEqual(
                [python], [name for name in names if "python" in name and "dev" in name]
            )
            self.assertEqual(1, sum("openvswitch" in name for name in names))
