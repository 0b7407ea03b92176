# SPDX-License-Identifier: Apache-2.0
"""The named workloads from ``profiles.yaml``, which has all constants with their sources."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cattrs

from iat_nova.common import own_yaml
from iat_nova.experiments.scenarios.locality import Locality, mixed, uniform, zipf
from iat_nova.experiments.scenarios.profile import NETWORKED, Form, Profile
from iat_nova.policy import units

__all__ = ["MIXES", "NETWORKED", "PROFILES", "Form", "Operation", "Profile"]


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One type of operation: own cycles, accesses beyond L1, bytes of its frames on the wire."""

    name: str
    own_cycles: float
    accesses: float
    request_bytes: int = 0
    reply_bytes: int = 0


Mix = Mapping[Operation, float]
"""Shares by operation; the sum is 1."""


def mean(mix: Mix, field: str) -> float:
    """Return the mean of a field over the operations of a mix."""
    return sum(share * float(getattr(operation, field)) for operation, share in mix.items())


def surrogate(name: str, given: Mapping[str, Any], sizes: Sequence[float]) -> Profile:
    """Return a program from values per thousand instructions; the unit of work is an access.

    `given["accesses"]`: accesses beyond L1, one number per size in `sizes`; their sum is the number
    of L1 misses.
    """
    total = sum(given["accesses"])
    pieces = zip(given["accesses"], sizes, strict=True)
    return Profile(
        name=name,
        form=Form.MEMORY,
        own_cycles=given["cycles"] / total,
        own_instructions=1000.0 / total,
        overlap=(given["overlap"], 1.0, 1.0, 1.0),
        writes_percent=given["writes_percent"],
        locality=tuple((count / total, size) for count, size in pieces if count),
    )


def _locality(given: object, _: object = None) -> Locality:
    """Return a locality from a size, from records, or from parts of these with their shares."""
    if isinstance(given, str):
        return uniform(units.parse(units.Kind.SIZE, given))
    if isinstance(given, Mapping):
        return zipf(given["records"], given["bytes"])
    assert isinstance(given, Sequence)
    return mixed(*((share, _locality(part)) for share, part in given))


_CONVERTER = cattrs.Converter(forbid_extra_keys=True)
_CONVERTER.register_structure_hook_func(lambda of: of == Locality, _locality)


def _profile(name: str, given: Mapping[str, Any]) -> Profile:
    """Return a profile; a pipeline's second stage takes missing values from the first stage."""
    first = {key: value for key, value in given.items() if key != "then"}
    made = _CONVERTER.structure({"name": name, **first}, Profile)
    if "then" not in given:
        return made
    then = _CONVERTER.structure({"name": name, **first, **given["then"]}, Profile)
    return dataclasses.replace(made, then=then)


def _mixes(store: Mapping[str, Any]) -> dict[str, Mix]:
    operations = {
        name: _CONVERTER.structure({"name": name, **given}, Operation)
        for name, given in store["operations"].items()
    }
    return {
        letter: {operations[name]: float(share) for name, share in given["shares"].items()}
        for letter, given in store["mixes"].items()
    }


def _stores(sections: Mapping[str, Any]) -> Iterator[Profile]:
    """Yield a profile for each store and mix, with the mean of the mix's operations."""
    for store, given in sections.items():
        for letter, mix in _mixes(given).items():
            own = mean(mix, "own_cycles")
            more = {k: v for k, v in given["mixes"][letter].items() if k != "shares"}
            whole = {
                "own_cycles": own,
                "own_instructions": own * given["instructions_a_cycle"],
                "accesses": mean(mix, "accesses"),
                "request_bytes": round(mean(mix, "request_bytes")),
                "reply_bytes": round(mean(mix, "reply_bytes")),
            }
            yield _profile(f"{store}-{letter}", {**given["profile"], **more, **whole})


def _all(given: Mapping[str, Any]) -> Iterator[Profile]:
    for name, one in given["profiles"].items():
        yield _profile(name, one)
    sizes = [units.parse(units.Kind.SIZE, size) for size in given["surrogates"]["sizes"]]
    for name, one in given["surrogates"]["programs"].items():
        yield surrogate(name, one, sizes)
    for name, one in given["adca"].items():
        yield _profile(name, one)
    yield from _stores(given["stores"])


_GIVEN = own_yaml.load(
    pathlib.Path(__file__).with_name("profiles.yaml").read_text(encoding="utf-8")
)
PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in _all(_GIVEN)}
MIXES: Mapping[str, Mix] = {
    f"{store}-{letter}": mix
    for store, given in _GIVEN["stores"].items()
    for letter, mix in _mixes(given).items()
}
"""The operations of the stores' profiles, by profile name."""
SURROGATES: tuple[str, ...] = tuple(_GIVEN["surrogates"]["programs"])
"""The names of the SPEC CPU2006 surrogates."""
