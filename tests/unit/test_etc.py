# SPDX-License-Identifier: Apache-2.0
"""What lies in etc/iat-nova agrees with the code, and systemd understands its unit."""

import configparser
import contextlib
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from iat_nova import conf
from iat_nova.checks import rights
from iat_nova.cmd import agent, main
from iat_nova.model import Action, Parameters
from tools import sample_config

ETC = pathlib.Path(__file__).parents[2] / "etc/iat-nova"
UNIT = ETC / "iat-nova-agent.service"
SAFETY = ETC.parents[1] / "doc/source/operator/safety.rst"
BIN = pathlib.Path(sys.executable).parent


class DashboardTest(unittest.TestCase):
    def test_every_action_is_a_mark(self) -> None:
        """Whatever the strategy: the marks leave out the actions that change nothing."""
        board = json.loads((ETC / "grafana-dashboard.json").read_text())
        (marks,) = board["annotations"]["list"]
        found = re.search(r'action!~"([^"]+)"', marks["expr"])
        assert found is not None
        self.assertEqual({one.value for one in Action if not one.acts}, {*found[1].split("|")})


class SampleTest(unittest.TestCase):
    def test_up_to_date(self) -> None:
        """The sample is what `tox -e genconfig` writes now."""
        self.assertEqual(sample_config.sample(), (ETC / "iat-nova.conf.sample").read_text())

    def test_the_agent_comes_first(self) -> None:
        """The agent's options begin at the top, and each of their choices has a meaning."""
        text = sample_config.sample()
        self.assertEqual("[iat]", text.splitlines()[0])
        self.assertLess(text.index("[iat]"), text.index("[DEFAULT]"))
        self.assertNotIn("No description", text)
        for option in conf.IAT_OPTS:
            choices = getattr(option.type, "choices", None) or {}
            self.assertNotIn(None, choices.values(), option.name)

    def test_it_is_a_configuration(self) -> None:
        """Taken as it is, the sample changes nothing."""
        self.assertEqual(conf.load(), conf.load([ETC / "iat-nova.conf.sample"]))


class UnitTest(unittest.TestCase):
    def setUp(self) -> None:
        self.unit = configparser.RawConfigParser(strict=False)  # ExecStartPre may come twice
        self.unit.optionxform = str  # systemd's names have capitals
        self.unit.read(UNIT)
        self.service = self.unit["Service"]

    def test_its_commands_exist(self) -> None:
        """The unit starts and restores with programs and arguments that are there."""
        self.assertEqual("iat-nova-agent", pathlib.Path(self.service["ExecStart"]).name)
        agent._parser().parse_args(self.service["ExecStart"].split()[1:])
        for line in ("ExecStop", "ExecStopPost"):
            program, command, option, *_ = self.service[line].split()
            self.assertEqual("iat-nova", pathlib.Path(program).name)
            with contextlib.redirect_stdout(io.StringIO()) as shown:
                self.assertEqual(0, main.main(["help", command]))
            self.assertIn(f"iat-nova {command}", shown.getvalue())
            self.assertIn(f"  {option}", shown.getvalue())

    def test_root_notes_the_state_directory(self) -> None:
        """Before each start, for a restore that cannot read the configuration."""
        lines = UNIT.read_text().splitlines()
        line = "ExecStartPre=-+/opt/iat-nova/bin/iat-nova restore --note-state-dir"
        self.assertLess(lines.index(line), lines.index("ExecStart=" + self.service["ExecStart"]))

    def test_drop_in_for_libpqos(self) -> None:
        """The page's drop-in replaces all steps before the start: it notes the directory, too."""
        section = SAFETY.read_text(encoding="utf-8").split("libpqos in the sandbox\n", 1)[1]
        drop_in = section.split("   [Service]\n", 1)[1].split("\n\n", 1)[0]
        self.assertIn("ExecStartPre=\n", drop_in)
        self.assertIn("iat-nova restore --note-state-dir'\n", drop_in)

    def test_it_may_write_where_the_agent_writes(self) -> None:
        """State directory and lock are writable in a file system that otherwise is not."""
        self.assertEqual("strict", self.service["ProtectSystem"])
        self.assertEqual(conf.STATE_DIR, f"/var/lib/{self.service['StateDirectory']}")
        self.assertEqual(str(conf.WRITER_LOCK.parent), f"/run/{self.service['RuntimeDirectory']}")
        self.assertEqual("iat-nova", self.service["LogsDirectory"])  # what the pages say
        # it makes /sys read-only, with resctrl but for this exception
        self.assertEqual("yes", self.service["ProtectKernelTunables"])
        self.assertEqual("-/sys/fs/resctrl", self.service["ReadWritePaths"])

    def test_the_msr_driver_is_loaded_before_it(self) -> None:
        """By a unit of its own: systemd resolves DeviceAllow= before any ExecStartPre=."""
        self.assertEqual("char-cpu/msr rw", self.service["DeviceAllow"])
        lines = UNIT.read_text().splitlines()
        for line in ("Wants=modprobe@msr.service", "After=modprobe@msr.service"):
            self.assertIn(line, lines)
        self.assertNotIn("/sbin/modprobe", UNIT.read_text())

    def test_it_mounts_where_others_see_it(self) -> None:
        """resctrl is mounted for process 1, not in a namespace that goes with the command."""
        lines = [line for line in UNIT.read_text().splitlines() if "mount -t resctrl" in line]
        (line,) = lines
        self.assertIn("nsenter --target 1 --mount", line)

    def test_it_is_watched(self) -> None:
        """systemd waits for the first iteration, and ends and restarts what stands still."""
        self.assertEqual("notify", self.service["Type"])
        self.assertEqual("on-failure", self.service["Restart"])
        self.assertGreater(int(self.service["WatchdogSec"]), 3 * Parameters().interval_s)

    def test_starts_are_repeated_without_end(self) -> None:
        """After pauses that grow, shorter than what systemd waits for a start; 78 is the last."""
        self.assertEqual("0", self.unit["Unit"]["StartLimitIntervalSec"])
        self.assertEqual(str(agent.EXIT_CONFIGURATION), self.service["RestartPreventExitStatus"])
        (line,) = [line for line in UNIT.read_text().splitlines() if "NRestarts" in line]
        script = line.partition("/bin/sh -c '")[2].rstrip("'").replace("$$", "$")
        waits = [self._waits(script, restarts) for restarts in ("", *map(str, range(10)))]
        self.assertEqual(["", "", "", "5", "15", "35", "75", "155", "315", "315", "315"], waits)
        self.assertGreater(int(self.service["TimeoutStartSec"]), 315)

    def _waits(self, script: str, restarts: str) -> str:
        """Return for how many seconds the unit's script waits after so many restarts."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, says in (("systemctl", f"echo {restarts}"), ("sleep", 'echo "$1"')):
            (folder / name).write_text(f"#!/bin/sh\n{says}\n")
            (folder / name).chmod(0o755)
        command = ["/bin/sh", "-c", script]
        path = {"PATH": f"{folder}:/usr/bin:/bin"}
        done = subprocess.run(command, env=path, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def test_its_privileges_are_the_three(self) -> None:
        """No capability beyond those that the documentation names."""
        three = "CAP_SYS_RAWIO CAP_PERFMON CAP_DAC_OVERRIDE"
        self.assertEqual(three, self.service["AmbientCapabilities"])
        self.assertEqual(three, self.service["CapabilityBoundingSet"])
        self.assertIn(f"u {self.service['User']} ", (ETC / "iat-nova.sysusers").read_text())
        shipped = rights.Service(self.service["User"], frozenset(three.split()))
        self.assertEqual(shipped, rights.SHIPPED)

    def test_systemd_understands_it(self) -> None:
        """systemd-analyze finds nothing unknown, and the sandbox is tight."""
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is not installed")
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        # the programs are looked for: let it find them here
        copy = folder / UNIT.name
        copy.write_text(UNIT.read_text().replace("/opt/iat-nova/bin", str(BIN)))
        for arguments in (
            ["verify", "--man=no"],
            ["security", "--offline=yes", "--threshold=30", "--no-pager"],
        ):
            done = subprocess.run(
                ["systemd-analyze", *arguments, copy], capture_output=True, text=True, check=False
            )
            mine = [line for line in done.stderr.splitlines() if UNIT.name in line]
            self.assertEqual((0, []), (done.returncode, mine), done.stdout + done.stderr)
