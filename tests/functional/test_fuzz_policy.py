# SPDX-License-Identifier: Apache-2.0
"""All that is written in a policy is compiled or refused with words, never anything else."""

import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from iat_nova import policy
from iat_nova.policy.schema import SCHEMA
from tests.said import sentence
from tests.unit.policy.hosts import ONE


def _texts(schema: dict[str, object]) -> list[str]:
    words = []
    for key, below in schema.get("properties", {}).items():  # type: ignore[attr-defined]
        words.append(key)
        words += _texts(below)
        words += _texts(below.get("items", {}))
    return words


KEYS = _texts(SCHEMA)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(),
    st.sampled_from(["3%", "1M/s", "500ms", "1MiB", "PC", "BE", "auto", "vf", "*", "", "\x00"]),
    st.text(max_size=8),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=4)), inner, max_size=4),
    ),
    max_leaves=12,
)
PIECES = st.sampled_from(
    ["{{", "}}", "{%", "%}", "{#", "#}", " ways ", " for d in domains ", " endfor ", " if ", "\n",
     "\t", "  ", "- ", ": ", "classes", "name", "&a", "*a", "[", "]", "{", "}", "|", ">", "'", '"',
     "!!map ", "? ", "---", "...", "%YAML", "\r", "\u2028", "\ufeff", "0x", "1:30", "<<", "=", "~"]
)  # fmt: skip


def _dump(value: object) -> str:
    """JSON-like text, which YAML reads; odd scalars stay as they are."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_dump(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_dump, value)) + "]"
    return str(value)


class FuzzTest(unittest.TestCase):
    def compiles_or_refuses(self, text: str) -> None:
        try:
            loaded = policy.parse(text, ONE)
        except policy.PolicyError as error:
            self.assertTrue(error.problems)
            self.assertTrue(all(sentence(problem.message) for problem in error.problems))
            lines = text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
            for problem in error.problems:
                self.assertLessEqual(problem.line or 1, lines)
        else:
            self.assertLessEqual(loaded.parameters.ddio_ways_min, loaded.parameters.ddio_ways_max)

    @given(st.text(max_size=60))
    @settings(derandomize=True, max_examples=200, deadline=None)
    def test_any_text(self, text: str) -> None:
        """Arbitrary text is compiled or refused, never anything else."""
        self.compiles_or_refuses(text)

    @given(st.lists(PIECES, max_size=14).map("".join))
    @settings(derandomize=True, max_examples=300, deadline=None)
    def test_any_pieces_of_yaml_and_jinja(self, text: str) -> None:
        """Broken YAML and broken templates are compiled or refused."""
        self.compiles_or_refuses(text)

    @given(st.dictionaries(st.sampled_from(list(SCHEMA["properties"])), VALUES, max_size=4))
    @settings(derandomize=True, max_examples=300, deadline=None)
    def test_any_values(self, values: dict[str, object]) -> None:
        """Arbitrary values under the policy's own keys are compiled or refused."""
        self.compiles_or_refuses(_dump(values))
