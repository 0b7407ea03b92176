# SPDX-License-Identifier: Apache-2.0
"""Nova's provider.yaml: the trait of a host with IAT, and its guaranteed LLC ways as a resource.

nova-compute does not start if any file in the folder is invalid. So a file is replaced atomically,
and never by a file that contradicts another file. nova-compute also does not start if the file
lacks an inventory that guests use: an offer is withdrawn by reserving all ways.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from iat_nova.common.owned_folder import write_named
from iat_nova.common.readers import PROVIDER
from iat_nova.common.untrusted import Unreadable, bounded_int, parse_yaml_texts
from iat_nova.model import Facts, Message, message, verbatim
from iat_nova.model.message import MessageError, as_message
from iat_nova.policy import guarantee
from iat_nova.policy.guarantee import RESOURCE_CLASS
from iat_nova.store.records import Placement

if TYPE_CHECKING:
    from iat_nova.conf import Settings
    from iat_nova.policy import Policy

TRAIT = "CUSTOM_IAT"
TRAIT_DDIO = "CUSTOM_IAT_DDIO"

COMPUTE_NODE = "$COMPUTE_NODE"
"""All compute nodes of the nova-compute that reads the file."""

_MOST_COUNT = (1 << 31) - 1  # Placement's columns are integers of 32 bits
_UUID = re.compile("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


class ProviderConfigError(MessageError):
    """The file cannot be written or read; `message` has the reason and the remedy."""


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """A host's offer to Placement.

    `total`: guaranteed LLC ways over all cache domains. `max_unit`: the maximum for one guest, the
    ways of the best domain. `min_unit`: the minimum for one guest, the ways of the CPU's least
    mask: a guest with fewer would have as many, and Placement would count too few. `withdrawn`:
    guests with ways keep their ways, no other guest gets any, and no trait is set. `reasons`
    explain the numbers to readers of the file.
    """

    total: int
    max_unit: int
    ddio: bool  # its ways can be sized
    reasons: tuple[Message, ...] = ()
    withdrawn: bool = False
    min_unit: int = 1

    @property
    def traits(self) -> tuple[str, ...]:
        """The traits of the host in Placement."""
        if self.withdrawn:
            return ()
        return (TRAIT, TRAIT_DDIO) if self.ddio else (TRAIT,)

    @property
    def message(self) -> Message:
        """The offer in words: ways and traits."""
        if self.withdrawn:
            return message("offer-nothing")
        said = message("offer", ways=self.total, most=self.max_unit, traits=self.traits)
        if self.min_unit == 1:
            return said
        return Message("offer-from", {**said.values, "least": self.min_unit})


def render(offer: Offer, node: str = COMPUTE_NODE, reasons: Iterable[str] = ()) -> str:
    """Return the text of provider.yaml. `node`: a compute node's UUID or name, or all nodes.

    `reasons`: comments.

    Raises `ProviderConfigError` without any way to offer, unless withdrawn.
    """
    total = offer.total
    if offer.withdrawn:
        total = max(1, total)  # Placement refuses an empty inventory
    elif total < 1:
        raise ProviderConfigError(message("offer-empty", reasons=offer.reasons))
    import jinja2  # noqa: PLC0415 - slow to load

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("iat_nova.agent", "."),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # YAML, not HTML; `node` is quoted by tojson
    )
    return environment.get_template("provider.yaml.j2").render(
        identification="uuid" if node == COMPUTE_NODE or _UUID.fullmatch(node) else "name",
        node=node,
        resource_class=RESOURCE_CLASS,
        total=total,
        reserved=total if offer.withdrawn else 0,
        min_unit=offer.min_unit,
        max_unit=max(offer.min_unit, offer.max_unit),
        traits=offer.traits,
        comments=[line for reason in reasons for line in _wrapped(reason)],
    )


def _wrapped(comment: str) -> list[str]:
    text = " ".join(comment.splitlines())
    return textwrap.wrap(text, 78, subsequent_indent="  ", break_on_hyphens=False)


def write(path: str | os.PathLike[str], text: str) -> None:
    """Replace the file at `path` by the text atomically.

    Raises `ProviderConfigError` if another file in the folder describes the same compute node, and
    `OSError`.
    """
    target = pathlib.Path(path)
    for other in files(target.parent):
        if other.name != target.name:
            _refuse_conflict(other, text)
    # Nova reads *.yaml, which does not match the unfinished file, and runs as another user.
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


def files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the files of a folder that Nova reads; none without a folder.

    Raises `ProviderConfigError` if the folder cannot be examined.
    """
    try:  # Path.glob hides errors
        return sorted(path for path in folder.iterdir() if path.name.endswith(".yaml"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:  # for example, a folder above may not be entered
        why = verbatim(error.strerror or "")
        said = message("provider-folder-unreadable", path=str(folder), error=why)
        raise ProviderConfigError(said) from error


def offered(path: str | pathlib.Path) -> Offer | None:
    """Return the LLC ways that a provider.yaml offers to Placement, or None if it offers no ways.

    If the file describes several compute nodes, the first node with an offer counts. Raises
    `ProviderConfigError`.
    """
    try:
        document = parse_yaml_texts(PROVIDER.read(path))
        return next(filter(None, map(_offer, document.get("providers", ()))), None)
    except (OSError, Unreadable) as error:
        why = verbatim(error.strerror or "") if isinstance(error, OSError) else as_message(error)
        said = message("provider-not-understood", path=str(path), error=why)
        raise ProviderConfigError(said) from error
    except _OTHER_SHAPES as error:
        said = message("provider-of-another-form", path=str(path), error=repr(error))
        raise ProviderConfigError(said) from error


# Python's errors for a document that is not a provider.yaml.
_OTHER_SHAPES = (AttributeError, LookupError, TypeError, ValueError)


def _offer(provider: Mapping[str, Any]) -> Offer | None:
    """Return the offer of one provider, or None.

    Raises one of `_OTHER_SHAPES` if the document is not a provider.yaml.
    """
    traits = {*provider.get("traits", {}).get("additional", ())} & {TRAIT, TRAIT_DDIO}
    for inventory in provider.get("inventories", {}).get("additional", ()):
        if (ours := inventory.get(RESOURCE_CLASS)) is not None:
            total, reserved = _count(ours, "total"), _count(ours, "reserved", "0")
            return Offer(
                total,
                _count(ours, "max_unit", str(total)),
                TRAIT_DDIO in traits,
                withdrawn=reserved >= total and not traits,
                min_unit=_count(ours, "min_unit", "1"),
            )
    return Offer(0, 0, TRAIT_DDIO in traits) if traits else None


def _count(inventory: Mapping[str, Any], key: str, missing: str | None = None) -> int:
    """Return a count of an inventory. Raises `ValueError`, `KeyError`."""
    text = inventory[key] if missing is None else inventory.get(key, missing)
    count = bounded_int(text, _MOST_COUNT)
    if count is None:
        raise ValueError(f"{key}: expected a count")
    return count


def _nodes(document: object) -> Iterator[str]:
    providers = document.get("providers") if isinstance(document, Mapping) else None
    for provider in providers if isinstance(providers, Iterable) else ():
        identification = provider.get("identification") if isinstance(provider, Mapping) else None
        if isinstance(identification, Mapping):
            yield from map(str, identification.values())


def offer(settings: Settings, policy: Policy, facts: Facts) -> Offer:
    """Return the host's offer under a policy; in mode observe, nothing for new guests."""
    guarantees = guarantee.of_host(
        facts,
        policy.rules,
        policy.parameters,
        assume_stack=settings.ovsdb_connection is not None,
    )
    domains = facts.host.domains
    least = max((domain.min_ways for domain in domains), default=1)
    reasons = tuple(one.message for one in guarantees) or (message("offer-no-domain"),)
    if least > 1:
        reasons += (message("offer-least", least=least),)
    found = Offer(
        total=sum(known.left for known in guarantees),
        max_unit=max((known.left for known in guarantees), default=0),
        ddio=bool(domains) and all(domain.ddio_resizable for domain in domains),
        reasons=reasons,
        min_unit=least,
    )
    if settings.mode == "observe":
        reasons = (message("offer-observing"), *found.reasons)
        return dataclasses.replace(found, withdrawn=True, reasons=reasons)
    return found


def compare(settings: Settings, policy: Policy, facts: Facts) -> tuple[Placement, Message | None]:
    """Compare the files of `provider_config_location` with the possible offer of this host.

    The message is None without a difference. A host without one of our files offers nothing;
    this is not a difference.
    """
    able = offer(settings, policy, facts)
    found = Placement(_ways(able), able.traits)
    try:
        paths = files(settings.provider_config_location)
    except ProviderConfigError as error:
        return found, message("placement-unknown", error=as_message(error))
    try:
        for path in paths:
            said = offered(path)
            if said is not None:
                found = dataclasses.replace(
                    found, offered_ways=_ways(said), offered_traits=said.traits
                )
                if not _same(said, able):
                    return found, _difference(path, said, able)
    except ProviderConfigError as error:
        return found, message("placement-unreadable", error=as_message(error))
    return found, None


def _ways(one: Offer) -> int:
    return 0 if one.withdrawn else one.total


def _same(said: Offer, able: Offer) -> bool:
    if said.withdrawn or able.withdrawn:
        return said.withdrawn and able.withdrawn
    return all(
        getattr(said, name) == getattr(able, name)
        for name in ("total", "min_unit", "max_unit", "traits")
    )


def _difference(path: pathlib.Path, said: Offer, able: Offer) -> Message:
    some = able.withdrawn or able.total
    return message(
        "placement-differs" if some else "placement-withdraw",
        path=str(path),
        offered=said.message,
        able=able.message if some else message("offer-nothing"),
        reasons=able.reasons,
    )
