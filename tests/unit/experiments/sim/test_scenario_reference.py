# SPDX-License-Identifier: Apache-2.0
"""The scenario's reference page describes everything there is, and its defaults are true."""

import copy
import dataclasses
import sys
import unittest

import docutils.core
import yaml

from iat_nova.experiments.machines.machine import MACHINES
from iat_nova.experiments.scenarios import load_reader
from iat_nova.experiments.scenarios.checked import SCHEMA
from iat_nova.experiments.scenarios.profiles import PROFILES
from iat_nova.experiments.scenarios.reader import load_scenario, read_scenario
from iat_nova.experiments.scenarios.scenario import Stay
from tests.unit import pages

EXAMPLE = pages.SOURCE / "examples" / "scenario.yaml"
# As little as can be said of everything: what is left out has its default.
LEAST = {
    "length": "1s",
    "nics": {"n": {"address": "0000:3b:00.0", "speed": "40Gb/s"}},
    "disks": {"d": {"address": "0000:5e:00.0", "speed": "3.2GB/s"}},
    "guests": [{"name": "g", "uuid": "u", "attachments": [{"kind": "vf", "device": "v"}]}],
    "switch": {"cpus": [2], "ports": [{"name": "p", "type": "dpdk"}]},
    "workloads": {
        "w": {"profile": "testpmd", "cpus": [4], "nic": "n"},
        "x": {"profile": "xmem", "cpus": [5]},
        "f": {"profile": "fio", "cpus": [6], "disk": "d"},
    },
    "traffic": {
        "t": {"to": "w", "rate": "1Gb/s", "packet": "64B"},
        "c": {"to": "w", "clients": 4, "packet": "64B"},
    },
    "events": [{"at": "500ms", "set": "x.duty", "to": "50%"}],
}


def keys(schema, path=""):
    """Yield every key with keys of its own or without, as the page writes it, and its schema."""
    for key, below in schema.get("properties", {}).items():
        yield path + key, below
        if "properties" in below:
            yield from keys(below, f"{path}{key}.")
        elif isinstance(below.get("items"), dict):
            yield from keys(below["items"], f"{path}{key}[].")
        elif isinstance(below.get("additionalProperties"), dict):
            yield from keys(below["additionalProperties"], f"{path}{key}.NAME.")


def written_out(value, schema):
    """Return a part of a scenario with the defaults of what it leaves out."""
    if isinstance(value, list):
        return [written_out(one, schema.get("items", {})) for one in value]
    if not isinstance(value, dict):
        return value
    known, other = schema.get("properties", {}), schema.get("additionalProperties", {})
    of = {key: known.get(key, other) for key in value}
    whole = {key: written_out(one, of[key]) for key, one in value.items()}
    usable = set(known)
    if "profile" in value:
        profile = PROFILES[value["profile"]]
        usable = set(load_reader.keys(profile))
    if "clients" in value:
        usable = set()
    return {
        k: one["default"] for k, one in known.items() if "default" in one and k in usable
    } | whole


class ReferenceTest(unittest.TestCase):
    def setUp(self):
        path = str(pages.SOURCE / "_ext")
        sys.path.insert(0, path)
        self.addCleanup(sys.path.remove, path)
        self.page = pages.extension("scenario_reference").reference()

    def test_complete(self):
        """Every key that a file may have, every machine and every profile."""
        found = dict(keys(SCHEMA))
        self.assertGreater(len(found), 80)
        for path, schema in found.items():
            self.assertTrue(schema.get("description"), path)
            shown = f"{path}\n---" if path.isalpha() and schema.get("type") else f"``{path}``\n"
            self.assertTrue(shown in self.page or f"``{path}``\n" in self.page, path)
        for name in (*MACHINES, *PROFILES):
            self.assertIn(f"\n``{name}``\n", self.page)

    def test_every_key_says_what_counts_without_it(self):
        """A default, words for it, or that it must be given."""
        for path, schema in keys(SCHEMA):
            if {"properties", "items", "additionalProperties"}.isdisjoint(schema):
                part = self.page.partition(f"``{path}``\n")[2].partition("\n``")[0]
                self.assertRegex(part, r":Default: \S", path)

    def test_defaults_are_true(self):
        """Written out they change nothing."""
        least = read_scenario(yaml.safe_dump(LEAST), "n", "n.yaml")
        whole = written_out(copy.deepcopy(LEAST), SCHEMA)
        self.assertEqual("br-int", whole["switch"]["bridge"])
        self.assertEqual(4096, whole["workloads"]["f"]["depth"] * 128)
        found = read_scenario(yaml.safe_dump(whole), "n", "n.yaml")
        self.assertEqual({"u": Stay()}, found.stays)  # from the start, for ever
        self.assertEqual(least, dataclasses.replace(found, stays={}))

    def test_valid_markup(self):
        """The page is reStructuredText without a warning."""
        docutils.core.publish_doctree(self.page, settings_overrides={"halt_level": 2})

    def test_example(self):
        """The page's own scenario can be read."""
        self.assertEqual("One guest on a VF", load_scenario(EXAMPLE).title)
