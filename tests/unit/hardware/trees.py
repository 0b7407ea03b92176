# SPDX-License-Identifier: Apache-2.0
"""File trees that imitate a machine: sysfs's CPUs, and resctrl with what its kernel does."""

import errno
import os
import re
import shutil
import struct
import tempfile
from pathlib import Path

from iat_nova.common.cpulist import format_cpus, parse_cpus
from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from iat_nova.hardware.cat.resctrl_text import parse_masks
from iat_nova.hardware.kernel.topology import Topology

_EVENTS = ("mbm_total_bytes", "mbm_local_bytes")


def folder(case):
    """Return a temporary folder of a test case, in memory where there is such a place."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    made = tempfile.TemporaryDirectory(dir=memory, prefix="iat-nova-")
    case.addCleanup(made.cleanup)
    return Path(made.name)


_SKYLAKE_MBA = {(0x10, 0): (0, 1 << 1 | 1 << 3), (0x10, 3): (89, 0, 4, 7)}
_ZEN_MBA = {(0x80000000, 0): (0x80000028,), (0x80000020, 0): (0, 2), (0x80000020, 1): (11, 0, 0, 7)}


# In a file, bytes 1 to 15 of leaf 0xF are bytes 0 to 14 of leaf 0x10. So bit 25 of ECX (subleaf 0)
# is bit 1 of leaf 0xF's EDX, L3 monitoring, and EAX = 6 (subleaf 1) is bits 9 and 10 of its EAX.
_IO_RDT = {
    (0x10, 0): (0, 1 << 1 | 1 << 3, 1 << 25),
    (0x10, 1): (6, 0x600, 1 << 1, 15),
}


def put_cpuid(devices, cpu, *, classes=16, amd=False, io_rdt=False):
    """Imitate a CPU's file of the cpuid driver: limits of CAT and MBA, Skylake's or Zen's."""
    path = devices / str(cpu) / "cpuid"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        cat = {(0, 0): (0x16,), (0x10, 0): (0, 1 << 1), (0x10, 1): (10, 0x600, 0, classes - 1)}
        leaves = cat | (_ZEN_MBA if amd else _SKYLAKE_MBA) | (_IO_RDT if io_rdt else {})
        for (leaf, subleaf), words in leaves.items():
            file.seek(subleaf << 32 | leaf)
            file.write(struct.pack("<4I", *words, *[0] * (4 - len(words))))
        file.truncate(1 << 36)  # the driver answers for any leaf


class Cpus:
    """A tree like ``/sys/devices/system/cpu``; CPUs can be taken offline and online."""

    def __init__(self, root, packages=((0, 1, 2, 3),), l3_ids=None, size="22528K"):
        self.root = root
        self.packages = {n: tuple(cpus) for n, cpus in enumerate(packages)}
        self.ids = l3_ids or tuple(self.packages)
        self.size = size
        self.on = set()
        self._ballast = []
        root.mkdir(parents=True)
        for cpus in self.packages.values():
            for cpu in cpus:
                self._add(cpu)
        self._lists()
        self.topology = Topology(root)

    def domains(self):
        """Return the L3 caches with CPUs online."""
        return tuple(self.ids[n] for n, cpus in self.packages.items() if self.on & set(cpus))

    def plug(self, cpu):
        self._add(cpu)
        self._lists()

    def _add(self, cpu):
        (package,) = (n for n, cpus in self.packages.items() if cpu in cpus)
        folder = self.root / f"cpu{cpu}"
        (folder / "topology").mkdir(parents=True)
        (folder / "topology/physical_package_id").write_text(f"{package}\n")
        (folder / "topology/thread_siblings_list").write_text(f"{cpu}\n")
        for index, level in (("index0", 1), ("index3", 3)):
            cache = folder / "cache" / index
            cache.mkdir(parents=True)
            (cache / "level").write_text(f"{level}\n")
            (cache / "id").write_text(f"{self.ids[package] if level == 3 else cpu}\n")
            (cache / "size").write_text(f"{self.size}\n")
            (cache / "ways_of_associativity").write_text("11\n")
        self.on.add(cpu)

    def put_nodes(self, *nodes):
        """Give the machine these NUMA nodes, each a list of CPUs."""
        for number, cpus in enumerate(nodes):
            for cpu in cpus:
                (self.root / f"cpu{cpu}/node{number}").mkdir()

    def unplug(self, cpu):
        # The inode must not be used again for the next folder: keep it alive elsewhere.
        keep = self.root / f"gone-{len(self._ballast)}"
        (self.root / f"cpu{cpu}").rename(keep)
        self._ballast.append(keep)
        self.on.discard(cpu)
        self._lists()

    def _lists(self):
        (self.root / "online").write_text(format_cpus(self.on) + "\n")
        for cpus in self.packages.values():
            for cpu in self.on & set(cpus):
                path = self.root / f"cpu{cpu}/cache/index3/shared_cpu_list"
                path.write_text(format_cpus(self.on & set(cpus)) + "\n")


class KernelTree(ResctrlFs):
    """resctrl in a temporary folder: files appear with mkdir, masks are merged, rules are kept.

    `fail_at` counts down with every change; the one at zero fails with EIO, as does everything
    after it while `dead` is set (the process was killed: nothing more reaches the kernel).
    """

    def __init__(self, root, cpus, *, ways=11, closids=16, mba_closids=8, min_bits=1,
                 shareable=0x600, sparse=False, cdp=False, debug=False, mb_ids=None):  # fmt: skip
        super().__init__(root, root.parent / "mounts")
        self.cpus = cpus
        self.full, self.shareable = (1 << ways) - 1, shareable
        self.min_bits, self.sparse, self.closids = min_bits, sparse, min(closids, mba_closids or 99)
        self.resources = ("L3CODE", "L3DATA") if cdp else ("L3",)
        self.debug = debug
        self.mb_ids = mb_ids  # as Arm's MPAM has them: of NUMA nodes
        self.rmids = None  # as many as are wanted
        self._given_rmids = 0
        self.counters = None  # none is assigned: see `assigned`
        self._assigned = {}  # {(event, domain)} by group
        self.changes = []
        self.fail_at = None
        self.dead = False
        root.mkdir(parents=True)
        (root / "info").mkdir()
        self._put("info/last_cmd_status", "ok")
        for resource in self.resources:
            folder = f"info/{resource}"
            (root / folder).mkdir()
            for name, text in (
                ("cbm_mask", f"{self.full:x}"), ("min_cbm_bits", min_bits),
                ("num_closids", closids // len(self.resources)),
                ("shareable_bits", f"{shareable:x}"), ("sparse_masks", int(sparse)),
            ):  # fmt: skip
                self._put(f"{folder}/{name}", text)
        if mba_closids:
            (root / "info/MB").mkdir()
            for name, text in (
                ("num_closids", mba_closids), ("min_bandwidth", 10), ("bandwidth_gran", 10),
                ("delay_linear", 1), *(() if mb_ids else (("thread_throttle_mode", "max"),)),
            ):  # fmt: skip
                self._put(f"info/MB/{name}", text)
        (root / "mon_groups").mkdir()
        (root / "mon_data").mkdir()
        self._files("", 0)
        self._put("cpus_list", format_cpus(cpus.on))
        self._usage()

    # What the kernel does ---------------------------------------------------------

    def write(self, name, text):
        self._change(f"write {name} {text.strip()}")
        group, _, file = name.rpartition("/")
        if not (self.root / name).exists():
            raise OSError(errno.ENOENT, "No such file or directory")
        if file == "mbm_L3_assignments":
            self._assign(group, text)
        elif "mon_groups/" in group:
            self._monitor_cpus(group, text)
        elif file == "schemata":
            self._schemata(group, text)
        elif file == "cpus_list":
            self._cpus_list(group, text)
        elif file == "mode":
            if self.mode(group) == "pseudo-locked":
                raise self._refuse(errno.EINVAL, "Cannot change pseudo-locked group")
            self._put(name, text.strip())
            self._usage()
        else:
            self._put(name, text.strip())

    def mkdir(self, name):
        self._change(f"mkdir {name}")
        rmids = 1 + len(self.groups()) + len([*self.root.glob("**/mon_groups/*")])
        if self.rmids is not None and rmids >= self.rmids:
            raise self._refuse(errno.ENOSPC, "Out of RMIDs")
        if "mon_groups/" in name:
            (self.root / name).mkdir()
            self._put(f"{name}/cpus_list", "")
            if self.debug:
                self._given_rmids += 1
                self._put(f"{name}/mon_hw_id", self._given_rmids)
            self._counted(name)
            self._assign_new(name)
            return
        used = {self._closid(group) for group in ("", *self.groups())}
        free = [n for n in range(self.closids) if n not in used]
        if not free:
            raise self._refuse(errno.ENOSPC, "Out of CLOSIDs")
        (self.root / name).mkdir()
        self._files(name, free[0])
        self._assign_new(name)

    def rmdir(self, name):
        self._change(f"rmdir {name}")
        if not (self.root / name).is_dir():
            raise OSError(errno.ENOENT, "No such file or directory")
        own = parse_cpus(self.read(f"{name}/cpus_list"))
        shutil.rmtree(self.root / name)
        for group in [one for one in self._assigned if one == name or one.startswith(f"{name}/")]:
            del self._assigned[group]
        self._show_assigned()
        if "mon_groups/" in name:
            return
        self._put("cpus_list", format_cpus(parse_cpus(self.read("cpus_list")) | own))
        self._usage()

    def be_amd(self):
        """Limit memory bandwidth in eighths of a GB/s, as Zen does."""
        for name, text in (("min_bandwidth", 0), ("bandwidth_gran", 1), ("delay_linear", 0)):
            self._put(f"info/MB/{name}", text)
        domains = ";".join(f"{d}=2048" for d in self.cpus.domains())
        self._put("schemata", re.sub("MB:.*", f"MB:{domains}", self.read("schemata").strip()))

    def mounted_with(self, options):
        """Have the kernel show these options of the mount."""
        self._mounts.write_text(
            f"proc /proc proc rw 0 0\nresctrl {self.root} resctrl rw,{options} 0 0\n"
        )

    def unplug(self, cpu):
        """Take a CPU offline: every group forgets it."""
        self.cpus.unplug(cpu)
        for group in ("", *self.groups()):
            name = f"{group}/cpus_list"
            left = parse_cpus(self.read(name.lstrip("/"))) - {cpu}
            self._put(name.lstrip("/"), format_cpus(left))
        self._monitors()
        self._domains()

    def add_monitor(self, name, cpus):
        """Have somebody monitor CPUs of the default group."""
        (self.root / "mon_groups" / name).mkdir()
        self._put(f"mon_groups/{name}/tasks", "")
        self._put(f"mon_groups/{name}/cpus_list", "")
        self.write(f"mon_groups/{name}/cpus_list", cpus)

    def monitored(self, name):
        """Return the CPUs of a monitoring group."""
        return parse_cpus(self.read(f"mon_groups/{name}/cpus_list"))

    def plug(self, cpu):
        """Bring a CPU online: it is in the default group."""
        self.cpus.plug(cpu)
        self._domains()
        self._put("cpus_list", format_cpus(parse_cpus(self.read("cpus_list")) | {cpu}))

    def group_of(self, cpu):
        """Return the group a CPU is in, None for the default one."""
        for group in self.groups():
            if cpu in parse_cpus(self.read(f"{group}/cpus_list")):
                return group
        return None

    def state(self):
        """Return everything a restore must bring back."""
        return {
            str(path.relative_to(self.root)): path.read_text().replace(" ", "")
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and path.name != "last_cmd_status"
        }

    def _domains(self):
        """Leave out cache domains that are offline, and begin anew with those that came."""
        for group in ("", *self.groups()):
            name = f"{group}/schemata".lstrip("/")
            lines = []
            for line in self.read(name).splitlines():
                resource, _, values = line.strip().partition(":")
                had = dict(value.split("=") for value in values.split(";") if value)
                new = "100" if resource == "MB" else f"{self.full:x}"
                domains = (resource == "MB" and self.mb_ids) or self.cpus.domains()
                values = (f"{d}={had.get(str(d), new)}" for d in domains)
                lines.append(f"{resource}:{';'.join(values)}")
            self._put(name, "\n".join(lines))
        self._usage()

    # Its insides ------------------------------------------------------------------

    def _change(self, text):
        if self.fail_at is not None:
            self.fail_at -= 1
            if self.fail_at == 0 or (self.dead and self.fail_at < 0):
                raise OSError(errno.EIO, "Input/output error")
        self.changes.append(text)
        self._put("info/last_cmd_status", "ok")

    def _refuse(self, code, says):
        self._put("info/last_cmd_status", says)
        return OSError(code, "refused")

    def _put(self, name, text):
        (self.root / name).write_text(f"{text}\n")

    def _closid(self, group):
        path = self.root / group / (".closid")
        return int(path.read_text())

    def _files(self, group, closid):
        base = f"{group}/" if group else ""
        (self.root / f"{base}.closid").write_text(str(closid))
        if self.debug:
            self._put(f"{base}ctrl_hw_id", closid)
        domains = self.cpus.domains()
        lines = []
        if (self.root / "info/MB").is_dir():
            most = 100 if int(self.read("info/MB/delay_linear")) else 2048
            lines.append("MB:" + ";".join(f"{d}={most}" for d in self.mb_ids or domains))
        for resource in self.resources:
            lines.append(f"{resource}:" + ";".join(f"{d}={self.full:x}" for d in domains))
        self._put(f"{base}schemata", "\n".join("    " + line for line in lines))
        self._put(f"{base}cpus_list", "")
        self._put(f"{base}mode", "shareable")
        self._put(f"{base}tasks", "")
        (self.root / f"{base}mon_groups").mkdir(exist_ok=True)
        self._usage()

    def monitoring(self, rmids, features="llc_occupancy\nmbm_total_bytes\nmbm_local_bytes"):
        """Have the CPU monitor, with so many RMIDs."""
        self.rmids = rmids
        (self.root / "info/L3_MON").mkdir()
        self._put("info/L3_MON/num_rmids", rmids)
        self._put("info/L3_MON/mon_features", features)

    def _counted(self, name):
        for domain in self.cpus.domains():
            folder = self.root / f"{name}/mon_data/mon_L3_{domain:02d}"
            folder.mkdir(parents=True)
            for event in self.read("info/L3_MON/mon_features").split():
                (folder / event).write_text("0\n")

    def assigned(self, counters):
        """Have counters of bandwidth assigned (AMD's ABMC), so many in each cache domain."""
        self.counters = counters
        self._put("info/L3_MON/mbm_assign_mode", "[mbm_event]\ndefault")
        self._put("info/L3_MON/mbm_assign_on_mkdir", 1)
        self._put("info/L3_MON/num_mbm_cntrs", self._by_domain(lambda _: counters))
        self._assign_new("")

    def _by_domain(self, value):
        return ";".join(f"{domain}={value(domain)}" for domain in self.cpus.domains())

    def _free(self, domain):
        used = (one for group in self._assigned.values() for _, one in group)
        return self.counters - sum(one == domain for one in used)

    def _assign_new(self, group):
        """Give a new group a counter for each event everywhere, as far as there are any."""
        if self.counters is None:
            return
        found = self._assigned[group] = set()
        if self.read("info/L3_MON/mbm_assign_on_mkdir").strip() == "1":
            for event in _EVENTS:
                found |= {(event, one) for one in self.cpus.domains() if self._free(one)}
        self._show_assigned()

    def _assign(self, group, text):
        have = self._assigned[group]
        for line in text.splitlines():
            event, _, states = line.partition(":")
            if event not in _EVENTS:
                raise self._refuse(errno.ENOENT, f"Invalid event {event}")
            for domain, state in (one.split("=") for one in states.split(";")):
                if int(domain) not in self.cpus.domains():
                    raise self._refuse(errno.EINVAL, f"Invalid domain id {domain}")
                one = event, int(domain)
                if state == "e" and one not in have and not self._free(int(domain)):
                    self._show_assigned()
                    says = f"Failed to allocate counter for {event} in domain {domain}"
                    raise self._refuse(errno.ENOSPC, says)
                (have.add if state == "e" else have.discard)(one)
        self._show_assigned()

    def _line(self, event, have):
        return f"{event}:{self._by_domain(lambda one: 'e' if (event, one) in have else '_')}"

    def _show_assigned(self):
        """Write what the kernel shows of assigned counters, and of what they count."""
        if self.counters is None:
            return
        self._put("info/L3_MON/available_mbm_cntrs", self._by_domain(self._free))
        for group, have in self._assigned.items():
            lines = (self._line(event, have) for event in _EVENTS)
            self._put(f"{group}/mbm_L3_assignments".lstrip("/"), "\n".join(lines))
            for path in (self.root / group).glob("mon_data/mon_L3_*/mbm_*"):
                counted = (path.name, int(path.parent.name[-2:])) in have
                if counted != (path.read_text().strip() != "Unassigned"):
                    path.write_text("0\n" if counted else "Unassigned\n")

    def _schemata(self, group, text):
        base = f"{group}/" if group else ""
        lines = dict(line.strip().split(":") for line in self.read(f"{base}schemata").splitlines())
        for line in text.splitlines():
            name, _, values = line.partition(":")
            if name not in lines:
                raise self._refuse(errno.EINVAL, f"Unknown or unsupported resource name '{name}'")
            if name == "MB":
                shown = dict(one.split("=") for one in lines[name].split(";"))
                for n, one in (v.split("=") for v in values.split(";")):
                    shown[n] = f"{self._bandwidth(int(one)):>4}"
                lines[name] = ";".join(f"{n}={one}" for n, one in shown.items())
                continue
            masks = parse_masks(lines[name])
            for domain, mask in parse_masks(values).items():
                self._check(domain, mask, masks, group)
                masks[domain] = mask
            lines[name] = ";".join(f"{d}={m:x}" for d, m in masks.items())
        self._put(f"{base}schemata", "\n".join(f"{n}:{v}" for n, v in lines.items()))

    def _bandwidth(self, limit):
        """Round a limit up as the kernel does, and refuse one out of range."""
        least, step, linear = (
            int(self.read(f"info/MB/{name}"))
            for name in ("min_bandwidth", "bandwidth_gran", "delay_linear")
        )
        most = 100 if linear else 2048
        if not least <= limit <= most:
            raise self._refuse(errno.EINVAL, f"MB value {limit} out of range [{least},{most}]")
        return -(-limit // step) * step

    def _check(self, domain, mask, masks, group):
        if domain not in masks:
            raise self._refuse(errno.EINVAL, f"Unknown domain {domain}")
        if mask == 0 or mask > self.full:
            raise self._refuse(errno.EINVAL, "Mask out of range")
        if not self.sparse and not mask.is_contiguous:
            raise self._refuse(errno.EINVAL, f"The mask {mask:x} has non-consecutive 1-bits")
        if mask.count < self.min_bits:
            raise self._refuse(errno.EINVAL, f"Need at least {self.min_bits} bits in the mask")
        if self.mode(group) == "exclusive" and mask & self.shareable:  # by the hardware
            raise self._refuse(errno.EINVAL, "Overlaps with other group")
        for other in {"", *self.groups()} - {group}:
            if (
                self.masks(other, self.resources[0])[domain] & mask
                and self.mode(other) != "shareable"
            ):
                raise self._refuse(errno.EINVAL, "Overlaps with exclusive group")

    def cpus_list(self, group):
        """Return a group's CPUs in the kernel's list format."""
        return self.read(f"{group}/cpus_list".lstrip("/")).strip()

    def mode(self, group):
        """Return the mode of a group."""
        path = self.root / group / "mode"
        return path.read_text().strip() if path.exists() else "shareable"

    def _cpus_list(self, group, text):
        try:
            wanted = parse_cpus(text)
        except ValueError:
            raise self._refuse(errno.EINVAL, "Bad CPU list/mask") from None
        if wanted - self.cpus.on:
            raise self._refuse(errno.EINVAL, "Can only assign online CPUs")
        lost = parse_cpus(self.read(f"{group}/cpus_list")) - wanted
        for other in ("", *self.groups()):
            name = f"{other}/cpus_list".lstrip("/")
            left = parse_cpus(self.read(name)) - wanted
            self._put(name, format_cpus(left | (lost if not other else frozenset())))
        self._put(f"{group}/cpus_list", format_cpus(wanted))
        self._monitors()

    def _monitors(self):
        """Take CPUs that left a group out of its monitoring groups."""
        for group in ("", *self.groups()):
            left = parse_cpus(self.read(f"{group}/cpus_list".lstrip("/")))
            for path in (self.root / group).glob("mon_groups/*/cpus_list"):
                path.write_text(format_cpus(parse_cpus(path.read_text()) & left) + "\n")

    def _monitor_cpus(self, group, text):
        wanted = parse_cpus(text)
        parent = group.partition("mon_groups/")[0]
        if wanted - parse_cpus(self.read(f"{parent}cpus_list")):
            says = "Can only add CPUs to mongroup that belong to parent"
            raise self._refuse(errno.EINVAL, says)
        for path in (self.root / parent).glob("mon_groups/*/cpus_list"):
            path.write_text(format_cpus(parse_cpus(path.read_text()) - wanted) + "\n")
        self._put(f"{group}/cpus_list", format_cpus(wanted))

    def _usage(self):
        ways = self.full.bit_length()
        parts = []
        for domain in self.cpus.domains():
            exclusive = 0
            for group in self.groups():
                if self.mode(group) in ("exclusive", "pseudo-locked"):
                    exclusive |= self.masks(group, self.resources[0])[domain]
            letters = ("E" if exclusive >> way & 1 else "S" for way in reversed(range(ways)))
            parts.append(f"{domain}={''.join(letters)}")
        for resource in self.resources:
            self._put(f"info/{resource}/bit_usage", ";".join(parts))
