# SPDX-License-Identifier: Apache-2.0
"""The reference page describes everything there is, with examples that work."""

import json
import unittest
from collections.abc import Iterator
from typing import Any

import docutils.core

from iat_nova import policy
from iat_nova.nova import extra_specs
from iat_nova.policy.render import FACTS
from iat_nova.policy.schema import SCHEMA, WAYS_LIMIT
from tests.unit import pages
from tests.unit.policy.hosts import ONE


def leaves(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key of the schema that has no keys of its own, with its path."""
    for key, below in schema["properties"].items():
        inner = below.get("items", {}) if below.get("type") == "array" else below
        marked = f"{key}[]" if inner is not below and "properties" in inner else key
        if "properties" in inner:
            yield from leaves(inner, (*path, marked))
        else:
            yield (*path, key), below


class ReferenceTest(unittest.TestCase):
    def test_complete(self) -> None:
        """Every key, extra spec and host fact is on the page."""
        page = pages.extension("policy_reference").reference()
        for path, _ in leaves(SCHEMA):
            self.assertIn(".".join(path), page)
        for key in extra_specs.KEYS:
            self.assertIn(f"``{key.name}``", page)
        for fact in FACTS:
            self.assertIn(f"``{{{{ {fact} }}}}``", page)

    def test_limits_of_ways(self) -> None:
        """No number of ways may be above what an extra spec may ask for."""
        parameters = SCHEMA["properties"]["parameters"]["properties"]
        for key in ("ddio_ways_min", "ddio_ways_max"):
            self.assertEqual(WAYS_LIMIT, parameters[key]["maximum"])
        reserved = SCHEMA["properties"]["reserved_ways"]["items"]
        self.assertEqual(WAYS_LIMIT - 1, reserved["maximum"])

    def test_valid_markup(self) -> None:
        """The page is reStructuredText without a warning."""
        docutils.core.publish_doctree(
            pages.extension("policy_reference").reference(), settings_overrides={"halt_level": 2}
        )

    def test_every_key_is_described_with_an_example_that_works(self) -> None:
        """Examples and defaults are accepted where they are shown."""
        for path, schema in leaves(SCHEMA):
            with self.subTest(".".join(path)):
                self.assertTrue(schema["description"])
                self.assertTrue(schema["examples"])
                for value in (*schema["examples"], schema.get("default", schema["examples"][0])):
                    if value is not None:
                        policy.parse(json.dumps(nested(path, value)), ONE)


def nested(path: tuple[str, ...], value: object) -> object:
    """A policy with one value in its place."""
    for step in reversed(path):
        if step.endswith("[]"):
            assert isinstance(value, dict)
            value = {step[:-2]: [{"name": "c", **value}]}
        else:
            value = {step: value}
    return value
