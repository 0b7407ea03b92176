# SPDX-License-Identifier: Apache-2.0
"""DDIO off for single PCIe root ports: their devices write to memory, not into the LLC.

Register ``perfctrlsts_0`` of the root port, PCI configuration space 0x180 (Skylake and Cascade
Lake servers; Ice Lake ignores the bits): bit 7 Use_Allocating_Flow_Wr = 0 and bit 3
NoSnoopOpWrEn = 1 switch DDIO off. Beyond the first 64 bytes the kernel allows access to
configuration space only with CAP_SYS_ADMIN (drivers/pci/pci-sysfs.c): without this capability a
read ends early. In addition, the unit's ProtectKernelTunables makes /sys read-only.
"""

from __future__ import annotations

import dataclasses
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from iat_nova.hardware.api import HardwareError, LastingRefusal, unusable
from iat_nova.hardware.ddio import pci_place
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.rollback import Reach, put_all_back
from iat_nova.hardware.kernel.shape import mapping, one_of, text
from iat_nova.model import CacheDomain, DcaPort, Message, message

DEVICES = Path("/sys/bus/pci/devices")
PERFCTRLSTS_0 = 0x180
_ALLOCATING, _NO_SNOOP = 1 << 7, 1 << 3
_BITS = _ALLOCATING | _NO_SNOOP
_SETTINGS = (0, _NO_SNOOP, _ALLOCATING, _BITS)  # possible values of the two bits
_DWORD = struct.Struct("<I")
_PCI_EXPRESS, _ROOT_PORT = 0x10, 4  # capability; device/port type, bits 7..4 of its flags
_RIGHT = message("give-port-right")


class RootPorts:
    """The root ports of an operator's lists, by PCI address such as ``0000:3a:00.0``.

    DDIO is off at `ports` as long as the agent enforces; at `switchable` ports a strategy decides.
    The snapshot saves and restores the ports. Only the two bits are ever changed. A port that was
    removed in sysfs keeps its register: the bits are restored after a rescan has found the port.
    """

    shape = mapping(text(pci_place.ADDRESS.pattern, "a PCI address"), one_of(_SETTINGS))

    def __init__(
        self,
        ports: Iterable[str] = (),
        devices: Path = DEVICES,
        switchable: Iterable[str] = (),
    ) -> None:
        self._ports = tuple(ports)
        self._switchable = tuple(switchable)
        self._devices = devices
        self._is_off = False
        self._found: dict[str, int] = {}  # the two bits of switchable ports before our first write
        self._written: dict[str, int] = {}
        self._wrote: set[str] = set()  # ports in `_written` now or before a restore
        self._of: dict[int, tuple[str, ...]] = {}  # switchable ports, by cache domain
        self._saved: frozenset[str] = frozenset()

    def described(self) -> Message:
        """Return the message on ports with DDIO off and on switchable ports."""
        off = (message("ports-off", ports=self._ports),) if self._ports else ()
        switchable = (
            (message("ports-switchable", ports=self._switchable),) if self._switchable else ()
        )
        ports = (*off, *switchable)
        return message("several", causes=ports) if ports else message("ports-unnamed")

    def check(self) -> None:
        """Raise `HardwareError` unless every port is a root port with a readable register."""
        for port in (*self._ports, *self._switchable):
            if not self._is_root_port(port):
                raise HardwareError(
                    message("not-a-root-port", path=str(self._devices / port)),
                    message("name-port-above"),
                )
            self._read(port)

    def off(self) -> None:
        """Switch DDIO off at the ports that stay off; a second call before a restore does nothing.

        Raises `HardwareError`.
        """
        if self._is_off:
            return
        for port in self._ports:
            self._wrote.add(port)
            self._set(port, _NO_SNOOP)
            self._written[port] = _NO_SNOOP
        self._is_off = True

    def assign(self, domains: Iterable[CacheDomain]) -> tuple[CacheDomain, ...]:
        """Return the domains with their switchable ports, as `pci_place` divides devices.

        A port that is unplugged belongs to no domain. Raises `HardwareError`.
        """
        domains = tuple(domains)
        self._of |= pci_place.by_domain(self._devices, domains, self._there())
        return tuple(
            dataclasses.replace(domain, dca_ports=tuple(map(self._port, self._of[domain.id])))
            for domain in domains
        )

    def switch(self, domain: int, off: Iterable[str]) -> None:
        """Switch DDIO off at these ports of a domain; restore the bits of its other ports.

        A port that was plugged in after `save` is not changed, because it could not be restored.
        """
        wanted = frozenset(off)
        ours = (port for port in self._of.get(domain, ()) if port in self._saved)
        for port in filter(self._is_there, ours):
            if port not in wanted and port not in self._found:
                continue  # not ours: an operator may change it
            if port not in self._found:
                now = self._read(port) & _BITS
                if now == _NO_SNOOP:
                    continue  # off already: not ours either
                self._found[port] = now
            bits = _NO_SNOOP if port in wanted else self._found[port]
            if self._written.get(port) != bits:
                self._wrote.add(port)
                self._set(port, bits)
                self._written[port] = bits

    def inspect(self) -> tuple[Message, ...]:
        """Return messages on ports whose bits another program changed. Raises `HardwareError`."""
        ours = filter(self._is_there, self._written)
        found = ((port, self._read(port) & _BITS) for port in ours)
        return tuple(
            message("port-bits-changed", port=port, left=self._written[port], bits=bits)
            for port, bits in found
            if bits != self._written[port]
        )

    def save(self) -> dict[str, int]:
        """Return, as plain JSON values, the two bits of every port."""
        found = {port: self._read(port) & _BITS for port in (*self._ports, *self._there())}
        self._saved = frozenset(found)
        return found

    def reachable(self, saved: Mapping[str, Any]) -> Reach:
        """Divide the ports: a port removed in sysfs keeps its register, but out of reach."""
        later = {port: bits for port, bits in saved.items() if not self._is_there(port)}
        return Reach(
            {port: bits for port, bits in saved.items() if port not in later} or None,
            later or None,
            tuple(message("port-not-in-sysfs", port=port) for port in later),
        )

    def written(self, saved: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the saved bits of ports that this process has written; see `rollback.Noting`."""
        return {port: bits for port, bits in saved.items() if port in self._wrote} or None

    def restore(self, saved: Mapping[str, Any]) -> tuple[Message, ...]:
        """Restore the two bits of each port; return a message for each change. May be repeated.

        A device that is not a root port is refused and not written.
        """
        self._is_off = self._is_off and saved.keys().isdisjoint(self._ports)
        for port in saved:
            self._found.pop(port, None)
            self._written.pop(port, None)

        def put_back(port: str) -> Message | None:
            if not self._is_root_port(port):
                path = str(self._devices / port)
                raise HardwareError(message("saved-port-is-none", path=path))
            if not self._set(port, saved[port]):
                return None
            return message("port-bits-restored", port=port, bits=saved[port])

        return put_all_back(saved, put_back)

    def _there(self) -> tuple[str, ...]:
        return tuple(filter(self._is_there, self._switchable))

    def _port(self, name: str) -> DcaPort:
        """Return a port with the devices below: subfolders in sysfs at any depth."""
        return DcaPort(name, tuple(sorted(pci_place.below((self._devices / name).resolve()))))

    def _is_there(self, port: str) -> bool:
        return files.exists(self._devices / port)

    def _set(self, port: str, bits: int) -> bool:
        """Set the two bits and read back; return whether the bits differed before."""
        before = self._read(port)
        if before & _BITS == bits:
            return False
        wanted = before & ~_BITS | bits
        path = self._devices / port / "config"
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.pwrite(fd, _DWORD.pack(wanted), PERFCTRLSTS_0)
            finally:
                os.close(fd)
        except OSError as error:
            unwritten = message("file-unwritten", path=str(path), reason=error.strerror)
            raise HardwareError(unwritten, _RIGHT) from error
        now = self._read(port)
        if now & _BITS != bits:
            raise LastingRefusal(
                message("port-ignores-bits", path=str(path), value=wanted, now=now),
                message("leave-port-out"),
            )
        return True

    def _read(self, port: str) -> int:
        path = self._devices / port / "config"
        data = self._config(port)[PERFCTRLSTS_0 : PERFCTRLSTS_0 + _DWORD.size]
        if len(data) < _DWORD.size:
            short = message("configuration-space-short", path=str(path), offset=PERFCTRLSTS_0)
            raise HardwareError(short, _RIGHT)
        value: int = _DWORD.unpack(data)[0]
        return value

    def _config(self, port: str) -> bytes:
        path = self._devices / port / "config"
        try:
            return path.read_bytes()
        except OSError as error:
            raise HardwareError(unusable(path, error)) from error

    def _is_root_port(self, port: str) -> bool:
        """Check for the PCI Express capability of a root port (PCIe base specification, 7.5.3)."""
        config = self._config(port)
        if len(config) < 64 or config[:2] != b"\x86\x80":
            return False
        if len(config) == 64:
            self._read(port)  # raises with the missing right
        at, seen = config[0x34], set()
        while 0x40 <= at < 0xFE and at not in seen:
            seen.add(at)
            if config[at] == _PCI_EXPRESS:
                return config[at + 2] >> 4 == _ROOT_PORT
            at = config[at + 1]
        return False
