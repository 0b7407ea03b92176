# SPDX-License-Identifier: Apache-2.0
"""Nova's `<metadata>` about an instance in its domain.

Every supported release writes name, owner and image. Since release 32 (2025.2) Nova also writes the
flavor's extra specs and the image's properties. A missing element means *unknown*; an empty
``<nova:extraSpecs/>`` means *none*.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from xml.etree import ElementTree

from iat_nova.model import Message, message

_NAMESPACE = "http://openstack.org/xmlns/libvirt/nova/"  # a version follows: 1.0, 1.1


@dataclasses.dataclass(frozen=True, slots=True)
class NovaMetadata:
    """Nova's metadata of an instance; None for missing values.

    Extra specs and image properties came with the same release. If the specs are known, an image
    without properties is known to have none.
    """

    name: str | None = None
    flavor: str | None = None
    project: str | None = None
    extra_specs: Mapping[str, str] | None = None
    image_properties: Mapping[str, str] | None = None
    warnings: tuple[Message, ...] = ()
    project_name: str | None = None


def parse(domain: ElementTree.Element) -> NovaMetadata | None:
    """Parse the metadata of a domain, None without metadata of Nova. Never raises."""
    found = [
        child
        for child in domain.iterfind("metadata/*")
        if child.tag.startswith("{" + _NAMESPACE) and child.tag.endswith("}instance")
    ]
    if not found:
        return None
    instance = found[0]
    ns = instance.tag.removesuffix("instance")
    warnings: list[Message] = []
    flavor = instance.find(f"{ns}flavor")
    project = instance.find(f"{ns}owner/{ns}project")
    specs = _pairs(instance, f"{ns}flavor/{ns}extraSpecs", "extra spec", warnings)
    properties = _pairs(instance, f"{ns}image/{ns}properties", "image property", warnings)
    return NovaMetadata(
        name=instance.findtext(f"{ns}name") or None,
        flavor=_attribute(flavor, "name", "flavor", warnings),
        project=_attribute(project, "uuid", "owner's project", warnings),
        extra_specs=specs,
        image_properties={} if properties is None and specs is not None else properties,
        warnings=tuple(warnings),
        project_name=(project.text or None) if project is not None else None,
    )


def _attribute(
    element: ElementTree.Element | None, name: str, what: str, warnings: list[Message]
) -> str | None:
    value = None if element is None else element.get(name)
    if not value:
        warnings.append(message("nova-metadata-without", part=what))
        return None
    return value


def _pairs(
    instance: ElementTree.Element, path: str, what: str, warnings: list[Message]
) -> dict[str, str] | None:
    """Read `<x name="key">value</x>` children; None without such a list."""
    parent = instance.find(path)
    if parent is None:
        return None
    pairs: dict[str, str] = {}
    for child in parent:
        name = child.get("name")
        if not name:
            warnings.append(message("nova-metadata-nameless", part=what))
        elif name in pairs:
            warnings.append(message("nova-metadata-twice", part=what, name=name))
        else:
            pairs[name] = child.text or ""
    return pairs
