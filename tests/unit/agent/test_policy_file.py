# SPDX-License-Identifier: Apache-2.0
"""Templates are rendered under limits; tests.functional has those without end."""

import json
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from iat_nova import policy
from iat_nova.agent import policy_file
from iat_nova.agent.policy_file import render_limited
from iat_nova.policy.problems import PolicyError
from iat_nova.policy.render import render
from tests.said import raises, sentence
from tests.unit.policy.hosts import ONE

TOO_WIDE = "{{ 'x' | center(99999999999) }}"


class LimitedTest(unittest.TestCase):
    def test_a_file(self):
        """A policy's file is rendered under limits, and named where they are reached."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        path = folder / "policy.yaml"
        path.write_text(TOO_WIDE)
        with self.assertRaises(PolicyError) as caught:
            policy_file.load(path, ONE)
        self.assertRegex(sentence(caught.exception), r"policy\.yaml: .*512 MiB")

    def test_cpu_time(self):
        """A template without end ends with the CPU time that it may take."""
        text = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
        with raises(self, PolicyError, "1 s of CPU"):
            render_limited(text, ONE, cpu_s=1)

    def test_no_template(self):
        """A file without a template is rendered without a process, to the same; others are not."""
        with mock.patch.object(policy_file.subprocess, "run", side_effect=OSError(1, "a process")):
            for text in (
                "",
                "\n",
                "{}",
                "# {x}\nparameters:\n  interval: 2s\n",
                "a: { b: 1 }\r\n% x",
                "a: 1\r\rb: 2\x85c: 3\n\u2028d: 4\u2029\n\n",
                " \n\n x",
            ):
                with self.subTest(text):
                    self.assertEqual(render(text, ONE), render_limited(text, ONE))
            for text in ("{{ 1 }}", "{% if x %}", "{# x #}", "a: {{", " " * (1 << 20) + "x"):
                with self.subTest(text), raises(self, PolicyError, "a process"):
                    render_limited(text, ONE)

    def test_the_child_loads_little(self):
        """Whoever checks a policy waits for it: no compiler of policies, no YAML, no schema."""
        code = "import sys, iat_nova.agent.policy_child; print(*sys.modules)"
        command = [sys.executable, "-P", "-c", code]
        loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        self.assertIn("jinja2", loaded)
        slow = {"yaml", "jsonschema", "cattrs", "iat_nova.policy.policies"}
        self.assertEqual(set(), slow & set(loaded))

    def test_the_child_has_no_capabilities(self):
        """Whatever the agent has: none is left when the template is rendered, nor comes back."""
        code = (
            "from iat_nova.agent import policy_child as p;"
            " from iat_nova.policy import rendered as r;"
            " p.render = lambda *_: r.Rendered(open('/proc/self/status').read(), ());"
            " p.main(10)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=pickle.dumps(("", ONE)),
            capture_output=True,
            check=True,
        )
        status = dict(line.split(":\t", 1) for line in json.loads(done.stdout)["text"].splitlines())
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(0, int(status[name], 16), name)
        self.assertEqual("1", status["NoNewPrivs"])

    def test_the_rest(self):
        """What is no endless template is what it is without limits, lines and problems too."""
        text = policy.default_text()
        self.assertEqual(render(text, ONE), render_limited(text, ONE))
        with self.assertRaises(PolicyError) as caught:
            render_limited("a:\n  b: {{ wayz }}\n", ONE)
        self.assertIn("line 2: template: 'wayz' is undefined", sentence(caught.exception))
