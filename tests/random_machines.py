# SPDX-License-Identifier: Apache-2.0
"""The kinds of hosts of `tests.random_hosts`, and what the kernel and other programs do to them."""

import contextlib
import os
import shutil
import time
from unittest import mock

from iat_nova.agent import restoring
from iat_nova.common.cpulist import format_cpus
from iat_nova.hardware.api import CoreCounts, Counts, DomainCounts, HardwareError
from iat_nova.hardware.cat import pqos
from iat_nova.hardware.cat.pqos_lib import PqosError
from iat_nova.hardware.ddio import irdt
from iat_nova.hardware.host.machine import ASKED, ChosenInterface
from iat_nova.hardware.host.probe import Host
from tests.unit.hardware import irdt_tables, trees
from tests.unit.hardware.registers import FakeMemory
from tests.unit.hardware.test_ddio import AmdTree
from tests.unit.hardware.test_iordt_classes import BASE, Tree
from tests.unit.hardware.test_pqos import Registers

THEIRS = "theirs"
HARDWARE = {
    "rest": 3, "hint": 3, "guests": 4, "plug_out": 2, "plug_in": 4, "socket_out": 2, "bounce": 1,
    "swap": 2, "fail_soon": 2, "amid_soon": 3, "kill_soon": 2, "kill_now": 2, "jump": 2,
    "lose_snapshot": 1, "state_dir": 1, "foreign_mask": 1, "foreign_removal": 1, "their_group": 1,
}  # fmt: skip


SOFTWARE = {
    "rest": 3, "hint": 2, "guests": 3, "odd_guests": 4, "libvirt": 4, "spool": 1, "switch": 4,
    "policy": 4, "reload": 2, "configuration": 2, "provider": 2, "pause": 2, "hold": 3,
    "history": 2, "state_dir": 2, "wall": 2, "plug_out": 1, "plug_in": 1,
    "kill_soon": 1, "jump": 1, "ask": 1, "counters": 2,
}  # fmt: skip


BETWEEN = (
    "plug_out", "plug_in", "socket_out", "swap", "bounce", "jump", "lose_snapshot", "stop_post",
    "spoil", "policy", "provider", "history", "hold", "pause", "configuration", "state_dir",
)  # fmt: skip


class Hardware:
    """CPUs go offline and online, writes fail, agents are killed, other programs interfere."""

    def rest(self):
        """Let nothing happen."""

    source = None  # while no agent runs

    def hint(self):
        if self.source is not None:
            self.source.changed.set()

    def off(self):
        return sorted(set(self.msr.cpus) - self.cpus.on)

    def unplug(self, cpus):
        """Take these CPUs offline, unless no other is online. Returns them."""
        out = sorted(self.cpus.on.intersection(cpus)) if self.cpus.on.difference(cpus) else []
        for cpu in out:
            self.msr.off.add(cpu)
            self.tree.unplug(cpu)
        return out

    def plug(self, cpus):
        for cpu in cpus:
            self.msr.off.discard(cpu)
            self.tree.plug(cpu)

    def plug_out(self):
        self.unplug({self.chance.choice(sorted(self.cpus.on))})

    def plug_in(self):
        self.plug(self.chance.sample(self.off(), min(1, len(self.off()))))

    def socket_out(self):
        return self.unplug(self.chance.choice(list(self.cpus.packages.values())))

    def bounce(self):
        self.plug(self.socket_out())

    def swap(self):
        """Bring all CPUs back but those of one socket."""
        self.plug(self.off())
        self.socket_out()

    def fail_soon(self):
        first = self.count + self.chance.randint(1, 8)
        self.failing = range(first, first + self.chance.choice((1, 1, 2, 20)))

    def amid_soon(self):
        events = (self.plug_out, self.plug_in, self.swap, self.bounce, *self.mounts)
        self.amid = (self.count + self.chance.randint(1, 8), self.chance.choice(events))

    def kill_soon(self):
        self.kill_at = self.count + self.chance.randint(1, 12)

    def kill_now(self):
        self.kill("an iteration's end")

    def jump(self):
        self.clock.now_s += self.chance.choice((0, 11, 700))

    def lose_snapshot(self):
        path, left = self.settings().snapshot_path, self.settings().hand_over_path
        if path.exists() and (self.source is not None or left.exists()):
            self.lost, self.clean = True, False
            if self.chance.random() < 0.5:
                path.unlink()
            else:
                path.write_text("{")

    def stop_post(self):
        """Do what the unit does after an agent's end."""
        if self.source is None:
            with contextlib.suppress(HardwareError):
                restoring.restore(self.settings(), unless_handed_over=True)

    def spoil(self):
        """The file of a hand-over is damaged."""
        path = self.settings().hand_over_path
        if path.exists() and self.source is None and not self.lost:
            content = path.read_bytes()
            at = self.chance.randrange(len(content))
            path.write_bytes(content[:at] + self.chance.choice((b"", b"9", content[at + 1 :])))

    def ask(self):
        """Ask for a hand-over, as a restart of the unit does."""
        folder = self.lock.parent
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hand-over").write_text(f"{time.monotonic()!r}\n")

    # What other programs do to resctrl -----------------------------------------------------

    mounts = ()

    def ours(self):
        groups = [one for one in self.tree.groups() if one.startswith("iat-nova.")]
        return self.chance.choice(groups) if groups else None

    def foreign_mask(self):
        if (group := self.ours()) is not None:
            self.tree.write(f"{group}/schemata", f"L3:{self.chance.choice(self.cpus.domains())}=7")

    def foreign_removal(self):
        if (group := self.ours()) is not None:
            self.tree.rmdir(group)

    def their_group(self):
        """Another program makes a group, or removes it again."""
        if THEIRS in self.tree.groups():
            self.tree.rmdir(THEIRS)
        else:
            with contextlib.suppress(OSError):
                self.tree.mkdir(THEIRS)

    def mounted(self):
        return (self.tree.root / "schemata").exists()

    def remount(self):
        if self.mounted():
            self.reset_resctrl()

    def unmount(self):
        if self.mounted():
            os.rename(self.tree.root, f"{self.tree.root}.off")
            self.tree.root.mkdir()

    def mount(self):
        if not self.mounted():
            self.tree.root.rmdir()
            os.rename(f"{self.tree.root}.off", self.tree.root)
            self.reset_resctrl()

    def reset_resctrl(self):
        tree = self.tree
        for path in (*map(tree.root.joinpath, tree.groups()), *tree.root.glob("mon_groups/*")):
            shutil.rmtree(path)
        tree._files("", 0)
        tree._put("cpus_list", format_cpus(tree.cpus.on))


class Counted:
    """Counters in memory: perf needs a kernel."""

    def __init__(self, world):
        self.world, self.cpus = world, ()

    def watch(self, cpus):
        self.cpus = set(cpus)

    def read(self):
        now_s, world = self.world.clock.now(), self.world
        if world.oddly_counted == "error":
            raise HardwareError("no")
        n = int(now_s * 1e6)
        values = (0, 1, n, 1 << 63, -1) if world.oddly_counted else (n,)
        watched = [
            one for one in self.cpus if not world.oddly_counted or world.chance.random() < 0.7
        ]
        cores = {cpu: CoreCounts(*world.chance.choices(values, k=4)) for cpu in watched}
        n = world.chance.choice(values)
        return Counts(now_s, cores, {0: DomainCounts(n, n, None), 1: DomainCounts(n, n, None)})

    def close(self):
        """Nothing is open."""


class Plain:
    """Mixed into a host: counters in memory, no reader of DDIO's hits."""

    oddly_counted = ""

    def counters(self):
        """The counters show nonsense, or nothing."""
        self.oddly_counted = self.chance.choice(("", "nonsense", "error"))

    def patches(self):
        yield from super().patches()
        name = "iat_nova.hardware.host.counter_choice."
        choice = ChosenInterface("counters", "memory", ASKED)
        yield mock.patch(f"{name}counters", lambda *_: (Counted(self), choice))
        yield mock.patch(f"{name}ddio_counters", lambda *_: (None, choice))


def kinds(world):
    """Return the kinds of hosts by name, derived from `world`."""

    class HandOver(Plain, world):
        """Skylake with counters that write nothing: an agent hands over to the next."""

        options = {"strategy": "iat"}
        events = HARDWARE | {"ask": 4, "stop_post": 1, "spoil": 1}

    class Nonsense(HandOver):
        """Everybody but the kernel tells nonsense; a shadow decides by a policy of its own."""

        options = {"strategy": "iat", "shadow": "iat", "shadow_policy": "{0}/shadow.yaml"}

        events = SOFTWARE

    class Mounts(Plain, world):
        """resctrl is unmounted and mounted again."""

        options = {}
        events = HARDWARE | {"remount": 2, "unmount": 2, "mount": 4}

        def equip(self):
            super().equip()
            self.mounts = (self.remount, self.unmount, self.mount)

    class Amd(Plain, world):
        """AMD: io_alloc of resctrl."""

        options = {}
        events = HARDWARE

        def equip(self):
            shutil.rmtree(self.roots.resctrl)
            self.tree = AmdTree(self.roots.resctrl, self.cpus)
            self.be("amd")
            self.put_fabric()
            if self.kind_chance.random() < 0.5:
                self.tree.write("info/L3/io_alloc", "1")
                self.tree.write("info/L3/io_alloc_cbm", "0=c000")
            if self.kind_chance.random() < 0.5:
                self.tree.monitoring(64)
            super().equip()

    class GraniteRapids(Plain, world):
        """Granite Rapids: classes of devices and ports by I/O RDT."""

        options = {"ddio_interface": "iordt"}
        events = HARDWARE
        places = {
            "0000:3b:00.0": "0-1", "0000:3b:00.1": "0-1", "0000:3c:00.0": "0-1",
            "0000:3d:00.0": "2-3", "0000:ae:00.0": "2-3", "0000:af:00.0": "2-3",
        }  # fmt: skip

        def equip(self):
            shutil.rmtree(self.roots.resctrl)
            self.tree = Tree(self.roots.resctrl, self.cpus, debug=True)
            self.tree.msr = self.msr
            self.be("granite rapids")
            table = irdt_tables.server(BASE)
            self.roots.irdt.write_bytes(table)
            self.memory = FakeMemory(irdt.read(table))
            for cpu in self.msr.cpus:
                trees.put_cpuid(self.roots.msr, cpu, io_rdt=True)
                for number in range(16):
                    self.msr.set(cpu, 0xC90 + number, 0x7FF)
            for address, near in self.places.items():
                if self.kind_chance.random() < 0.8:
                    folder = self.roots.pci / address
                    folder.mkdir(parents=True)
                    (folder / "local_cpulist").write_text(f"{near}\n")
                    (folder / "numa_node").write_text("-1\n")
            if self.kind_chance.random() < 0.5:
                self.tree.monitoring(64)
                self.options = {**self.options, "monitor_tenants": True}
            super().equip()

        def host(self):
            host = Host(self.roots, fs=self.tree, msr=self.msr)
            host.memory = self.memory
            return host

        def writers(self):
            return (*super().writers(), (self.memory, ("store",), lambda _: HardwareError("no")))

        def as_is(self):
            # The class registers show the kernel's masks, which `tree` has; unused ones stay.
            found = {key: v for key, v in super().as_is().items() if not self.shown(key)}
            return found | {("memory", at): value for at, value in self.memory.values.items()}

        @staticmethod
        def shown(key):
            return isinstance(key, tuple) and 0xC90 <= key[1] < 0xD90

        def shared(self):
            return (*super().shared(), ("memory", ("values",)))

    class Pqos(Plain, world):
        """Masks by libpqos's registers, without resctrl."""

        options = {"cat_interface": "pqos-msr"}
        events = {k: v for k, v in HARDWARE.items() if "foreign" not in k and k != "their_group"}

        def equip(self):
            (self.roots.resctrl / "schemata").unlink()
            for cpu in self.msr.cpus:
                trees.put_cpuid(self.roots.msr, cpu, classes=8)
            self.library = Library(self.msr)
            made = pqos.PqosAllocator.__init__
            replaced = {
                **made.__kwdefaults__, "devices": self.roots.msr,
                "open_library": self.library.opened,
            }  # fmt: skip
            self.enterContext(mock.patch.object(made, "__kwdefaults__", replaced))
            self.enterContext(mock.patch("iat_nova.hardware.host.backends.load", lambda: None))
            self.tree.unplug, self.tree.plug = self.cpus.unplug, self.cpus.plug
            super().equip()

        def mounted(self):
            return True

        def writers(self):
            names = ("set_masks", "set_bandwidth", "set_class")
            msr = next(one for one in super().writers() if one[0] is self.msr)
            return msr, (self.library, names, lambda _: PqosError("it fails"))

        def shared(self):
            return (*super().shared(), ("library", ("classes", "values", "limits")))

        def as_is(self):
            names = ("classes", "values", "limits")
            return self.msr.values | {name: str(getattr(self.library, name)) for name in names}

        def mask_of(self, cpu, domain):
            return self.library.values[10 + domain][self.library.classes[cpu]]

    found = (HandOver, Nonsense, Mounts, Amd, GraniteRapids, Pqos)
    return {kind.__name__.lower(): kind for kind in found}


class Library(Registers):
    """libpqos over masks, limits and classes of two sockets, of which CPUs go offline."""

    def __init__(self, msr):
        super().__init__([], msr.cpus)
        self.msr = msr

    def opened(self, cpus):
        self.begin(cpus)
        return self

    def reach(self, cpus):
        super().reach(cpus)
        if self.msr.off.intersection(cpus):
            raise PqosError("its CPU is offline")
