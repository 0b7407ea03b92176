# SPDX-License-Identifier: Apache-2.0
"""Tests of a policy: from a host and a guest to class, ways and parameters; pure.

``tests.schema.yaml`` is the schema of a file of tests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from typing import Any

import yaml

from iat_nova.common.cpulist import format_cpus, parse_cpus
from iat_nova.model import (
    Attachment,
    AttachmentKind,
    CacheDomain,
    DomainInventory,
    Facts,
    Guest,
    HostFacts,
    Message,
    Nic,
    Tenant,
    message,
)
from iat_nova.model.message import MessageError, as_message
from iat_nova.policy import effective
from iat_nova.policy.document import read
from iat_nova.policy.owners import POOL, guest_id
from iat_nova.policy.problems import PolicyError
from iat_nova.policy.rendered import Rendered
from iat_nova.policy.validate import VALIDATOR, validate

Load = Callable[[str], Facts]

_HOST = {"hostname": "host", "ways": 11, "cpus": 18, "sockets": 1, "hour": 12, "weekday": "mon"}


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """One test of a policy: what a guest, or the parameters, must get on a host.

    `guest`: None for a test of parameters alone. `domain`: the cache domain with the tested tenant;
    None for the first domain with the guest.
    """

    name: str
    facts: Facts
    guest: Guest | None
    domain: int | None
    expect: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class TrialOutcome:
    """The result of a test; `wrong` has one message per difference and is empty after success."""

    trial: Trial
    wrong: tuple[Message, ...]


def parse(
    text: str, source: str, facts: Facts | None = None, load: Load | None = None
) -> list[Trial]:
    """Return the tests of a file. Raises `PolicyError` with all problems of the file.

    `facts`: a recorded host whose guests the tests can name. If None, `load` reads the facts file
    that the file of tests names, where given. Errors of `load` are passed on.
    """
    try:
        lines = tuple(range(1, text.count("\n") + 2))
        document = read(Rendered(text, lines))
        value, problems = validate(document, VALIDATOR(_schema()))
        problems = [*document.problems, *problems]
        if problems:
            raise PolicyError(problems)
        assert isinstance(value, dict)
        if facts is None and load is not None and "facts" in value:
            facts = load(value["facts"])
        return [
            _trial(one, {**value.get("host", {}), **one.get("host", {})}, f"tests[{number}]", facts)
            for number, one in enumerate(value["tests"])
        ]
    except PolicyError as error:
        raise PolicyError(error.problems, source) from None


def run(trials: list[Trial], compiled: Callable[[HostFacts], Any]) -> Iterator[TrialOutcome]:
    """Yield each test's result; `compiled` returns a host's policy or raises `PolicyError`."""
    for trial in trials:
        try:
            policy = compiled(trial.facts.host)
        except PolicyError as error:
            yield TrialOutcome(trial, tuple(_refused(trial, error)))
            continue
        found = _found(trial, policy)
        wrong = [
            message(
                "trial-differs", key=key, wanted=_as_yaml(wanted), found=_as_yaml(found.get(key))
            )
            for key, wanted in _wanted(trial.expect)
            if found.get(key) != wanted
        ]
        yield TrialOutcome(trial, tuple(wrong))


def _as_yaml(value: object) -> str:
    """Return a value as a file of tests has it; ``none`` for a value that is absent."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)


def _schema() -> Any:
    text = resources.files("iat_nova.policy").joinpath("tests.schema.yaml").read_text("utf-8")
    return yaml.safe_load(text)


def _refused(trial: Trial, error: PolicyError) -> Iterator[Message]:
    """Yield the difference between a policy's error and the expected path or code."""
    wanted = trial.expect.get("error")
    if wanted is None:
        yield message("trial-refused", error=error.message)
    elif not any(wanted in (one.path, one.message.code) for one in error.problems):
        found = tuple(f"{one.path} {one.message.code}".strip() for one in error.problems)
        yield message("trial-other-error", wanted=wanted, found=found, error=error.message)


def _wanted(expect: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in expect.items():
        if key == "parameters":
            yield from ((f"parameters.{name}", wanted) for name, wanted in value.items())
        else:
            yield key, value


def _found(trial: Trial, policy: Any) -> dict[str, Any]:
    """Return the policy's results under the keys of `expect`."""
    numbers = policy.parameters if trial.domain is None else policy.parameters.of(trial.domain)
    parameters = effective.document(numbers, policy.rules)["parameters"]
    found = {f"parameters.{name}": value for name, value in parameters.items()}
    if trial.guest is not None:
        classified = policy.classify(trial.facts, {})
        tenant = _tenant(classified.domains, trial.guest, trial.domain)
        found |= {} if tenant is None else _of_tenant(tenant)
    return found


def _tenant(
    domains: Mapping[int, DomainInventory], guest: Guest, number: int | None
) -> Tenant | None:
    """Return a guest's tenant, or the pool if the guest floats.

    `number`: the id of the cache domain; None: the guest's first.
    """
    for inventory in domains.values():
        if number not in (None, inventory.domain.id):
            continue
        here = {tenant.id: tenant for tenant in inventory.tenants}
        floats = not set(guest.floating_cpus).isdisjoint(inventory.domain.cpus)
        if own := here.get(guest_id(guest)) or (here.get(POOL) if floats else None):
            return own
    return None


def _of_tenant(tenant: Tenant) -> dict[str, Any]:
    ways = tenant.ways
    return {
        "class": tenant.class_name,
        "priority": str(tenant.priority),
        "io": tenant.io,
        "min": ways.min,
        "initial": ways.initial,
        "max": ways.max,
        "promised": ways.promised,
    }


def _trial(value: dict[str, Any], host: dict[str, Any], path: str, facts: Facts | None) -> Trial:
    """Make a test; `host`: settings of the host in file and test; `path`: the test's path."""
    guest = value.get("guest")
    if facts is None:
        if isinstance(guest, str):
            raise PolicyError.of(message("trial-without-facts"), path=f"{path}.guest")
        facts = Facts(_host({**_HOST, **host}), (), None)
    else:
        facts = dataclasses.replace(facts, host=_changed(facts.host, host, path))
    if value.get("domain") not in (None, *(domain.id for domain in facts.host.domains)):
        raise PolicyError.of(
            message("trial-no-domain", domain=value["domain"]), path=f"{path}.domain"
        )
    if isinstance(guest, str):
        guest = _named(facts, guest, f"{path}.guest")
    elif guest is not None:
        try:
            guest = _guest(guest)
        except (MessageError, ValueError) as error:
            raise PolicyError.of(as_message(error), path=f"{path}.guest.cpus") from None
        here = facts.host.online_cpus
        if not set(guest.dedicated_cpus + guest.floating_cpus) <= set(here):
            raise PolicyError.of(
                message("trial-cpus", cpus=format_cpus(here)), path=f"{path}.guest.cpus"
            )
        facts = Facts(facts.host, (guest,), None)
    return Trial(value["name"], facts, guest, value.get("domain"), value["expect"])


def _named(facts: Facts, name: str, path: str) -> Guest:
    """Return the guest of the facts with this UUID or name. Raises `PolicyError` unless unique."""
    found = [one for one in facts.guests if name in (one.uuid, one.name, one.display_name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise PolicyError.of(message("trial-ambiguous", name=name, count=len(found)), path=path)
    names = tuple(one.display_name for one in facts.guests)
    code = "trial-no-such-guest" if names else "trial-no-guests"
    raise PolicyError.of(message(code, name=name, guests=names), path=path)


def _changed(host: HostFacts, value: dict[str, Any], path: str) -> HostFacts:
    """Return the recorded host with a test's changes."""
    if fixed := {"cpus", "sockets"} & value.keys():
        raise PolicyError.of(message("trial-fixed", keys=tuple(sorted(fixed))), path=f"{path}.host")
    of_domains = {key: value[key] for key in ("ways", "way_bytes") if key in value}
    of_host = {key: value[key] for key in ("hostname", "hour", "weekday") if key in value}
    nics = host.nics
    if "nic_speed_gbps" in value:
        speed = float(value["nic_speed_gbps"])
        nics = tuple(dataclasses.replace(one, speed_gbps=speed) for one in nics)
    domains = tuple(dataclasses.replace(one, **of_domains) for one in host.domains)
    return dataclasses.replace(host, domains=domains, nics=nics, **of_host)


def _host(value: dict[str, Any]) -> HostFacts:
    each, sockets = value["cpus"], value["sockets"]
    domains = tuple(
        CacheDomain(
            id=number,
            cpus=tuple(range(number * each, (number + 1) * each)),
            ways=value["ways"],
            classes=16,
            way_bytes=value.get("way_bytes"),
            numa_nodes=(number,),
        )
        for number in range(sockets)
    )
    speed = value.get("nic_speed_gbps")
    nics = () if speed is None else (Nic("0000:3b:00.0", "nic0", 0, float(speed)),)
    cpus = tuple(range(each * sockets))
    return HostFacts(value["hostname"], domains, cpus, nics, value["hour"], value["weekday"])


def _guest(value: dict[str, Any]) -> Guest:
    cpus = tuple(sorted(parse_cpus(str(value.get("cpus", "2-3")))))
    if not cpus:
        raise MessageError(message("trial-no-cpu"))
    floats = value.get("floats", False)
    rate = value.get("packets_per_s")
    name = value.get("instance", "guest")
    return Guest(
        uuid="00000000-0000-4000-8000-000000000001",
        run=1,
        name=name,
        display_name=name,
        flavor=value.get("flavor"),
        extra_specs=_texts(value.get("extra_specs")),
        project=value.get("project"),
        dedicated_cpus=() if floats else cpus,
        floating_cpus=cpus if floats else (),
        attachments=tuple(
            Attachment(AttachmentKind(kind), f"device{number}", packets_per_s=rate)
            for number, kind in enumerate(value.get("attachments", ()))
        ),
        project_name=value.get("project_name"),
        image_properties=_texts(value.get("image_properties")),
    )


def _texts(value: Mapping[str, Any] | None) -> dict[str, str] | None:
    """Return extra specs or image properties as Nova stores them: booleans and numbers are text."""
    if value is None:
        return None
    return {
        name: str(one).lower() if isinstance(one, bool) else str(one) for name, one in value.items()
    }
