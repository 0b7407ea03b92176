# SPDX-License-Identifier: Apache-2.0
"""Templates without end are refused, by name and limit; all others render as ever."""

import pathlib
import tempfile
import unittest
from unittest import mock

from iat_nova import policy
from iat_nova.policy import limited
from iat_nova.policy.limited import render_limited
from iat_nova.policy.problems import PolicyError
from iat_nova.policy.render import render
from tests.unit.policy.hosts import ONE

ENDLESS = {
    "nested ranges": "{% for a in range(99999) %}{% for b in range(99999) %}"
    "{% endfor %}{% endfor %}",
    "a doubling string": "{% set n = namespace(s='xxxxxxxx') %}{% for i in range(60) %}"
    "{% set n.s = n.s ~ n.s %}{% endfor %}",
    "format": "{{ '%999999999999d' | format(1) }}",
    "center": "{{ 'x' | center(99999999999) }}",
    "lipsum": "{{ lipsum(n=99999999) | length }}",
    "batch": "{{ [1] | batch(9999999999, 0) | list | length }}",
    "slice": "{{ [1] | slice(9999999999) | list | length }}",
}


class LimitedTest(unittest.TestCase):
    def test_templates_without_end(self):
        """Each ends with an error that names the limit."""
        for name, limit in (("nested ranges", "1 s of CPU time"), ("a doubling string", "512 MiB")):
            with self.subTest(name), self.assertRaises(PolicyError) as caught:
                render_limited(ENDLESS[name], ONE, cpu_s=1)
            self.assertIn(limit, str(caught.exception))

    def test_a_file(self):
        """A policy's file is rendered under limits, and named where they are reached."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        path = folder / "policy.yaml"
        path.write_text(ENDLESS["center"])
        with self.assertRaises(PolicyError) as caught:
            policy.load(path, ONE)
        self.assertRegex(str(caught.exception), r"policy\.yaml: .*512 MiB")

    def test_no_template(self):
        """A file without a template is rendered without a process, to the same; others are not."""
        with mock.patch.object(limited.subprocess, "run", side_effect=OSError(1, "a process")):
            for text in ("", "{}", "# {x}\nparameters:\n  interval: 2s\n", "a: { b: 1 }\r\n% x"):
                with self.subTest(text):
                    self.assertEqual(render(text, ONE), render_limited(text, ONE))
            for text in ("{{ 1 }}", "{% if x %}", "{# x #}", "a: {{"):
                with self.subTest(text), self.assertRaisesRegex(PolicyError, "a process"):
                    render_limited(text, ONE)

    def test_the_rest(self):
        """What is no endless template is what it is without limits, lines and problems too."""
        text = policy.default_text()
        self.assertEqual(render(text, ONE), render_limited(text, ONE))
        with self.assertRaises(PolicyError) as caught:
            render_limited("a:\n  b: {{ wayz }}\n", ONE)
        self.assertIn("line 2: template: 'wayz' is undefined", str(caught.exception))
