# SPDX-License-Identifier: Apache-2.0
"""The files of nova-compute and of the agent are found where distributions put them."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from iat_nova import conf
from iat_nova.common import config_files


class ByDefault(unittest.TestCase):
    """A root of its own, with real files in it."""

    def setUp(self) -> None:
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(suffix="[a]")))

    def put(self, name: str, text: str = "") -> str:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def settings(self) -> conf.Settings:
        return conf.load(config_files.by_default(self.root))

    def test_the_order(self) -> None:
        """A distribution's defaults, the operator's file, fragments by name; first Nova's."""
        inside = [
            "usr/share/nova/nova-dist.conf",
            "etc/nova/nova.conf",
            "etc/nova/nova-compute.conf",
            "etc/nova/nova.conf.d/10-a.conf",
            "etc/nova/nova.conf.d/20-b.conf",
            "etc/nova/nova-compute.conf.d/c.conf",
            "usr/share/iat-nova/iat-nova-dist.conf",
            "etc/iat-nova/iat-nova.conf",
            "etc/iat-nova/iat-nova.conf.d/d.conf",
        ]
        put = {name: self.put(name) for name in sorted(inside, reverse=True)}
        for name in (
            "nova-api.conf",
            "nova.conf.d/x.bak",
            "nova.conf.d/.y.conf",
            "nova.conf.rpmnew",
        ):
            self.put(f"etc/nova/{name}")
        found = config_files.by_default(self.root)
        self.assertEqual([put[name] for name in inside], found)
        self.assertEqual(tuple(found), self.settings().read_files)

    def test_nothing_there(self) -> None:
        """A host without any of them: all defaults."""
        self.assertEqual([], config_files.by_default(self.root))

    def test_dedicated_cpus_of_each_kind_of_package(self) -> None:
        """Wherever a distribution has nova-compute read cpu_dedicated_set, the agent sees it."""
        self.put("etc/nova/nova.conf", "[compute]\ncpu_shared_set = 0,1\n")
        for cpus, name in enumerate(
            (
                "usr/share/nova/nova-dist.conf",
                "etc/nova/nova-compute.conf",
                "etc/nova/nova.conf.d/cpus.conf",
                "etc/nova/nova-compute.conf.d/cpus.conf",
            )
        ):
            self.put(name, f"[compute]\ncpu_dedicated_set = {cpus}\n")
            read = self.settings()
            self.assertEqual((str(cpus), "0,1"), (read.cpu_dedicated_set, read.cpu_shared_set))

    def test_our_own_files_win(self) -> None:
        """[iat] in the agent's own file is stronger than in nova.conf, a package's is weaker."""
        self.put("usr/share/iat-nova/iat-nova-dist.conf", "[iat]\nstate_dir = /p\nhistory_mib=5\n")
        self.put("etc/iat-nova/iat-nova.conf", "[iat]\nhistory_mib = 6\n")
        self.put("etc/nova/nova.conf", "[iat]\nhistory_mib = 4\nmode = enforce\n")
        read = self.settings()
        self.assertEqual(("enforce", pathlib.Path("/p")), (read.mode, read.state_dir))
        self.assertEqual(6, read.history_mib)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_what_may_be_read_is_what_can_be_opened(self) -> None:
        """nova.conf is not for others: the service's capability opens it, nothing else does."""
        name = self.put("etc/nova/nova.conf")
        os.chmod(name, 0o600)
        os.chmod(self.root, 0o755)
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        keep = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
        ask = (
            f"from {config_files.__name__} import by_default; print(by_default({str(self.root)!r}))"
        )
        said = subprocess.check_output([*drop, *keep, sys.executable, "-c", ask], text=True)
        self.assertEqual(f"{[name]}\n", said)
        self.addCleanup(os.seteuid, 0)
        os.seteuid(65534)
        self.assertEqual([], config_files.by_default(self.root))


class Expanded(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_a_folder_stands_for_its_files_in_its_place(self) -> None:
        """As oslo.config has --config-dir: what is named later wins, whichever of the two it is."""
        inside = self.folder / "d"
        inside.mkdir()
        for name in ("2.conf", "1.conf", "3.txt"):
            (inside / name).write_text("[iat]\nhistory_mib = 9\n")
        file = self.folder / "f"
        file.write_text("[iat]\nhistory_mib = 8\n")
        self.assertEqual(
            [str(file), str(inside / "1.conf"), str(inside / "2.conf")],
            config_files.expanded([file, f"{inside}/"]),
        )
        self.assertEqual(9, conf.load([file, f"{inside}/"]).history_mib)
        self.assertEqual(8, conf.load([f"{inside}/", file]).history_mib)

    def test_an_absent_folder_is_named(self) -> None:
        """A folder that is not there is an error, as for nova-compute."""
        with self.assertRaisesRegex(conf.ConfigError, "/nowhere/conf.d"):
            conf.load(["/nowhere/conf.d/"])
