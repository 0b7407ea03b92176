# SPDX-License-Identifier: Apache-2.0
"""What the packages of distributions ask for is what the project requires."""

import configparser
import pathlib
import re
import sys
import tomllib
import unittest

from tools import constraints

ROOT = pathlib.Path(__file__).parents[2]
NAMES = {
    "cattrs": ("python3-cattr", "python3-cattrs"),
    "jinja2": ("python3-jinja2", "python3-jinja2"),
    "libvirt-python": ("python3-libvirt", "python3-libvirt"),
    "oslo.config": ("python3-oslo.config", "python3-oslo-config"),
    "oslo.log": ("python3-oslo.log", "python3-oslo-log"),
    "oslo.messaging": ("python3-oslo.messaging", "python3-oslo-messaging"),
    "ovs": ("python3-openvswitch", "python3-openvswitch"),
    "pyyaml": ("python3-yaml", "python3-pyyaml"),
}
"""Packages of Debian and of RDO whose names differ from the distribution's."""


def required(lines):
    """Return the least version of each distribution, by name."""
    found = (re.match(r"([\w.-]+)>=([\d.]+)", line) for line in lines)
    return {match[1].lower(): match[2] for match in found if match}


def of_debian():
    """Return the least version of each package, by the package that asks for it."""
    paragraphs = (ROOT / "tools/packaging/debian/control").read_text().split("\n\n")
    return {
        re.search(r"^Package: (.*)", text, re.MULTILINE)[1]: dict(
            re.findall(
                r"([\w.-]+) \(>= (?:1:)?([\d.]+)\)",
                re.search(r"^Depends:(.*(?:\n .*)*)", text, re.MULTILINE)[1],
            )
        )
        for text in paragraphs[1:]
    }


def of_rpm():
    """Return the same of the spec file."""
    spec = (ROOT / "tools/packaging/rpm/iat-nova.spec").read_text()
    found = {}
    for text in re.split(r"^%package ", spec, flags=re.MULTILINE)[1:]:
        name = text.split("\n")[0].removeprefix("-n ")
        found["iat-nova-agent" if name == "agent" else name] = dict(
            re.findall(r"^Requires: +([\w.-]+) >= ([\d.]+)", text, re.MULTILINE)
        )
    return found


class TestRequirements(unittest.TestCase):
    def test_constraints_of_pip(self):
        """They name what an installation has, no more and no less."""
        lines = (ROOT / "etc/iat-nova/constraints.txt").read_text().splitlines()[1:]
        versions = dict(line.split("==") for line in lines)
        names = set(constraints.closure())
        self.assertEqual(set(), names - versions.keys())
        if sys.version_info[:2] == (3, 11):  # a later one needs fewer
            self.assertEqual(set(), versions.keys() - names)

    def test_both_ask_for_what_is_required(self):
        """Agent, emulated server, Nova's part: the same packages in the same least versions."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        plugin = tomllib.loads((ROOT / "iat_nova/nova/pyproject.toml").read_text())["project"]
        agent = required((ROOT / "requirements.txt").read_text().splitlines())
        agent.pop("pbr")  # whatever is there: only building needs a later one
        wanted = {
            "iat-nova-agent": agent,
            "python3-iat-nova-simulator": required(project["optional-dependencies"]["sim"]),
            "python3-iat-nova-plugin": required(plugin["dependencies"]),
        }
        for which, found in enumerate((of_debian(), of_rpm())):
            for package, needs in wanted.items():
                names = {
                    NAMES.get(name, (f"python3-{name}",) * 2)[which]: version
                    for name, version in needs.items()
                }
                with self.subTest(package, which=which):
                    self.assertEqual(names, found[package])

    def test_what_the_page_says_is_needed(self):
        """The table of another distribution has the least versions that Debian's control has."""
        page = (ROOT / "doc/source/operator/install.rst").read_text()
        control = (ROOT / "tools/packaging/debian/control").read_text()
        needed = dict(re.findall(r"(python3-[\w.-]+) \(>= (?:1:)?([\d.]+)\)", control))
        rows = dict(
            re.findall(r'^   "[^"]*``(python3-[\w.-]+)``[^"]*", "([\d.]+)", "', page, re.MULTILINE)
        )
        self.assertGreater(len(rows), 10)
        self.assertEqual({name: needed.get(name) for name in rows}, rows)


class TestVersion(unittest.TestCase):
    def test_without_a_tag(self):
        """A build without git tags has that of setup.cfg, a spec file without a value as well."""
        config = configparser.ConfigParser()
        config.read(ROOT / "setup.cfg")
        spec = (ROOT / "tools/packaging/rpm/iat-nova.spec").read_text()
        found = re.search(r"global upstream_version ([\d.]+)\}", spec)[1]
        self.assertEqual(config["metadata"]["version"], found)
        for folder in ("iat_nova/nova", "iat_nova/watcher", "tests/tempest-plugin"):
            own = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
            self.assertEqual(found, own["project"]["version"], folder)
