# SPDX-License-Identifier: Apache-2.0
"""Agents under random events on each kind of host; ``python -m tests.random_hosts`` has more."""

import unittest

from tests import random_hosts


class RandomHosts(unittest.TestCase):
    """The same few histories each time, some five seconds for each kind of host."""

    def check(self, name):
        random_hosts.test_of(random_hosts.KINDS[name], derandomize=True, max_examples=12)()


for _name in random_hosts.KINDS:
    setattr(RandomHosts, f"test_{_name}", lambda self, name=_name: self.check(name))
