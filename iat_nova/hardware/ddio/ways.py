# SPDX-License-Identifier: Apache-2.0
"""The interfaces that set DDIO's ways: a register (Intel), a resctrl file (AMD), or none."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from iat_nova.hardware.api import DomainOffline, HardwareError
from iat_nova.hardware.cat import limits
from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from iat_nova.hardware.cat.resctrl_text import parse_masks
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.msr import IIO_LLC_WAYS, Msr, with_bits
from iat_nova.hardware.kernel.rollback import AllReachable, Reach, SavedKeys, put_all_back
from iat_nova.hardware.kernel.shape import HEX, NUMBER, mapping, record, text
from iat_nova.hardware.kernel.topology import Cache, Topology
from iat_nova.model import CacheDomain, Message, WayMask, message

Domains = Callable[[], tuple[CacheDomain, ...]]
"""A function that returns the cache domains, such as `CacheAllocator.domains`."""


def _ways(domain: CacheDomain) -> int:
    """Return the mask of all ways; the other bits of IIO_LLC_WAYS are not documented."""
    return (1 << domain.ways) - 1


_MOST_WAYS = 32  # that CAT can describe (CPUID leaf 0x10)


def with_ways(cache: Cache, register: int, saved: int, ways: int | None = None) -> int:
    """Return a value of IIO_LLC_WAYS with the ways of a saved value; other bits are not written.

    `ways`: number of the cache's ways by resctrl, None: by sysfs. Raises `HardwareError` for an
    empty mask, or one with a gap: no agent writes these, nor may a restore.
    """
    domain = CacheDomain(cache.id, cache.cpus, ways or cache.ways or _MOST_WAYS, 1)
    limits.check_ddio(domain, WayMask(saved & _ways(domain)))
    return with_bits(register, saved, _ways(domain))


class MsrDdio:
    """`hardware.api.DdioWays` through IIO_LLC_WAYS, MSR 0xC8B: one bit per way, package scope.

    The register accepts any value. Only hit and miss rates show whether the CPU follows the
    register; an Ice Lake was seen to ignore it. `ways`: see `with_ways`.
    """

    shape = mapping(NUMBER, HEX)

    def __init__(
        self,
        msr: Msr,
        domains: Domains,
        topology: Topology,
        ways: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._msr = msr
        self._domains = domains
        self._topology = topology
        self._ways = ways
        self._saved = SavedKeys()
        self._wrote: set[int] = set()
        self._known: tuple[CacheDomain, ...] = ()

    def read(self, domain: int) -> WayMask | None:
        """Return the register's ways. Raises `HardwareError`."""
        return self._read(*self._find(domain))

    def mask_of(self, domain: CacheDomain) -> WayMask:
        """Return the register's ways for a given domain. Raises `HardwareError`."""
        return self._read(domain, self._cpu(domain))

    def write(self, domain: int, mask: WayMask) -> WayMask:
        """Set the register; return the ways as read back. Raises `HardwareError`."""
        found, cpu = self._find(domain)
        limits.check_ddio(found, mask)
        self._saved.check(domain)
        other = self._msr.read(cpu, IIO_LLC_WAYS) & ~_ways(found)  # other bits are kept
        self._wrote.add(domain)
        self._msr.write(cpu, IIO_LLC_WAYS, other | mask)
        return self._read(found, cpu)

    def _read(self, domain: CacheDomain, cpu: int) -> WayMask:
        return WayMask(self._msr.read(cpu, IIO_LLC_WAYS) & _ways(domain))

    def _find(self, domain: int) -> tuple[CacheDomain, int]:
        """Return a domain and an online CPU of the domain.

        The domains are read again if no known CPU of the domain is online.
        """
        online = self._topology.online()
        for known in self._known:
            if known.id == domain and (cpus := online.intersection(known.cpus)):
                return known, min(cpus)
        self._known = self._domains()
        found = limits.find(self._known, domain)
        return found, self._cpu(found)

    def _cpu(self, domain: CacheDomain) -> int:
        online = self._topology.online().intersection(domain.cpus)
        if not online:
            raise DomainOffline(domain.id)
        return min(online)

    def save(self) -> dict[str, Any]:
        """Return, as plain JSON values, the settings for `restore`."""
        found, ways = {}, self._ways()
        for cache in self._topology.caches():
            value = self._msr.read(cache.cpus[0], IIO_LLC_WAYS)
            with_ways(cache, value, value, ways)  # otherwise `restore` would refuse it
            found[str(cache.id)] = f"{value:x}"
        self._saved.renew(found)
        return found

    def written(self, saved: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the saved registers that this process has written; see `rollback.Noting`."""
        return {
            domain: text for domain, text in saved.items() if int(domain) in self._wrote
        } or None

    def reachable(self, saved: Mapping[str, Any]) -> Reach:
        """Divide the registers: an offline socket keeps its register, but out of reach."""
        there = {str(cache.id) for cache in self._topology.caches()}
        later = {domain: text for domain, text in saved.items() if domain not in there}
        return Reach(
            {domain: text for domain, text in saved.items() if domain in there} or None,
            later or None,
            tuple(message("ddio-register-offline", domain=domain) for domain in later),
        )

    def restore(self, saved: Mapping[str, Any]) -> tuple[Message, ...]:
        """Restore the ways in the registers; return a message for each change. May be repeated.

        The service's account could have forged the snapshot: see `with_ways`.
        """
        ways = self._ways()

        def put_back(cache: Cache) -> Message | None:
            now = self._msr.read(cache.cpus[0], IIO_LLC_WAYS)
            value = with_ways(cache, now, int(saved[str(cache.id)], 16), ways)
            if now == value:
                return None
            self._msr.write(cache.cpus[0], IIO_LLC_WAYS, value)
            return message("ddio-register-restored", domain=cache.id, value=value)

        there = (cache for cache in self._topology.caches() if str(cache.id) in saved)
        return put_all_back(there, put_back)


class IoAllocDdio(AllReachable):
    """`hardware.api.DdioWays` through resctrl's ``io_alloc`` (AMD SDCIAE, Linux 6.19).

    With io_alloc enabled, devices use the highest class of service, whose masks are in
    ``io_alloc_cbm``. Only devices with PCIe TPH are steered, and no counter has their hits and
    misses. While io_alloc is disabled, or a mask has all ways, devices may fill any way. Then
    `read` returns the empty mask, because devices have no ways of their own; writing the empty mask
    returns to this state. The first `write` of another mask enables io_alloc for all domains. Masks
    of an offline cache are lost: the kernel resets the cache.
    """

    shape = record(
        {
            "state": text("enabled|disabled|not supported", "a state of io_alloc"),
            "masks": mapping(NUMBER, HEX),
        }
    )

    def __init__(self, fs: ResctrlFs, domains: Domains) -> None:
        self._fs = fs
        self._domains = domains
        self._saved = SavedKeys()
        self._wrote: set[int] = set()
        self._enabled = False  # this process has enabled io_alloc, which resets all masks

    def state(self) -> str:
        """Return ``enabled``, ``disabled`` or ``not supported``. Raises `HardwareError`."""
        return self._fs.parsed(self._name("io_alloc"), str, "not supported")

    def read(self, domain: int) -> WayMask | None:
        """Return the devices' mask; empty if devices may fill all ways, None without io_alloc."""
        return self.mask_of(limits.find(self._domains(), domain))

    def mask_of(self, domain: CacheDomain) -> WayMask | None:
        """Return the devices' mask in a given domain; empty and None as in `read`."""
        state = self.state()
        if state != "enabled":
            return None if state == "not supported" else WayMask(0)
        mask = self._mask(domain.id)
        return mask if mask != _ways(domain) else WayMask(0)

    def shut(self) -> tuple[int, ...]:
        """Return the domains whose caches an operator has closed to devices by empty masks."""
        if self.state() != "enabled":
            return ()
        return tuple(domain for domain, mask in self._masks().items() if not mask)

    def write(self, domain: int, mask: WayMask) -> WayMask:
        """Enable io_alloc if necessary and set the mask; return the mask as read back."""
        found = limits.find(self._domains(), domain)
        if mask:
            limits.check_ddio(found, mask)
        self._saved.check(domain)
        with self._fs.locked():
            if self.state() != "enabled":
                if not mask:
                    return mask
                self._enabled = True
                self._fs.put(self._name("io_alloc"), "1")
            self._wrote.add(domain)
            self._fs.put(self._name("io_alloc_cbm"), f"{domain}={mask or _ways(found):x}")
        return self.mask_of(found) or WayMask(0)

    def _mask(self, domain: int) -> WayMask:
        masks = self._masks()
        if domain not in masks:  # the kernel leaves out offline domains
            raise DomainOffline(domain)
        return masks[domain]

    def _name(self, file: str) -> str:
        # With code and data prioritisation, devices use the class of the data masks.
        folder = "L3DATA" if files.exists(self._fs.root / "info/L3DATA") else "L3"
        return f"info/{folder}/{file}"

    def _masks(self) -> dict[int, WayMask]:
        return self._fs.parsed(self._name("io_alloc_cbm"), parse_masks)

    def save(self) -> dict[str, Any]:
        """Return, as plain JSON values, the settings for `restore`."""
        state = self.state()
        masks = self._masks() if state == "enabled" else {}
        self._saved.renew(masks if state == "enabled" else None)  # disabled again as a whole
        return {
            "state": state,
            "masks": {str(domain): f"{mask:x}" for domain, mask in masks.items()},
        }

    def written(self, saved: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the state, with the masks that this process has written; see `rollback.Noting`."""
        if not (self._wrote or self._enabled):
            return None
        if self._enabled or self.state() != "enabled":  # then `restore` enables: resets all masks
            return dict(saved)
        masks = {n: mask for n, mask in saved["masks"].items() if int(n) in self._wrote}
        return {**saved, "masks": masks}

    def restore(self, saved: Mapping[str, Any]) -> tuple[Message, ...]:
        """Restore masks and state; return a message for each change. May be repeated."""
        now = self.state()
        if now == "not supported" or saved["state"] == "not supported":
            return ()
        with self._fs.locked():
            if saved["state"] == "disabled":
                if now == "disabled":
                    return ()
                self._fs.put(self._name("io_alloc"), "0")
                return (message("io-alloc-disabled"),)
            if now == "disabled":
                self._fs.put(self._name("io_alloc"), "1")
            have = self._masks()

            def put_back(one: tuple[str, str]) -> Message | None:
                number, mask = int(one[0]), int(one[1], 16)
                if have.get(number, mask) == mask:
                    return None
                self._fs.put(self._name("io_alloc_cbm"), f"{number}={mask:x}")
                return message("io-alloc-restored", domain=number, mask=mask)

            return put_all_back(saved["masks"].items(), put_back)


class FixedDdio:
    """`hardware.api.DdioWays` without an interface: DDIO keeps the ways of the hardware.

    `find` returns the known masks by domain (for example CPUID's ways shared with I/O). `find` is
    called once, at the first reading: by then the agent has restored an earlier agent's settings.
    """

    def __init__(self, find: Callable[[], Mapping[int, WayMask]], reason: Message) -> None:
        self._find = functools.cache(find)
        self._reason = reason

    def read(self, domain: int) -> WayMask | None:
        """Return the known mask, or None."""
        return self._find().get(domain)

    def mask_of(self, domain: CacheDomain) -> WayMask | None:
        """Return the known mask of a given domain, or None."""
        return self.read(domain.id)

    def write(self, domain: int, mask: WayMask) -> WayMask:
        """Raise `HardwareError` with the reason why DDIO's ways cannot be set."""
        raise HardwareError(message("ddio-ways-fixed", domain=domain, reason=self._reason))
