# SPDX-License-Identifier: Apache-2.0
"""No content of a policy file ends in anything but a policy that works, or a `PolicyError`."""

import unittest

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from iat_nova import policy
from iat_nova.model import Facts
from iat_nova.policy import schema
from tests.unit.policy.hosts import EXAMPLES, ONE, TWO, guest


def keys(part):
    """Yield every key that the schema knows anywhere."""
    for name, value in part.items() if isinstance(part, dict) else ():
        if name == "properties":
            yield from value
        yield from keys(value)


KEYS = sorted(set(keys(schema.SCHEMA)))
LINES = policy.default_text().splitlines()
LINES += [
    line for path in sorted(EXAMPLES.glob("*.yaml")) for line in path.read_text().splitlines()
]
WORDS = st.sampled_from(
    (
        "5% -1% 2MiB 2M/s 1e400 0x600 ² ٣ .inf .nan 1:30 010 half [ *** a.* PC stack host ~ "
        "!!binary 2026-02-30 &a *a " + "9" * 5000
    ).split(" ")
)
TEXTS = st.one_of(WORDS, st.text(max_size=12))
SCALARS = st.one_of(
    TEXTS, st.none(), st.booleans(), st.integers(), st.floats(), st.dates(), st.binary(max_size=4)
)
NAMES = st.one_of(st.sampled_from(KEYS), TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
SECTIONS = st.dictionaries(st.sampled_from(sorted(schema.SCHEMA["properties"])), VALUES)
# Fragments that end by themselves: what does not is `test_limited`'s.
TEMPLATES = st.sampled_from(
    [
        "{{ ways }}",
        "{{ ways / 0 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ domains[9].ways }}",
        "{{ ''.__class__ }}",
        "{% for n in nics %}",
        "{% endfor %}",
        "{% if %}",
        "{#",
        "{{ x",
        "{% raw %}",
        "{% include 'x' %}",
        "{% extends y %}",
        "{{ nics | map('x') | list }}",
        "\x00",
        "\x001\x01",
    ]
)
FEW = settings(derandomize=True, max_examples=80, deadline=None)


class HostileTest(unittest.TestCase):
    def use(self, text):
        """Take a text as the agent does: refused as a whole, or good for guests."""
        for host in (ONE, TWO):
            try:
                found = policy.parse(text, host)
            except policy.PolicyError as error:
                self.assertTrue(error.problems)
                self.assertTrue(str(error))
            else:
                found.classify(Facts(host, (guest(),), None), {})

    @FEW
    @given(st.one_of(st.text(), TEXTS))
    def test_text(self, text):
        """Anything at all."""
        self.use(text)

    @FEW
    @given(SECTIONS)
    def test_sections(self, document):
        """Sections that there are, with any content."""
        self.use(yaml.dump(document, allow_unicode=True))

    @FEW
    @given(st.lists(st.one_of(st.sampled_from(LINES), TEMPLATES, NAMES), max_size=12))
    def test_lines(self, lines):
        """Lines of good policies in any order, with pieces of templates in between."""
        self.use("\n".join(lines))

    @FEW
    @given(st.integers(0, len(LINES) - 1), st.one_of(TEMPLATES, TEXTS, VALUES.map(str)))
    def test_one_value(self, number, value):
        """The default policy with one line's value replaced."""
        lines = policy.default_text().splitlines()
        number %= len(lines)
        lines[number] = f"{lines[number].partition(':')[0].lstrip('# ')}: {value}"
        self.use("\n".join(lines))
