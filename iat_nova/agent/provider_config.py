# SPDX-License-Identifier: Apache-2.0
"""Nova's provider.yaml: the trait of a host with IAT, and its guaranteed LLC ways as a resource.

nova-compute does not start when it finds anything wrong in its folder of such files, so a file is
replaced whole, and not at all where it would contradict another one. Nor does it start when the
file no longer holds an inventory that guests use: what was offered is withdrawn by reserving all of
it.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jinja2

from iat_nova.common.owned_folder import write_named
from iat_nova.common.readers import PROVIDER
from iat_nova.common.untrusted import Unreadable, bounded_int, parse_yaml_texts
from iat_nova.model import Message, message, verbatim
from iat_nova.model.message import as_message
from iat_nova.nova import extra_specs

TRAIT = "CUSTOM_IAT"
TRAIT_DDIO = "CUSTOM_IAT_DDIO"

COMPUTE_NODE = "$COMPUTE_NODE"
"""All compute nodes the reading nova-compute has."""

_MOST_COUNT = (1 << 31) - 1  # Placement's columns are integers of 32 bits
_UUID = re.compile("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


class ProviderConfigError(Exception):
    """The file cannot be written; `message` says why and what to do."""

    def __init__(self, said: Message) -> None:
        super().__init__(said)
        self.message = said


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """What a host offers to Placement.

    `total` counts guaranteed LLC ways over all cache domains, `max_unit` is the most that one
    guest can have: those of the best domain. `withdrawn`: guests that have ways keep them, no other
    gets any, and no trait is set. `reasons` explain both to who reads the file.
    """

    total: int
    max_unit: int
    ddio: bool  # its ways can be sized
    reasons: tuple[Message, ...] = ()
    withdrawn: bool = False

    @property
    def traits(self) -> tuple[str, ...]:
        """The traits that the host has in Placement."""
        if self.withdrawn:
            return ()
        return (TRAIT, TRAIT_DDIO) if self.ddio else (TRAIT,)

    @property
    def message(self) -> Message:
        """Ways and traits."""
        if self.withdrawn:
            return message("offer-nothing")
        return message("offer", ways=self.total, most=self.max_unit, traits=self.traits)


def render(offer: Offer, node: str = COMPUTE_NODE, reasons: Iterable[str] = ()) -> str:
    """Return the text of provider.yaml. `node`: a compute node's UUID, its name, or all.

    `reasons`: a comment each.

    Raises `ProviderConfigError` when there is nothing to offer.
    """
    total = offer.total
    if offer.withdrawn:
        total = max(1, total)  # Placement takes no inventory of nothing
    elif total < 1:
        raise ProviderConfigError(message("offer-empty", reasons=offer.reasons))
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("iat_nova.agent", "."),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # YAML, not HTML; `node` is quoted by tojson
    )
    return environment.get_template("provider.yaml.j2").render(
        identification="uuid" if node == COMPUTE_NODE or _UUID.fullmatch(node) else "name",
        node=node,
        resource_class=extra_specs.RESOURCE_CLASS,
        total=total,
        reserved=total if offer.withdrawn else 0,
        max_unit=max(1, offer.max_unit),
        traits=offer.traits,
        reasons=[" ".join(reason.splitlines()) for reason in reasons],
    )


def write(path: str | os.PathLike[str], text: str) -> None:
    """Put the text in place of the file at `path`: all of it, or nothing.

    Raises `ProviderConfigError` when another file beside it describes the same compute node, and
    `OSError`.
    """
    target = pathlib.Path(path)
    for other in sorted(target.parent.glob("*.yaml")):
        if other.name != target.name:
            _refuse_conflict(other, text)
    # Nova reads *.yaml, which the unfinished file is not called, and runs as another user.
    write_named(target, text, durable=True)


def _refuse_conflict(other: pathlib.Path, text: str) -> None:
    try:
        theirs = set(_nodes(parse_yaml_texts(PROVIDER.read(other))))
    except Unreadable as error:
        said = message("provider-not-yaml", path=str(other), error=as_message(error))
        raise ProviderConfigError(said) from error
    common = theirs & set(_nodes(parse_yaml_texts(text.encode())))
    if common:
        nodes = tuple(sorted(common))
        raise ProviderConfigError(message("provider-twice", path=str(other), nodes=nodes))


def offered(path: str | pathlib.Path) -> Offer | None:
    """Return what a file of such a folder offers of ours, None where it does not speak of it.

    Of several nodes in a file the first that has anything of ours counts. Raises
    `ProviderConfigError`.
    """
    try:
        document = parse_yaml_texts(PROVIDER.read(path))
        return next(filter(None, map(_offer, _providers(document))), None)
    except (OSError, Unreadable) as error:
        why = verbatim(error.strerror or "") if isinstance(error, OSError) else as_message(error)
        said = message("provider-not-understood", path=str(path), error=why)
        raise ProviderConfigError(said) from error
    except _OTHER_SHAPES as error:
        said = message("provider-of-another-form", path=str(path), error=repr(error))
        raise ProviderConfigError(said) from error


# What a document that is not a provider.yaml makes Python raise.
_OTHER_SHAPES = (AttributeError, LookupError, TypeError, ValueError)


def _offer(provider: Mapping[str, Any]) -> Offer | None:
    """Read one provider; raises what a document of another shape makes Python raise."""
    traits = {*provider.get("traits", {}).get("additional", ())} & {TRAIT, TRAIT_DDIO}
    for inventory in provider.get("inventories", {}).get("additional", ()):
        if (ours := inventory.get(extra_specs.RESOURCE_CLASS)) is not None:
            total, reserved = _count(ours, "total"), _count(ours, "reserved", "0")
            return Offer(
                total,
                _count(ours, "max_unit", str(total)),
                TRAIT_DDIO in traits,
                withdrawn=reserved >= total and not traits,
            )
    return Offer(0, 0, TRAIT_DDIO in traits) if traits else None


def _count(inventory: Mapping[str, Any], key: str, missing: str | None = None) -> int:
    """Return a count of an inventory. Raises `ValueError`, `KeyError`."""
    text = inventory[key] if missing is None else inventory.get(key, missing)
    count = bounded_int(text, _MOST_COUNT)
    if count is None:
        raise ValueError(f"{key}: expected a count")
    return count


def _providers(document: Any) -> Iterator[Mapping[str, Any]]:
    yield from document.get("providers", ())


def _nodes(document: object) -> Iterator[str]:
    """Yield the names and UUIDs of the nodes a provider.yaml describes."""
    providers = document.get("providers") if isinstance(document, Mapping) else None
    for provider in providers if isinstance(providers, Iterable) else ():
        identification = provider.get("identification") if isinstance(provider, Mapping) else None
        if isinstance(identification, Mapping):
            yield from map(str, identification.values())
