# SPDX-License-Identifier: Apache-2.0
"""The options become one checked value, and a bad one is named."""

import dataclasses
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from oslo_config import cfg

from iat_nova import conf
from tests.said import sentence


class LoadTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def test_defaults(self) -> None:
        """Without a file the documented defaults hold."""
        with mock.patch.dict(os.environ):
            os.environ.pop(conf.STATE_DIR_VARIABLE, None)
            settings = conf.load()
        self.assertEqual("observe", settings.mode)
        self.assertEqual(pathlib.Path("/var/lib/iat-nova/history.sqlite"), settings.history_path)

    def test_settings_have_the_names_of_their_options(self) -> None:
        """Messages that name one can be searched for in the files."""
        options = (*conf.IAT_OPTS, *conf.COMPUTE_OPTS, *conf.OS_VIF_OVS_OPTS)
        names = {field.name for field in dataclasses.fields(conf.Settings) if field.compare}
        self.assertEqual(set(), names - {option.dest for option in options})

    def test_nova_conf_is_read_with_its_other_sections(self) -> None:
        """Nova's own sections are tolerated, and three of its options are used."""
        path = self.write(
            "nova.conf",
            "[DEFAULT]\ntransport_url = rabbit://x\n[compute]\ncpu_dedicated_set = 2-5\n"
            "cpu_shared_set = 0,1\n[os_vif_ovs]\novsdb_connection = unix:/run/x.sock\n"
            "[iat]\nmode = observe\n",
        )
        settings = conf.load([path])
        self.assertEqual("observe", settings.mode)
        self.assertEqual("2-5", settings.cpu_dedicated_set)
        self.assertEqual("0,1", settings.cpu_shared_set)
        self.assertEqual("unix:/run/x.sock", settings.ovsdb_connection)

    def test_empty_sets_are_unset(self) -> None:
        """Nova takes an empty cpu_dedicated_set as unset; no CPU at all would be dedicated."""
        path = self.write("nova.conf", "[compute]\ncpu_dedicated_set =\ncpu_shared_set =\n")
        settings = conf.load([path])
        self.assertEqual((None, None), (settings.cpu_dedicated_set, settings.cpu_shared_set))

    def test_a_later_file_wins(self) -> None:
        """Options of a second file override the first, as oslo.config does everywhere."""
        first = self.write("a.conf", "[iat]\nmode = observe\nstrategy = baseline\n")
        second = self.write("b.conf", "[iat]\nmode = enforce\n")
        settings = conf.load([first, second])
        self.assertEqual(("enforce", "baseline"), (settings.mode, settings.strategy))

    def test_no_open_vswitch(self) -> None:
        """`none` says that there is nothing to connect to."""
        self.assertIsNone(
            conf.load([self.write("a", "[iat]\novsdb_connection = none\n")]).ovsdb_connection
        )

    def test_state_dir_from_the_environment(self) -> None:
        """The variable stands in for an option that nobody set."""
        with mock.patch.dict(os.environ, {conf.STATE_DIR_VARIABLE: "/tmp/elsewhere"}):
            self.assertEqual(pathlib.Path("/tmp/elsewhere"), conf.load().state_dir)
            path = self.write("a", "[iat]\nstate_dir = /srv/iat\n")
            self.assertEqual(pathlib.Path("/srv/iat"), conf.load([path]).state_dir)
            path = self.write("b", "[iat]\nstate_dir = /var/lib/iat-nova\n")
            self.assertEqual(pathlib.Path("/var/lib/iat-nova"), conf.load([path]).state_dir)
            path = self.write("c", "[iat]\nstate_dir =\n")
            self.assertEqual(pathlib.Path("/tmp/elsewhere"), conf.load([path]).state_dir)
        for folder in ("/tmp/a$b", "/tmp/${c}", "/tmp/$$"):
            with mock.patch.dict(os.environ, {conf.STATE_DIR_VARIABLE: folder}):
                self.assertEqual(pathlib.Path(folder), conf.load().state_dir)
                path = self.write("d", "[iat]\nspool_dir = $state_dir/x\n")
                self.assertEqual(pathlib.Path(folder, "x"), conf.load([path]).spool_dir)

    def test_an_empty_value_is_the_default(self) -> None:
        """No option becomes None or a path to the present folder, which the agent would use."""
        with mock.patch.dict(os.environ):
            os.environ.pop(conf.STATE_DIR_VARIABLE, None)
            default = conf.load()
            read = {
                "iat": conf.IAT_OPTS,
                "compute": conf.COMPUTE_OPTS,
                "os_vif_ovs": conf.OS_VIF_OVS_OPTS,
            }
            for group, option in ((group, one) for group, every in read.items() for one in every):
                if isinstance(option, cfg.BoolOpt) or getattr(option.type, "choices", None):
                    continue  # oslo.config refuses these
                with self.subTest(option=option.dest, group=group):
                    path = self.write("empty", f"[{group}]\n{option.dest} =\n")
                    self.assertEqual(default, conf.load([path]))

    def test_bad_values_name_file_and_option(self) -> None:
        """Each mistake is one readable sentence with the place in it."""
        cases = {
            "[iat]\nmode = sometimes\n": ("mode", "observe", "sometimes"),
            "[iat]\nreconcile_s = soon\n": ("reconcile_s", "soon"),
            "[iat]\nhistory_mib = 1\n": ("history_mib", "4"),
            "[iat]\nhardware = emulated\n": ("emulated_scenario",),
            "mode = enforce\n[iat\n": ("bad.conf",),
            "[iat]\nstate_dir = $state_dir/iat\n": ("bad.conf", "refers to itself"),
            "[iat]\nreconcile_s = inf\n": ("reconcile_s", "inf"),
            "[iat]\nhand_over_s = nan\n": ("hand_over_s", "nan"),
            "[iat]\ndebounce_s = 1e300\n": ("debounce_s", "1e+300"),
        }
        for text, expected in cases.items():
            with self.subTest(text=text), self.assertRaises(conf.ConfigError) as caught:
                conf.load([self.write("bad.conf", text)])
            for word in expected:
                self.assertIn(word, sentence(caught.exception))
            self.assertNotIn("LocationInfo", sentence(caught.exception))

    def test_an_absent_file_is_named(self) -> None:
        """A path that leads nowhere is an error, not an empty configuration."""
        with self.assertRaisesRegex(conf.ConfigError, "/nowhere/nova.conf"):
            conf.load(["/nowhere/nova.conf"])
