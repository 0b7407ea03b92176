# SPDX-License-Identifier: Apache-2.0
"""The vCPUs of an instance to which Nova guarantees dedicated CPUs, and the host's sets of CPUs.

Follows Nova's reading of flavor and image (`nova/virt/hardware.py`, `numa_get_constraints`): the
flavor's ``hw:cpu_policy`` takes precedence over the image's ``hw_cpu_policy``. ``resources:PCPU``
and ``resources:VCPU`` also mean dedicated and shared.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from iat_nova.common.cpulist import parse_cpus

_RESOURCES = re.compile(r"resources[^:]*:(PCPU|VCPU)")


@dataclasses.dataclass(frozen=True, slots=True)
class CpuSets:
    """nova.conf's ``[compute] cpu_dedicated_set`` and ``cpu_shared_set``; None: not set."""

    dedicated: frozenset[int] | None = None
    shared: frozenset[int] | None = None

    @classmethod
    def parse(cls, dedicated: str | None, shared: str | None) -> CpuSets:
        """Parse both options in nova.conf's format. Raises `ValueError` naming the option."""
        return cls(
            _option("cpu_dedicated_set", dedicated),
            _option("cpu_shared_set", shared),
        )


def _option(name: str, text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise ValueError(f"[compute] {name}: {error}") from error


def promised_vcpus(
    vcpus: int, extra_specs: Mapping[str, str] | None, image_properties: Mapping[str, str] | None
) -> frozenset[int] | None:
    """Return the vCPUs with dedicated CPUs; None when flavor and image set no policy.

    If flavor or image is unknown (None), the other may set a policy: see `is_silent`. Raises
    `ValueError` for a policy or a mask that Nova refuses, too.
    """
    specs, image = extra_specs or {}, image_properties or {}
    every = frozenset(range(vcpus))
    match _policy(specs, image):
        case None:
            return None
        case "dedicated":
            return every
        case "shared":
            return frozenset()
        case "mixed":
            return _mixed(every, specs, image)
        case unknown:
            raise ValueError(f"hw:cpu_policy '{unknown}' is unknown")


def is_silent(
    extra_specs: Mapping[str, str] | None, image_properties: Mapping[str, str] | None
) -> bool:
    """Tell whether flavor and image are known to set no CPU policy: Nova then pins no vCPU."""
    if extra_specs is None or image_properties is None:
        return False
    return _policy(extra_specs, image_properties) is None


def emulator_policy(extra_specs: Mapping[str, str] | None) -> str | None:
    """Return the flavor's policy for emulator threads; None if not set or not known.

    Nova has no image property for this policy.
    """
    return (extra_specs or {}).get("hw:emulator_threads_policy")


def _policy(specs: Mapping[str, str], image_properties: Mapping[str, str]) -> str | None:
    if policy := specs.get("hw:cpu_policy") or image_properties.get("hw_cpu_policy"):
        return policy
    for key, value in specs.items():
        found = _RESOURCES.fullmatch(key)
        if found and value.strip() not in ("", "0"):
            return "dedicated" if found[1] == "PCPU" else "shared"
    return None


def _mixed(
    every: frozenset[int], specs: Mapping[str, str], image_properties: Mapping[str, str]
) -> frozenset[int] | None:
    """Return the masked vCPUs; None when the mask is not available (specs unknown)."""
    mask = (
        specs.get("hw:cpu_dedicated_mask")
        or image_properties.get("hw_cpu_realtime_mask")
        or specs.get("hw:cpu_realtime_mask")
    )
    if not mask:
        return None
    # A mask that begins with an exclusion excludes from all vCPUs: ^0 means all but the first.
    if mask.strip().startswith("^"):
        mask = f"0-{max(every, default=0)},{mask}"
    return parse_cpus(mask) & every
