# SPDX-License-Identifier: Apache-2.0
"""Templates without end are refused, with the limit they met; each takes a second of CPU time."""

import concurrent.futures
import os
import unittest

from iat_nova.agent.policy_file import render_limited
from iat_nova.policy.problems import PolicyError
from tests.said import sentence
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


class EndlessTest(unittest.TestCase):
    def test_templates_without_end(self):
        """Each ends with an error that names the limit of time or of memory."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # each has a process
            rendered = {
                name: pool.submit(render_limited, text, ONE, cpu_s=1)
                for name, text in ENDLESS.items()
            }
        for name, one in rendered.items():
            with self.subTest(name):
                with self.assertRaises(PolicyError) as caught:
                    one.result()
                self.assertRegex(sentence(caught.exception), "1 s of CPU time|512 MiB")
