# SPDX-License-Identifier: Apache-2.0
"""The declarative policy: YAML rendered by Jinja2, validated, compiled to tenants.

::

    policy = policy_file.load("/etc/iat-nova/policy.yaml", host)
    classified = policy.classify(facts, io_before={})

A text that cannot be used raises `PolicyError` with everything that is wrong in it. The default
policy is the file that ships as ``etc/iat-nova/policy.yaml``. Files are read by
`iat_nova.agent.policy_file`: nothing here does I/O or runs a program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from importlib import resources

from iat_nova.model import Facts, HostFacts, Parameters
from iat_nova.model.reasons import Code, Reason
from iat_nova.policy import effective, guarantee
from iat_nova.policy.classify import Classified, classify
from iat_nova.policy.compile import compile_policy
from iat_nova.policy.document import read
from iat_nova.policy.problems import PolicyError, Problem
from iat_nova.policy.render import Rendered, facts, render
from iat_nova.policy.rules import Rules
from iat_nova.policy.validate import validate

__all__ = ["DEFAULT_NAME", "Classified", "Policy", "PolicyError", "Problem", "default", "parse"]

DEFAULT_NAME = "the default policy"


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """A policy compiled for one host.

    `source` names the file; `warnings` hold what looks unintended in it (a class that is never
    reached, more guaranteed ways than there are). `text` is the template it was made of,
    `rendered` what became of it for `host`; `asked` are the facts on which that depends.
    """

    source: str
    parameters: Parameters
    rules: Rules
    warnings: tuple[Problem, ...] = ()
    text: str = ""
    rendered: str = ""
    host: HostFacts | None = None
    asked: tuple[str, ...] = ()

    def same(self, other: Policy) -> bool:
        """Tell whether it says the same, no matter what it was made of."""
        return (self.parameters, self.rules) == (other.parameters, other.rules)

    @property
    def effective(self) -> str:
        """What it comes to, as a policy with every default written out."""
        return effective.text(self.parameters, self.rules)

    def changed_facts(self, host: HostFacts) -> tuple[str, ...]:
        """Return which facts it depends on are others on a host than on the one it was made for."""
        if self.host is None:
            return ()
        before, now = facts(self.host), facts(host)
        changed = [name for name in self.asked if before[name] != now[name]]
        if _widths(self.host) != _widths(host):  # of which bounds and sizes are made
            changed.append("ways")
        return tuple(dict.fromkeys(changed))

    def classify(self, seen: Facts, io_before: Mapping[str, bool]) -> Classified:
        """Turn facts into tenants a cache domain. `io_before` is the last result's `io`."""
        classified = classify(self.rules, seen, io_before)
        promised = guarantee.warnings(seen, classified.domains, self.rules, self.parameters)
        found = (Reason(Code.TENANTS, one) for one in promised)
        return dataclasses.replace(classified, warnings=(*classified.warnings, *found))


def default(host: HostFacts) -> Policy:
    """Return the default policy, for one host."""
    return parse(default_text(), host, DEFAULT_NAME)


def parse(
    text: str,
    host: HostFacts,
    source: str = "policy",
    rendering: Callable[[str, HostFacts], Rendered] = render,
) -> Policy:
    """Compile the text of a policy; `source` is what errors call it. Raises `PolicyError`.

    `rendering` is without limits, for texts of ours; a file's has them: see
    `iat_nova.agent.policy_file`.
    """
    try:
        rendered = rendering(text, host)
        document = read(rendered)
        value, problems = validate(document)
        compiled = compile_policy(document, value, host)
        problems = [*document.problems, *problems, *compiled.problems]
        if problems:
            raise PolicyError(sorted(problems, key=lambda problem: problem.line or 0))
    except PolicyError as error:
        raise PolicyError(error.problems, source) from None
    return Policy(
        source,
        compiled.parameters,
        compiled.rules,
        compiled.warnings,
        text,
        rendered.text,
        host,
        rendered.asked,
    )


def _widths(host: HostFacts) -> list[tuple[int, int, int | None]]:
    """Return what the compiler asks of a host."""
    return [(domain.id, domain.ways, domain.way_bytes) for domain in host.domains]


def default_text() -> str:
    """Return the default policy as it ships, with its comments."""
    return resources.files(__name__).joinpath("default.yaml").read_text(encoding="utf-8")
