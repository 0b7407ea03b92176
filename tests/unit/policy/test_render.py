# SPDX-License-Identifier: Apache-2.0
"""The template sees the host's facts, and every rendered line knows where it came from."""

import unittest

from iat_nova.model import CacheDomain, HostFacts, Nic
from iat_nova.policy.problems import PolicyError
from iat_nova.policy.render import FACTS, Rendered, facts, render
from tests.said import raises, sentence
from tests.unit.policy.hosts import ONE, TWO, WAY_BYTES


def where(rendered: Rendered) -> list[tuple[str, int | None]]:
    """Each visible line with its line in the file."""
    lines = rendered.text.split("\n")
    return [
        (text.strip(), rendered.source_line(number))
        for number, text in enumerate(lines, 1)
        if text.strip()
    ]


class FactsTest(unittest.TestCase):
    def test_values(self) -> None:
        """The least LLC and the fastest card speak for the host."""
        host = HostFacts(
            "h",
            (CacheDomain(0, (0,), 12, 16, way_bytes=10), CacheDomain(1, (1,), 11, 16)),
            (0, 1),
            (Nic("a", None, 0, 25.0), Nic("b", None, 0, None), Nic("c", None, 1, 100.0)),
        )
        text = (
            "{{ hostname }} {{ ways }} {{ way_bytes }} {{ cores }} {{ sockets }} "
            "{{ nics|length }} {{ nic_speed_gbps }} {{ domains[1].ways }}"
        )
        self.assertEqual("h 11 10 2 2 3 100.0 11", render(text, host).text)

    def test_unknown_is_none(self) -> None:
        """What the host does not tell is none, not zero."""
        values = facts(HostFacts("h", (), ()))
        self.assertEqual(
            (None, None, None), (values["ways"], values["way_bytes"], values["nic_speed_gbps"])
        )

    def test_every_fact_is_described(self) -> None:
        """The descriptions are of exactly what there is."""
        self.assertEqual(set(FACTS), set(facts(ONE)))
        self.assertEqual(WAY_BYTES, facts(ONE)["way_bytes"])


class LineTest(unittest.TestCase):
    def test_plain_text(self) -> None:
        """Without a template each line is its own."""
        self.assertEqual([("a: 1", 1), ("b: 2", 3)], where(render("a: 1\n\nb: 2", ONE)))

    def test_nothing_is_left(self) -> None:
        """A template that renders nothing has one empty line, the first."""
        for source in ("", "{% if false %}a: 1{% endif %}", "{# a comment #}"):
            rendered = render(source, ONE)
            self.assertEqual(("", 1), (rendered.text, rendered.source_line(1)))

    def test_loops_and_conditions(self) -> None:
        """Repeated and left-out lines are traced back."""
        source = """a: 1
{% for d in domains %}
- {{ d.id }}
- x
{% endfor %}
{% if ways > 20 %}
never: 1
{% endif %}
{# a comment
   of two lines #}
z: {{ ways }}"""
        expected = [("a: 1", 1), ("- 0", 3), ("- x", 4), ("- 1", 3), ("- x", 4), ("z: 11", 11)]
        self.assertEqual(expected, where(render(source, TWO)))

    def test_whitespace_control(self) -> None:
        """Stripped line ends do not shift what follows."""
        source = "a: 1\n{%- for n in range(2) %}\nb{{ n }}: 1\n{%- endfor %}\nc: 1"
        expected = [("a: 1", 1), ("b0: 1", 3), ("b1: 1", 3), ("c: 1", 5)]
        self.assertEqual(expected, where(render(source, ONE)))

    def test_lines_that_begin_with_an_expression(self) -> None:
        """An expression carries its own line, even across a loop on one line."""
        source = (
            "{% set k = 'key' %}\n{% for n in [1, 2] %}{{ k }}{{ n }}: 0\n{% endfor %}\n{{ k }}: 1"
        )
        self.assertEqual(
            [("key1: 0", 2), ("key2: 0", 2), ("key: 1", 4)], where(render(source, ONE))
        )

    def test_a_line_behind_a_block_of_two_lines(self) -> None:
        """It is where its text is, not where the block began."""
        rendered = render("{% set a =\n 1 %}x: 1\ny: 2\n", ONE)
        self.assertEqual([("x: 1", 2), ("y: 2", 3)], where(rendered))

    def test_several_expressions_in_a_line(self) -> None:
        """The line is that of the first text; a value of two lines has its expression's."""
        empty = "{{ '' }}{%- set k = 1 -%}\n\n{{ hostname }}: 1"
        self.assertEqual([("node1: 1", 3)], where(render(empty, ONE)))
        value = "x: 1\n\n{{ 'a: 1\\nb' }}: 2"
        self.assertEqual([("x: 1", 1), ("a: 1", 3), ("b: 2", 3)], where(render(value, ONE)))

    def test_macros_and_raw_text(self) -> None:
        """A macro's lines are those of its body; raw text keeps its own."""
        macro = "{% macro m(x) %}\n{{ x }}: 1\n{% endmacro %}\n"
        source = macro + "a: 1\n{{ m('b') }}\n{% raw %}\nc: 1{% endraw %}"
        self.assertEqual([("a: 1", 4), ("b: 1", 2), ("c: 1", 7)], where(render(source, ONE)))

    def test_no_line_is_claimed_when_the_template_measures_itself(self) -> None:
        """A text whose length matters to the template has no trustworthy lines."""
        source = "{% set t %}abc{% endset %}{{ t|length }}"
        rendered = render(source, ONE)
        self.assertEqual("3", rendered.text)
        self.assertIsNone(rendered.source_line(1))


class ErrorTest(unittest.TestCase):
    def test_errors_carry_line_and_reason(self) -> None:
        """Each mistake in a template is told with its line."""
        for name, source, line, message in (
            ("syntax", "a: 1\n{% for %}", 2, "correct the syntax of Jinja2"),
            ("unclosed", "a: 1\nb: {{ ways", 2, "unexpected end of template"),
            ("no end", "{% if ways %}\na: 1", 1, "endif"),
            ("unknown name", "a: 1\nb: {{ way }}", 2, "'way' is undefined; did you mean ways?"),
            ("what there is", "{{ foo }}", 1, "the host's facts are hostname, ways, way_bytes"),
            ("unknown attribute", "\n{{ domains[0].size }}", 2, "no attribute 'size'"),
            ("beyond the list", "\n\n{{ nics[7].name }}", 3, "the host's facts are"),
            ("types", "\n{{ ways + 'x' }}", 2, "unsupported operand"),
            ("division", "\n{{ ways // 0 }}", 2, "by zero; change the expression"),
            ("unknown filter", "\n{{ ways | foo }}", 2, "No filter named 'foo'"),
            ("includes", "\n{% include 'x' %}", 2, "no loader"),
            ("python", "{{ hostname.__class__.__mro__ }}", 1, "unsafe"),
            ("endless power", "{{ 9 ** 9 ** 9 ** 9 }}", 1, "** takes numbers up to"),
            ("endless text", "{{ 'a' * 10 ** 10 }}", 1, "* takes numbers up to"),
            ("endless range", "{% for n in range(10 ** 9) %}{% endfor %}", 1, "too big"),
            (
                "endless loop",
                "{% for a in range(999) %}{% for b in range(999) %}\nlong{% endfor %}{% endfor %}",
                None,
                "longer than",
            ),
            ("deep blocks", "{% for a in [1] %}" * 30 + "{% endfor %}" * 30, None, "nested"),
        ):
            with self.subTest(name):
                with self.assertRaises(PolicyError) as caught:
                    render(source, ONE)
                (problem,) = caught.exception.problems
                self.assertEqual(line, problem.line)
                self.assertIn(message, sentence(problem.message))

    def test_unknown_facts_explain_themselves(self) -> None:
        """Arithmetic with a fact that this host does not tell says which one that is."""
        host = HostFacts("h", (), ())
        with raises(self, PolicyError, "unknown on this host, hence none: ways"):
            render("a: {{ ways - 1 }}", host)
