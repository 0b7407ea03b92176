# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch on this host, read from its database: the stack of the aggregation model.

Each call builds the result from an in-memory copy of the database. Two kinds of facts are not in
the copy and are requested during the call, within one time limit. First, the counts of packets and
drops: following their columns would mean useless work every five seconds. Second, CPUs and activity
of the PMD threads, which ovs-vswitchd reports.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from iat_nova.common import kernel_files
from iat_nova.common.owned_folder import OwnedFolder
from iat_nova.common.untrusted import bounded_int, shortened
from iat_nova.inventory import ovs_rpc, pmd, pmd_stats
from iat_nova.inventory.ovsdb import Follower, Rows
from iat_nova.inventory.traffic import Traffic
from iat_nova.model import USERSPACE, Message, PmdThread, SwitchPort, VirtualSwitch, message

DATABASE = "Open_vSwitch"
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "Open_vSwitch": ("other_config", "dpdk_initialized", "cur_cfg"),
    "Bridge": ("name", "datapath_type", "ports"),
    "Port": ("interfaces",),
    "Interface": ("name", "type", "external_ids", "options", "mtu", "ofport"),
}
"""All followed columns. A change of other columns causes no hint.

`cur_cfg` and `ofport` only give hints: ovs-vswitchd writes these columns after a requested change
(a new pmd-cpu-mask, a port). The PMD threads may then be different.
"""

_PID_BYTES = 32  # a PID of at most seven digits, and a line's end
_MOST = 2**31 - 1  # of an option that is a number; ovs-vswitchd reads C integers
_FAILED = -1  # the number of a port that ovs-vswitchd could not open: it has no device
_RXQ_SHOW = "dpif-netdev/pmd-rxq-show"
Statistics = tuple[int | None, int | None]
"""A port's packets, received and sent, and its dropped packets; None: not counted."""

# Statistics that count dropped packets, without double counts: rx_missed_errors and ovs_*_drops are
# included in these (Open vSwitch, lib/netdev-dpdk.c).
_DROPS = frozenset(("rx_dropped", "tx_dropped"))

_STATISTICS = {
    "op": "select",
    "table": "Interface",
    "where": [],
    "columns": ["name", "statistics"],
}


class OvsSource:
    """The inventory's source for Open vSwitch.

    `connection`: ovsdb-server's address, such as ``unix:/run/openvswitch/db.sock`` or
    ``tcp:127.0.0.1:6640``. `vswitchd_control`: ovs-vswitchd's control socket; by default the pid
    file in `rundir` leads to the socket. `timeout_s`: the time limit of every call except `close`,
    which may take a few times as long. `retry_s`: the longest delay until a new server is noticed.
    `warnings`: problems of this source at the last call of `switch`. All calls come from one
    thread.
    """

    def __init__(
        self,
        connection: str,
        *,
        vswitchd_control: str | None = None,
        rundir: str | pathlib.Path = "/run/openvswitch",
        proc_root: str | pathlib.Path = "/proc",
        timeout_s: float = 1.0,
        retry_s: float = 2.0,
    ) -> None:
        self._address = connection
        self._vswitchd_control = vswitchd_control
        self._rundir = pathlib.Path(rundir)
        self._proc_root = pathlib.Path(proc_root)
        self._timeout_s = timeout_s
        self._follower = Follower(connection, DATABASE, COLUMNS, timeout_s, retry_s)
        self._answered = False
        self._told_pmd = False  # its PMD threads are known, or known not to exist
        self._last: VirtualSwitch | None = None
        self._pmd_stats = pmd_stats.PmdStats()
        self._absence = pmd.Absence()
        self._drops = Traffic()
        self.warnings: tuple[Message, ...] = ()

    def start(self, on_hint: Callable[[], None]) -> None:
        """Begin to follow the database; other threads call `on_hint` at each change.

        Returns within `timeout_s`, with or without a server.
        """
        self._follower.start(on_hint)

    def close(self) -> None:
        """End the threads and the connection."""
        self._follower.close()

    @property
    def waiting_for(self) -> Message | None:
        """The source that must answer before anything is known of this host, or None."""
        if self._answered and not self._told_pmd:
            return message("vswitchd-unanswered", address=self._address)
        if self._answered:
            return None
        return message("ovsdb-unanswered", address=self._address)

    def switch(self) -> VirtualSwitch | None:
        """Return the switch; None without Open vSwitch, or before the first answer.

        While the server is unavailable the last result is returned, with a warning.
        """
        deadline = time.monotonic() + self._timeout_s
        trouble = self._follower.trouble
        with self._follower.rows(self._timeout_s / 2) as rows:
            picture = None if rows is None else read_tables(rows)
        if picture is None or trouble is not None:
            return self._stale(trouble or message("ovsdb-busy", address=self._address))
        self._answered = True
        if picture.other_config is None:
            # Without this row ovs-vswitchd does nothing, whatever else is in the database.
            self.warnings = (message("ovsdb-empty", address=self._address),)
            self._last = None
            self._told_pmd = True
            return None
        self.warnings = ()
        self._last = self._complete(picture, deadline)
        userspace = USERSPACE in picture.bridges.values()
        self._told_pmd |= not userspace or self._last.pmd_source is not None
        return self._last

    def _stale(self, trouble: Message) -> VirtualSwitch | None:
        if self._last is None:
            self.warnings = (trouble,)
            return None
        trouble = message("switch-stale", trouble=trouble)
        self.warnings = (trouble,)
        return dataclasses.replace(self._last, warnings=(*self._last.warnings, trouble))

    def _complete(self, picture: Tables, deadline: float) -> VirtualSwitch:
        warnings = picture.warnings
        ports = picture.ports
        if ports:
            try:
                counted = self._statistics(deadline)
                ports = tuple(
                    dataclasses.replace(port, packets=packets, drops=drops)
                    for port in ports
                    for packets, drops in (counted.get(port.name, (None, None)),)
                )
            except ovs_rpc.OvsUnavailableError as error:
                warnings += (message("ports-uncounted", error=str(error)),)
        found = pmd.PmdCpus((), None)
        threads: tuple[PmdThread, ...] = ()
        if USERSPACE in picture.bridges.values():
            found = pmd.find(
                picture.other_config or {}, lambda: self._ask(_RXQ_SHOW, deadline), self._proc_root
            )
            found = self._absence.apply(found, time.monotonic())
            if found.source == "pmd-rxq-show":
                threads = self._threads(deadline)
                if self._pmd_stats.unknown_form:
                    warnings += (message("pmd-stats-unknown"),)
        return VirtualSwitch(
            bridges=picture.bridges,
            ports=ports,
            pmd_cpus=found.cpus,
            pmd_source=found.source,
            warnings=(*warnings, *found.warnings),
            pmd_threads=threads,
            drops_per_s=self._drops_per_s(ports),
        )

    def _drops_per_s(self, ports: tuple[SwitchPort, ...]) -> float | None:
        """Return the drops of all ports per second; None before two counts of a port are known."""
        drops = {("", 0, port.name): port.drops for port in ports if port.drops is not None}
        rates = self._drops.rates(time.monotonic(), drops).values()
        known = [rate for rate in rates if rate is not None]
        return sum(known) if known else None

    def _threads(self, deadline: float) -> tuple[PmdThread, ...]:
        """Return the activity of the PMD threads, on which no decision depends."""
        try:
            text = self._ask(pmd_stats.METHOD, deadline)
        except ovs_rpc.OvsUnavailableError:
            return ()
        return self._pmd_stats.update(time.monotonic(), text)

    def _statistics(self, deadline: float) -> dict[str, Statistics]:
        """Return packets and drops by interface; interfaces without counts are absent."""
        left_s = deadline - time.monotonic()
        answer = ovs_rpc.call(self._address, "transact", [DATABASE, _STATISTICS], left_s)
        return read_statistics(answer)

    def _ask(self, method: str, deadline: float) -> str:
        """Send a request to ovs-vswitchd. Raises `ovs_rpc.OvsUnavailableError`."""
        left_s = deadline - time.monotonic()
        control = self._vswitchd_control or vswitchd_control(self._rundir)
        return str(ovs_rpc.call(f"unix:{control}", method, [], left_s))


def vswitchd_control(rundir: pathlib.Path) -> str:
    """Return ovs-vswitchd's control socket, found by the pid file in `rundir`.

    Raises `ovs_rpc.OvsUnavailableError`.
    """
    pid_file = rundir / "ovs-vswitchd.pid"
    try:
        pid = int(OwnedFolder(rundir).read(pid_file.name, _PID_BYTES))
    except OSError as error:
        raise ovs_rpc.OvsUnavailableError(f"{pid_file}: {error.strerror}") from error
    except ValueError as error:
        raise ovs_rpc.OvsUnavailableError(f"{pid_file} holds no number") from error
    # The name of the socket begins with the program's name, e.g. ovs-vswitchd-dpdk.
    control = fnmatch.filter(kernel_files.names(rundir), f"ovs-vswitchd*.{pid}.ctl")
    if not control:
        raise ovs_rpc.OvsUnavailableError(f"{rundir} has none of process {pid}")
    return str(rundir / control[0])


@dataclasses.dataclass(frozen=True, slots=True)
class Tables:
    """Content of the followed tables. `other_config` None: there is no Open_vSwitch row."""

    other_config: Mapping[str, str] | None
    bridges: Mapping[str, str]
    ports: tuple[SwitchPort, ...]
    warnings: tuple[Message, ...]


def read_tables(rows: Rows) -> Tables:
    """Convert ovs's rows to plain values, sorted by name; packets are added later."""
    root = next(iter(rows["Open_vSwitch"]), None)
    other_config = None if root is None else dict(root.other_config)
    bridges: dict[str, str] = {}
    ports: list[SwitchPort] = []
    warnings: list[Message] = []
    for bridge in rows["Bridge"]:
        # The kernel's datapath, the default, has an empty datapath_type.
        bridges[bridge.name] = bridge.datapath_type or "system"
        for port in bridge.ports:
            for interface in port.interfaces:
                ports.append(_port(interface, bridge.name, warnings))
    dpdk_wanted = (other_config or {}).get("dpdk-init", "").lower() == "true"
    if root is not None and dpdk_wanted and not root.dpdk_initialized:
        warnings.append(message("dpdk-not-started"))
    ports.sort(key=lambda port: (port.bridge, port.name))
    return Tables(other_config, dict(sorted(bridges.items())), tuple(ports), tuple(warnings))


def _port(interface: Any, bridge: str, warnings: list[Message]) -> SwitchPort:
    ids, options = interface.external_ids, interface.options
    numbers: dict[str, int] = {}
    for key in ("n_rxq_desc", "n_rxq"):
        value = options.get(key, "")
        number = bounded_int(value, _MOST)
        if number is not None:
            numbers[key] = number
        elif key in options:
            given = shortened(value)
            warnings.append(
                message(
                    "port-option-invalid",
                    port=interface.name,
                    option=key,
                    value=given,
                    most=_MOST,
                )
            )
    return SwitchPort(
        name=interface.name,
        bridge=bridge,
        type=interface.type or "system",
        vm_uuid=ids.get("vm-uuid"),
        iface_id=ids.get("iface-id"),
        mac=ids.get("attached-mac"),
        dpdk_device=options.get("dpdk-devargs"),
        rx_descriptors=numbers.get("n_rxq_desc"),
        rx_queues=numbers.get("n_rxq"),
        mtu=next(iter(interface.mtu), None),
        cards=() if _FAILED in getattr(interface, "ofport", ()) else None,
        vhost_path=options.get("vhost-server-path"),
    )


def read_statistics(answer: Any) -> dict[str, Statistics]:
    """Parse the answer to the select of the statistics: rows of name and ``["map", pairs]``.

    Raises `ovs_rpc.OvsUnavailableError` for an error (a schema without statistics) and for an
    answer of another form.
    """
    found = {}
    try:
        for row in answer[0]["rows"]:
            counts = dict(row["statistics"][1])
            packets = None
            if "rx_packets" in counts and "tx_packets" in counts:
                packets = int(counts["rx_packets"]) + int(counts["tx_packets"])
            dropped = counts.keys() & _DROPS
            drops = sum(int(counts[name]) for name in dropped) if dropped else None
            if (packets, drops) != (None, None):
                found[row["name"]] = packets, drops
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise ovs_rpc.OvsUnavailableError(f"ovsdb-server answered {answer!r:.200}") from error
    return found
