# SPDX-License-Identifier: Apache-2.0
"""A compiled policy, and how one is made from a text."""

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
from iat_nova.policy.rendered import Rendered, facts
from iat_nova.policy.rules import Rules

DEFAULT_NAME = "the default policy"


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """A policy compiled for one host.

    `source` names the file. `warnings`: probable mistakes (a class that is never reached, more
    guaranteed ways than the LLC has). `text` is the template, `rendered` the YAML that Jinja2 made
    from the template for `host`. `asked`: names of the host facts in the template.
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
        """Tell whether two policies have equal parameters and rules, from any source."""
        return (self.parameters, self.rules) == (other.parameters, other.rules)

    @property
    def effective(self) -> str:
        """The effective policy as YAML, with every default written out."""
        return effective.text(self.parameters, self.rules)

    def changed_facts(self, host: HostFacts) -> tuple[str, ...]:
        """Return the names of this policy's facts that differ between `host` and its own host.

        ``ways`` is among the names if the ways of a cache domain or their size changed.
        """
        if self.host is None:
            return ()
        before, now = facts(self.host), facts(host)
        changed = [name for name in self.asked if before[name] != now[name]]
        if _widths(self.host) != _widths(host):  # bounds and sizes are compiled with these
            changed.append("ways")
        return tuple(dict.fromkeys(changed))

    def classify(self, seen: Facts, io_before: Mapping[str, bool]) -> Classified:
        """Turn facts into tenants of each cache domain. `io_before`: `io` of the last result."""
        classified = classify(self.rules, seen, io_before)
        promised = guarantee.warnings(seen, classified.domains, self.rules, self.parameters)
        found = (Reason(Code.TENANTS, one) for one in promised)
        return dataclasses.replace(classified, warnings=(*classified.warnings, *found))


def default(host: HostFacts) -> Policy:
    """Return the default policy, rendered with the facts of a host."""
    return parse(default_text(), host, DEFAULT_NAME)


def parse(
    text: str,
    host: HostFacts,
    source: str = "policy",
    rendering: Callable[[str, HostFacts], Rendered] | None = None,
) -> Policy:
    """Compile the text of a policy; `source` names the text in errors. Raises `PolicyError`.

    The default `rendering` has no limits of time and memory, for texts of this project. Operators'
    files are rendered within limits: see `iat_nova.agent.policy_file`.
    """
    # Jinja2 and jsonschema load slowly; most commands compile no policy.
    from iat_nova.policy.render import render  # noqa: PLC0415
    from iat_nova.policy.validate import validate  # noqa: PLC0415

    try:
        rendered = (rendering or render)(text, host)
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
    """Return id, ways and bytes per way of each cache domain, as the compiler reads them."""
    return [(domain.id, domain.ways, domain.way_bytes) for domain in host.domains]


def default_text() -> str:
    """Return the default policy as it ships, with its comments."""
    return resources.files(__package__).joinpath("default.yaml").read_text(encoding="utf-8")
