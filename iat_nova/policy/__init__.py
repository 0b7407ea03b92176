# SPDX-License-Identifier: Apache-2.0
"""The declarative policy: YAML rendered by Jinja2, validated, compiled to tenants.

::

    policy = policy_file.load("/etc/iat-nova/policy.yaml", host)
    classified = policy.classify(facts, io_before={})

An invalid text raises `PolicyError` with all problems of the text. The default policy ships as
``etc/iat-nova/policy.yaml``. `iat_nova.agent.policy_file` reads the files: this package does no
I/O and runs no program.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from iat_nova.policy.problems import PolicyError, Problem

_COMPILER = ("DEFAULT_NAME", "Classified", "Policy", "default", "default_text", "parse")

if TYPE_CHECKING:
    from iat_nova.policy.classify import Classified
    from iat_nova.policy.policies import DEFAULT_NAME, Policy, default, default_text, parse
else:

    def __getattr__(name: str) -> object:
        """Load the compiler of policies when it is first used: most commands use none of it."""
        if name not in _COMPILER:
            raise AttributeError(name)
        return getattr(importlib.import_module("iat_nova.policy.policies"), name)
