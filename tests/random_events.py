# SPDX-License-Identifier: Apache-2.0
"""What happens to a host while agents run on it: the events of `tests.random_hosts`."""

import contextlib
import dataclasses
import errno
import functools
import os
import shutil
import signal
import sqlite3
import types
from unittest import mock
from xml.sax import saxutils

import libvirt

from iat_nova.inventory import ovs_rpc
from iat_nova.inventory.libvirt import LibvirtSource
from iat_nova.model import (
    Allocation,
    Decision,
    Group,
    Layout,
    PortGroup,
    WayMask,
    message,
    verbatim,
)
from iat_nova.policy import default_text
from iat_nova.strategies.iat.state import FsmState, IatState
from tests import nova_shapes as shapes
from tests.unit.build import Clock

QUIET = ("rest", "hint")  # nothing changes
POLICIES = ("parameters: {interval: 1s}\n", "parameters: {interval: 5s}\nreserved_ways: 1\n")
CONFIG = """
[compute]
cpu_dedicated_set = 1-2
cpu_shared_set = 0,3
provider_config_location = {0}/provider
[iat]
mode = enforce
state_dir = {0}/state
spool_dir = {0}/spool
policy_file = {0}/policy.yaml
ovsdb_connection = unix:{0}/ovs/db.sock
ovs_rundir = {0}/ovs
sysfs_root = {0}/sys
"""


def os_error(chance):
    """Return an error of a write to a file."""
    return OSError(chance.choice((errno.EIO, errno.EBUSY, errno.ENOSPC)), "it fails")


class Chance:
    """A strategy that decides on random valid layouts, with states that can be handed over."""

    def __init__(self, chance):
        self.chance = chance

    def initial(self, inventory, at_s, layout=None):
        return IatState(inventory.domain, 0, FsmState.LOW_KEEP, Allocation(2, {}))

    def step(self, state, inventory, sample):
        domain, chance = inventory.domain, self.chance
        tenants = [tenant.id for tenant in inventory.tenants]
        ports = [port.id for port in domain.device_ports]
        chance.shuffle(tenants)
        chance.shuffle(ports)
        groups = []
        while tenants and len(groups) < domain.classes - 1:
            part = tuple(tenants.pop() for _ in range(min(len(tenants), chance.choice((1, 1, 2)))))
            groups.append(Group(part, self.mask(domain)))
        ddio = WayMask.span(domain.ways - (ways := chance.randint(1, 6)), ways)
        if not domain.ddio_resizable and domain.ddio_found is not None:
            ddio = domain.ddio_found
        most = min(len(ports), domain.shared_port_classes or 3)
        owned = [PortGroup((ports.pop(),), self.mask(domain)) for _ in range(most)]
        layout = Layout(ddio, tuple(groups), ports=tuple(owned))
        decision = Decision(
            domain.id, state.iteration + 1, sample.taken_at_s, False, "low keep", "low keep", None,
            (), (), Allocation(2, {}), layout, (),
        )  # fmt: skip
        after = dataclasses.replace(state, iteration=state.iteration + 1, layout=layout)
        return after, decision

    def mask(self, domain):
        while True:
            ways = self.chance.randint(max(1, domain.min_ways), domain.ways)
            mask = WayMask.span(self.chance.randint(0, domain.ways - ways), ways)
            whole = mask & domain.coerced_ways in (0, domain.coerced_ways)
            if whole and not mask & domain.reserved_ways:
                return mask


class SetClock(Clock):
    """Virtual time, with a wall clock that can be set."""

    step_s = 0.0

    def wall(self):
        return super().wall() + self.step_s


class Direct:
    """A question that is answered at once, as most are: `iat_nova.common.deadline` without time."""

    asked = False
    __class_getitem__ = classmethod(lambda cls, _kind: cls)

    def __init__(self, *_):
        """There is nothing to wait for."""

    def ask(self, call):
        return call()


class Link:
    """The guests of a libvirtd in memory, as its connection and as the link to it.

    `guests`: (UUID, id, XML) of each; `answers`: after how many answers the connection breaks.
    """

    def __init__(self):
        self.uri, self.problem, self.guests, self.answers = "qemu:///system", None, (), None

    def start(self, *_hints):
        """It is connected at once."""

    def close(self):
        """Nothing is open."""

    @property
    def connection(self):
        return None if self.problem else self

    def _answer(self, given):
        if self.answers is not None:
            self.answers -= 1
            if self.answers < 0:
                raise libvirt.libvirtError("the connection is closed")
        return given

    def isAlive(self):
        return self.answers is None or self.answers >= 0

    def listAllDomains(self, _flags):
        return self._answer([self._handle(*guest) for guest in self.guests])

    def domainListGetStats(self, *_):
        return self._answer([])

    def lookupByUUIDString(self, uuid):
        raise libvirt.libvirtError(f"no domain {uuid}")

    def _handle(self, uuid, run, xml):
        return types.SimpleNamespace(
            UUIDString=lambda: uuid, ID=lambda: self._answer(run), name=lambda: f"instance-{run}",
            XMLDesc=lambda _flags: self._answer(xml),
        )  # fmt: skip


class Follower:
    """A copy of ovsdb-server's tables, as `iat_nova.inventory.ovsdb` keeps it; `world` has them."""

    def __init__(self, world):
        self.world = world

    @property
    def trouble(self):
        return message("ovsdb-busy", address="here") if self.world.ovs == "down" else None

    @contextlib.contextmanager
    def rows(self, _timeout_s):
        yield None if self.world.ovs == "down" else self.world.tables

    def start(self, _on_hint):
        """It follows at once."""

    def close(self):
        """Nothing is open."""


WORDS = (
    "1", "-1", "1e999", "9" * 30, "10%", "~", "{}", "[]", "*a", "&a", "!!binary", ".inf", "null",
    '"\\ud800"', "<<", "?", "|", "-", ":", "\n", "\n  ", "{", "}", "[", "]", ",", "\0", "\x85", "%",
    "$state_dir/x", "[iat]", "classes:", "reserved_ways:", "nan", "<domain", "</vcpu>", "&x;", "/",
)  # fmt: skip
PROVIDER = (
    "providers: [{identification: {uuid: $COMPUTE_NODE}, inventories: {additional: "
    "[{CUSTOM_IAT_LLC_WAY: {total: 4, reserved: 0, max_unit: 2}}]}, traits: {additional: []}}]\n"
)
PAUSE = '{"since_s": 1.0, "until_s": null, "reason": "", "by": "x"}'
SPECS = '{"extra_specs": {"iat:llc_ways": "2", "hw:cpu_policy": "dedicated"}}'


class Software:
    """Guests come and go; what other programs and operators write is sometimes nonsense."""

    kept = ("link", "ovs", "tables", "runs", "state_is_good")

    def equip_software(self):
        self.link, self.runs, self.ovs, self.state_is_good = Link(), 0, "good", True
        self.tables = {"Open_vSwitch": [types.SimpleNamespace(other_config={})], "Bridge": ()}
        for name in ("provider", "spool", "ovs"):
            (self.folder / name).mkdir()
        (self.folder / "policy.yaml").write_text(POLICIES[0])
        self.write_config()
        self.known_settings = super().settings()

    def settings(self, **changes):
        """Return the settings of the start: the file may be nonsense by now."""
        return dataclasses.replace(self.known_settings, **changes)

    def write_config(self):
        lines = [f"{name} = {value}\n" for name, value in self.options.items()]
        self.config.write_text((CONFIG + "".join(lines)).format(self.folder))

    def patched_software(self):
        for user in ("agent.policy_keeper", "inventory.libvirt"):
            yield mock.patch(f"iat_nova.{user}.Deadline", Direct)
        source = functools.partial(LibvirtSource, link=self.link)
        yield mock.patch("iat_nova.agent.sources.LibvirtSource", source)
        yield mock.patch("iat_nova.inventory.ovs.Follower", lambda *_: Follower(self))
        yield mock.patch.object(ovs_rpc, "call", self.answer)

    def nonsense(self, most=12):
        return "".join(self.chance.choices(WORDS, k=self.chance.randint(0, most)))

    def odd(self, text):
        """Return a text with parts cut, doubled, moved or replaced by nonsense."""
        for _ in range(self.chance.randint(1, 3)):
            first, second = sorted(self.chance.choices(range(len(text) + 1), k=2))
            part = self.chance.choice((text[first:second], "", self.nonsense(3)))
            again = self.chance.choice(("", text[second:], text[first:second]))
            text = text[:first] + part + again + text[second:]
        return text[: 1 << 16]

    def replace(self, path, *good):
        """Replace a file of an operator or of another program by a good text, or by anything."""
        kinds = ("good", "good", "odd", "odd", "odd", "huge", "link", "folder", "absent")
        kind = self.chance.choice(kinds)
        with contextlib.suppress(OSError):  # the folder may be another user's
            path.parent.mkdir(exist_ok=True)
            _clear(path)
            if kind == "folder":
                path.mkdir()
            elif kind == "link":
                path.symlink_to(self.chance.choice((path, "/dev/zero", self.config, "x" * 300)))
            elif kind != "absent":
                text = self.chance.choice(good)
                others = {"odd": self.odd(text), "huge": "#" * (5 << 20)}
                path.write_text(others.get(kind, text), errors="surrogateescape")
        self.hint()

    # libvirt and Nova ----------------------------------------------------------------------

    def guests(self, odd=0.0):
        """Other guests run; `odd`: the part of them that is described by nonsense."""
        guests = []
        for number in range(self.chance.choice((0, 1, 2, 3, 4, 4, 30))):
            self.runs += 1
            run = self.chance.choice((number + 1, 100 + self.runs))
            xml = self.guest(f"g{number}", run, self.chance.random() < odd)
            guests.append((shapes.uuid_of(str(number)), run, xml))
        self.link.guests = tuple(guests)
        self.hint()

    def guest(self, name, run, odd):
        cpus = [str(cpu) for cpu in self.msr.cpus]
        pins = {vcpu: self.chance.choice((*cpus, "0,3", "0-3")) for vcpu in range(2)}
        specs = {"iat:priority": self.chance.choice(("PC", "BE"))}
        if odd:
            pins[self.chance.choice((1, -1, 9**9))] = saxutils.escape(self.nonsense(3))
            name = self.chance.choice(("iat:llc_ways", "iat:io", "hw:cpu_policy", "x" * 300))
            specs[name] = name = self.nonsense(3)
        meta = shapes.metadata(name, extra_specs=specs)
        xml = shapes.domain(name, run=run, meta=meta, tune=shapes.cputune(pins))
        return self.odd(xml) if odd and self.chance.random() < 0.5 else xml

    def odd_guests(self):
        self.guests(0.6)

    def libvirt(self):
        """The connection breaks, also amid a reading, or is there again."""
        self.link.problem = self.chance.choice((None, None, verbatim("closed")))
        self.link.answers = self.chance.choice((None, None, 0, 1, 2, 5))
        self.hint()

    def spool(self):
        self.replace(self.folder / "spool" / f"{shapes.uuid_of('1')}.json", SPECS)

    # Open vSwitch --------------------------------------------------------------------------

    def switch(self):
        """ovsdb-server restarts, answers nonsense, or has other rows."""
        self.ovs = self.chance.choice(("good", "down", "nonsense"))
        number = self.chance.choice
        interface = types.SimpleNamespace(
            name=self.nonsense(2), type=self.nonsense(1), mtu=number(([], [1500])),
            external_ids={"vm-uuid": self.nonsense(1)}, options={"n_rxq": self.nonsense(1)},
        )  # fmt: skip
        bridge = types.SimpleNamespace(
            name=self.nonsense(1), datapath_type=number(("netdev", "", "x")),
            ports=[types.SimpleNamespace(interfaces=[interface])],
        )  # fmt: skip
        config = {"dpdk-init": "true", "pmd-cpu-mask": number(("0x8", self.nonsense(1)))}
        root = types.SimpleNamespace(other_config=config, dpdk_initialized=number((True, False)))
        self.tables = {"Open_vSwitch": number(([root], [])), "Bridge": [bridge][: number((0, 1))]}
        self.hint()

    def answer(self, *_):
        if self.ovs == "down":
            raise ovs_rpc.OvsUnavailableError("closed")
        rows = [{"name": self.nonsense(1), "statistics": ["map", [["rx_packets", -(9**30)]]]}]
        return self.chance.choice(([{"rows": rows}], self.nonsense(), [], {}, None, [{"rows": 1}]))

    # Operators -----------------------------------------------------------------------------

    def policy(self):
        """The policy's file is replaced by anything, and often read again."""
        name = self.chance.choice(("policy.yaml", "policy.yaml", "shadow.yaml"))
        self.replace(self.folder / name, *POLICIES, default_text())
        if self.chance.random() < 0.7:
            self.reload()

    def reload(self):
        if self.source is not None:
            self.endings.obey(signal.SIGHUP)

    def configuration(self):
        """The configuration is replaced, and is not read before a restart."""
        self.write_config()
        if self.chance.random() < 0.7:
            with self.config.open("a", errors="surrogateescape") as file:
                file.write(self.chance.choice((self.nonsense(), "state_dir = $state_dir/x\n")))
        self.hint()

    def provider(self):
        folder = self.folder / "provider"
        if os.path.isdir(folder) and self.chance.random() < 0.6:
            self.replace(folder / "a.yaml", PROVIDER)
        else:
            self.replace(folder, "")

    def pause(self):
        self.replace(self.known_settings.state_dir / "pause.json", PAUSE)

    def hold(self):
        odd = self.nonsense(1).replace("/", "").replace("\0", "")[:60]
        name = self.chance.choice((shapes.uuid_of("1"), odd))
        hold = PAUSE.replace("{", f'{{"ways": {self.chance.randint(0, 12)}, "name": "x", ')
        self.replace(self.known_settings.state_dir / "holds" / f"{name}.json", hold)

    # The state directory and the clock -----------------------------------------------------

    def history(self):
        """The history is locked, cut, or replaced by anything."""
        path, kind = self.known_settings.history_path, self.chance.choice(("lock", "cut", "", ""))
        with contextlib.suppress(OSError, sqlite3.Error):
            if kind == "lock":
                other = sqlite3.connect(path, isolation_level=None, timeout=0.0)
                other.execute("BEGIN EXCLUSIVE")
                self.holders.append(other)
            elif kind == "cut":
                os.truncate(path, self.chance.randrange(1 << 14))
            else:
                self.replace(path, "")

    def state_dir(self):
        """The state directory is removed, belongs to another user, or cannot be written."""
        folder = self.known_settings.state_dir
        kinds = ("good", "good", "read-only", "theirs", "removed", "file")
        if self.source is None:  # else nobody would know what a killed agent had changed
            kinds = kinds[:4]
        kind = self.chance.choice(kinds)
        self.lost, self.clean = self.lost or kind in ("removed", "file"), False
        self.state_is_good = kind in ("good", "removed")
        if not folder.is_dir():
            _clear(folder)
            folder.mkdir()
        self.own(folder, 65534 if kind in ("theirs", "read-only") else 0)
        folder.chmod(0o555 if kind == "read-only" else 0o755)
        if kind in ("removed", "file"):
            _clear(folder)
            if kind == "file":
                folder.write_text("")

    def own(self, folder, user):
        for path in (folder, *folder.rglob("*")) if os.geteuid() == 0 else ():
            os.chown(path, user, user, follow_symlinks=False)

    def mend_state_dir(self):
        """Let root restore: nobody else has the directory any more."""
        folder = self.known_settings.state_dir
        if folder.is_dir():
            folder.chmod(0o755)
            self.own(folder, 0)
        else:
            _clear(folder)

    def wall(self):
        """The wall clock is set, far back or forth."""
        self.clock.step_s += self.chance.choice((-9e4, -3.0, 3.0, 9e4, -1.79e9, 2e9, 9e10))
        self.hint()


def _clear(path):
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)
