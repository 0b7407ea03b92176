# SPDX-License-Identifier: Apache-2.0
"""Tests of a policy: a host and a guest in, its class, its ways and the parameters out; pure.

``tests.schema.yaml`` says what may stand in a file of tests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from typing import Any

import yaml

from iat_nova.common.cpulist import parse_cpus
from iat_nova.model import (
    Attachment,
    AttachmentKind,
    CacheDomain,
    Facts,
    Guest,
    HostFacts,
    Nic,
    Tenant,
    TenantKind,
)
from iat_nova.policy import effective
from iat_nova.policy.document import read
from iat_nova.policy.problems import PolicyError, Problem
from iat_nova.policy.render import Rendered
from iat_nova.policy.validate import VALIDATOR, validate

_HOST = {"hostname": "host", "ways": 11, "cpus": 18, "sockets": 1, "hour": 12, "weekday": "mon"}


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """One test. `guest` None: only parameters are looked at."""

    name: str
    host: HostFacts
    guest: Guest | None
    expect: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a test; `wrong` names each difference, none where it is as expected."""

    trial: Trial
    wrong: tuple[str, ...]


def parse(text: str, source: str) -> list[Trial]:
    """Return the tests of a file. Raises `PolicyError` with everything that is wrong in it."""
    try:
        lines = tuple(range(1, text.count("\n") + 2))
        document = read(Rendered(text, lines))
        value, problems = validate(document, VALIDATOR(_schema()))
        problems = [*document.problems, *problems]
        if problems:
            raise PolicyError(problems)
        assert isinstance(value, dict)
        return [_trial(one, value.get("host", {}), number) for number, one in _tests(value)]
    except PolicyError as error:
        raise PolicyError(error.problems, source) from None


def run(trials: list[Trial], compiled: Callable[[HostFacts], Any]) -> Iterator[Outcome]:
    """Yield what each test finds; `compiled` makes a host's policy or raises `PolicyError`."""
    for trial in trials:
        try:
            policy = compiled(trial.host)
        except PolicyError as error:
            yield Outcome(trial, tuple(_refused(trial, str(error))))
            continue
        found = dict(_found(trial, policy))
        wrong = [
            f"{key}: expected {wanted}, found {found.get(key)}"
            for key, wanted in _wanted(trial.expect)
            if found.get(key) != wanted
        ]
        yield Outcome(trial, tuple(wrong))


def _schema() -> Any:
    text = resources.files("iat_nova.policy").joinpath("tests.schema.yaml").read_text("utf-8")
    return yaml.safe_load(text)


def _tests(value: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    yield from enumerate(value["tests"])


def _refused(trial: Trial, said: str) -> Iterator[str]:
    wanted = trial.expect.get("error")
    if wanted is None:
        yield f"the policy cannot be used on this host: {said}"
    elif wanted not in said:
        yield f"error: expected {wanted}, found {said}"


def _wanted(expect: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in expect.items():
        if key == "parameters":
            yield from ((f"parameters.{name}", wanted) for name, wanted in value.items())
        else:
            yield key, value


def _found(trial: Trial, policy: Any) -> Iterator[tuple[str, Any]]:
    """Yield what the policy gives, under the keys of `expect`."""
    parameters = effective.document(policy.parameters, policy.rules)["parameters"]
    yield from ((f"parameters.{name}", value) for name, value in parameters.items())
    if trial.guest is None:
        return
    classified = policy.classify(Facts(trial.host, (trial.guest,), None), {})
    tenant = next(
        one
        for inventory in classified.domains.values()
        for one in inventory.tenants
        if one.kind in (TenantKind.GUEST, TenantKind.POOL)
    )
    yield from _of_tenant(tenant)


def _of_tenant(tenant: Tenant) -> Iterator[tuple[str, Any]]:
    ways = tenant.ways
    yield from {
        "class": tenant.class_name,
        "priority": str(tenant.priority),
        "io": tenant.io,
        "min": ways.min,
        "initial": ways.initial,
        "max": ways.max,
        "promised": ways.promised,
    }.items()


def _trial(value: dict[str, Any], host: dict[str, Any], number: int) -> Trial:
    made = _host({**_HOST, **host, **value.get("host", {})})
    guest = None
    if "guest" in value:
        try:
            guest = _guest(value["guest"])
        except ValueError as error:
            raise PolicyError([Problem(f"tests[{number}].guest.cpus", None, str(error))]) from None
        if not set(guest.dedicated_cpus + guest.floating_cpus) <= set(made.online_cpus):
            problem = f"the host has CPUs 0 to {len(made.online_cpus) - 1}"
            raise PolicyError([Problem(f"tests[{number}].guest.cpus", None, problem)])
    return Trial(value["name"], made, guest, value["expect"])


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
        raise ValueError("a guest has one CPU at least")
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
    """Return extra specs as Nova has them: booleans and numbers are text."""
    if value is None:
        return None
    return {
        name: str(one).lower() if isinstance(one, bool) else str(one) for name, one in value.items()
    }
