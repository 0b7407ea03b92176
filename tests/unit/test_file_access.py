# SPDX-License-Identifier: Apache-2.0
"""One module works in folders of other accounts: no other module has ways of its own to files."""

import ast
import pathlib
import unittest

ROOT = pathlib.Path(__file__).parents[2] / "iat_nova"
OFF_HOSTS = ("experiments",)  # run by developers, in folders of their own

OS = {
    "chmod", "chown", "lchown", "link", "listdir", "makedirs", "mkdir", "mkfifo", "open", "remove",
    "removedirs", "rename", "renames", "replace", "rmdir", "scandir", "symlink", "truncate",
    "unlink", "utime", "kill", "walk",
}  # fmt: skip
METHODS = {
    "chmod", "hardlink_to", "lchmod", "mkdir", "open", "read_bytes", "read_text", "rename",
    "rmdir", "symlink_to", "touch", "unlink", "write_bytes", "write_text",
}  # fmt: skip
WHOLE = {"open", "shutil.rmtree", "shutil.move", "shutil.copy", "sqlite3.connect"}
CALLS = OS | METHODS | {name.rpartition(".")[2] for name in WHOLE}

ALLOWED = {
    "common/owned_folder.py": "the one module",
    "common/files.py": "files that an operator names",
    "common/config_files.py": "files that an operator names",
    "common/kernel_files.py": "/proc, sysfs",
    "agent/state_pointer.py": "a descriptor of the one module's",
    "cmd/main.py": "/dev/null",
    "hardware/enforcement/snapshot_file.py": "/proc/sys/kernel",
    "hardware/counters/cha.py": "sysfs",
    "hardware/cat/cpuid.py": "/dev/cpu",
    "hardware/kernel/msr.py": "/dev/cpu, sysfs",
    "hardware/counters/perf_event.py": "/proc",
    "hardware/cat/pqos_lib.py": "/dev/null",
    "hardware/cat/resctrl_fs.py": "resctrl",
    "hardware/ddio/iordt.py": "sysfs",
    "hardware/ddio/pci_place.py": "sysfs",
    "hardware/ddio/rootport.py": "sysfs",
    "hardware/kernel/physical_memory.py": "/dev/mem",
    "hardware/kernel/topology.py": "sysfs",
    "hardware/kernel/sockets.py": "sysfs",
    "inventory/host.py": "sysfs",
    "nova/spool.py": "Nova's own folder, as Nova's own user; it may import nothing of the agent",
    "policy/policies.py": "a file of the package",
    "policy/schema.py": "a file of the package",
    "checks/qualify/resources.py": "/proc",
    "checks/qualify/programs.py": "a temporary folder of root's own",
    "report/metrics.py": "a file of the package",
    "report/sentences/__init__.py": "files of the package",
    "report/page.py": "a file of the package",
    "store/database.py": "SQLite, which root opens as the owner of the folder (as_owner)",
    "store/heartbeat.py": "/proc; a descriptor of the one module's",
}
"""Which modules have ways of their own to files, and to which: none in a folder of the service."""


def found(source):
    """Return what a module does to files by its own means: line and call."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or _name(node.func) not in CALLS:
            continue
        text = ast.unparse(node.func)
        owner, _, name = text.rpartition(".")
        if (
            text in WHOLE
            or (owner == "os" and name in OS)
            or (owner not in ("os", "") and name in METHODS and not _ours(owner))
        ):
            yield node.lineno, text


def _name(function):
    return getattr(function, "attr", None) or getattr(function, "id", None)


def _ours(owner):
    """Tell whether a call is of common/files.py or of the one module's class, by usual names."""
    last = owner.rpartition(".")[2].lower()
    if "OwnedFolder(" not in owner and not last.isidentifier():
        return False
    return last in ("files", "_requests", "_above") or "folder" in last or "OwnedFolder(" in owner


class FileAccess(unittest.TestCase):
    """Every module that runs on a compute host."""

    @classmethod
    def setUpClass(cls):
        cls.users = {
            str(path.relative_to(ROOT)): calls
            for path in sorted(ROOT.rglob("*.py"))
            if path.relative_to(ROOT).parts[0] not in OFF_HOSTS
            and (calls := list(found(path.read_text(encoding="utf-8"))))
        }

    def test_no_other_module(self):
        """What opens, removes or signals by its own means is in the table, with the place."""
        unknown = {name: calls for name, calls in self.users.items() if name not in ALLOWED}
        self.assertEqual({}, unknown, "use common/owned_folder.py")

    def test_nothing_is_in_vain(self):
        """A module that needs no leave any more loses it."""
        self.assertEqual(set(), ALLOWED.keys() - self.users.keys())
