# SPDX-License-Identifier: Apache-2.0
"""The DevStack plug-in, run phase by phase as stack.sh, unstack.sh and clean.sh source it.

DevStack's own functions are stood in for by ones that note how they were called; `iniset` really
writes, and what `sudo` is asked for is done only to the test's own folder.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import yaml

from iat_nova import conf
from iat_nova.agent import provider_config
from iat_nova.nova import extra_specs
from tests.functional.daemons import short_folder

DEVSTACK = pathlib.Path(__file__).parents[2] / "devstack"
BIN = pathlib.Path(sys.executable).parent
STACK = [("stack", phase) for phase in ("pre-install", "install", "post-config", "extra")]
STACK.append(("stack", "test-config"))

INISET = """
import configparser, sys
_, path, section, option, value = sys.argv
ini = configparser.RawConfigParser()
ini.optionxform = str
ini.read(path)
if not ini.has_section(section) and section != "DEFAULT":
    ini.add_section(section)
ini.set(section, option, value)
with open(path, "w") as file:
    ini.write(file)
"""

# As DevStack runs a plug-in: errexit, the settings first, then the script once a phase.
DRIVER = r"""
set -o errexit
note() { printf '%s\n' "$*" >>"$CALLS"; }
command_not_found_handle() { note "UNKNOWN $*"; return 127; }
define_plugin() { note "define_plugin $*"; }
enable_service() { ENABLED_SERVICES+=",$1"; }
is_service_enabled() {
    local one
    for one in "$@"; do [[ ",$ENABLED_SERVICES," == *",$one,"* ]] && return 0; done
    return 1
}
trueorfalse() {
    case "${!2:-$1}" in 1|[Yy]es|[Tt]rue|TRUE) echo True ;; *) echo False ;; esac
}
get_python_exec_prefix() { echo "$PREFIX"; }
echo_summary() { note "echo_summary $*"; }
setup_develop() { note "setup_develop $*"; }
run_process() { note "run_process $1|$2|$3|$4"; }
stop_process() { note "stop_process $*"; }
test_with_retry() { note "test_with_retry $1|$2|$3|$4"; }
openstack() { note "openstack $*"; }
mountpoint() { note "mountpoint $*"; [[ "$MOUNTED" == yes ]]; }
sudo() {
    note "sudo $*"
    case "$1" in install) mkdir -p "${@: -1}" ;; rm) "$@" ;; */iat-nova) return "$RESTORED" ;; esac
}
iniset() { note "iniset $*"; python3 "$INISET" "$@"; touch "$CALLS.step"; }
iniget() { sed -n "/^\[$2\]/,/^\[/s/^$3 *= *//p" "$1"; }
nproc() { echo "$CPUS"; }
# What stack.sh leaves in the background: it reads nova.conf, and writes it when somebody else has
# written, or waits for it.
configure_neutron_nova() {
    local content
    content=$(cat "$NOVA_CONF")
    touch "$CALLS.read"
    until [[ -e "$CALLS.step" ]]; do sleep 0.01; done
    printf '%s\n[neutron]\nregion_name = One\n' "$content" >"$NOVA_CONF"
}
async_wait() { note "async_wait $*"; touch "$CALLS.step"; wait; }

source "$PLUGIN/settings"
for service in $DISABLED; do ENABLED_SERVICES=${ENABLED_SERVICES//,$service/}; done
rm -f "$CALLS".*
while read -r mode phase; do
    if [[ "$BUSY/$phase" == yes/post-config ]]; then
        configure_neutron_nova &
        until [[ -e "$CALLS.read" ]]; do sleep 0.01; done
    fi
    note "== $mode $phase"
    before=$(set +o)
    source "$PLUGIN/plugin.sh" $mode $phase
    [[ "$before" == "$(set +o)" ]] || note "UNKNOWN the shell's options were changed"
done <"$PHASES"
wait
"""


class PluginTest(unittest.TestCase):
    def setUp(self) -> None:
        if shutil.which("bash") is None:
            self.skipTest("bash is not installed")
        self.folder = self.enterContext(short_folder())
        self.nova_conf = self.folder / "nova.conf"
        self.cpuinfo = self.folder / "cpuinfo"
        self.cpuinfo.write_text("flags\t\t: fpu vme sse2 cat_l2x rdt_a\n")
        (self.folder / "iniset.py").write_text(INISET)
        self.prefix = self.folder / "venv/bin"
        self.prefix.mkdir(parents=True)
        command = self.prefix / "iat-nova"
        command.write_text('#!/bin/sh\necho "iat-nova $*" >>"$CALLS"\n')
        command.chmod(0o755)
        self.written = self.folder / "etc/provider_config/iat-nova.yaml"

    def stack(
        self, *phases, disabled="", services="n-cpu,n-api,q-agt", said="", status=0, **settings
    ):
        """Source the plug-in for each phase, which ends with a status; return calls by phase.

        `said`: what there is on standard error; None: whatever there is.
        """
        phases = phases or STACK
        calls, order = self.folder / "calls", self.folder / "phases"
        calls.write_text("")
        order.write_text("".join(" ".join(phase) + "\n" for phase in phases))
        # nova.conf is there when plug-ins are configured: DevStack's own Nova wrote it
        if not self.nova_conf.exists():
            self.nova_conf.write_text("[compute]\ncpu_dedicated_set = 2-3\n")
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "PLUGIN": DEVSTACK,
            "PREFIX": self.prefix,
            "DEST": self.folder / "stack",
            "DATA_DIR": self.folder / "data",
            "STACK_USER": subprocess.check_output(["id", "-un"], text=True).strip(),
            "LIBVIRT_GROUP": "libvirt",
            "NOVA_CONF": self.nova_conf,
            "NOVA_CONF_DIR": self.folder / "etc",
            "NOVA_CPU_CONF": self.folder / "nova-cpu.conf",
            "ENABLED_SERVICES": services,
            "DISABLED": disabled,
            "CALLS": calls,
            "PHASES": order,
            "INISET": self.folder / "iniset.py",
            "IAT_NOVA_CPUINFO": self.cpuinfo,
            "MOUNTED": "no",
            "BUSY": "no",
            "CPUS": "8",
            "RESTORED": "0",
            **settings,
        }
        done = subprocess.run(
            ["bash", "-c", DRIVER],
            env={name: str(value) for name, value in environment.items()},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(status, done.returncode, calls.read_text() + done.stderr)
        if said is not None:
            self.assertEqual(said, done.stderr)
        by_phase: dict[str, list[str]] = {"": []}
        current = ""
        for line in calls.read_text().splitlines():
            self.assertNotIn("UNKNOWN", line)
            if line.startswith("== "):
                current = line.removeprefix("== ").strip()
                by_phase[current] = []
            elif not line.startswith("echo_summary"):
                by_phase[current].append(line)
        return by_phase

    def test_a_gate_without_rdt(self) -> None:
        """A virtual machine gets the emulated server, as the stack's own user."""
        done = self.stack()
        self.assertEqual(["define_plugin iat-nova"], done[""])
        self.assertEqual([], done["stack pre-install"])
        self.assertEqual(
            [f"setup_develop {self.folder}/stack/iat-nova metrics,sim"], done["stack install"]
        )
        user = subprocess.check_output(["id", "-un"], text=True).strip()
        self.assertIn(
            f"run_process iat-nova-agent|{self.prefix}/iat-nova-agent "
            f"--config-file {self.folder}/nova-cpu.conf|libvirt|{user}",
            done["stack extra"],
        )
        self.assertFalse([call for call in done["stack extra"] if "mount" in call])
        (check,) = done["stack test-config"]
        self.assertIn(f"iat-nova --state-dir {self.folder}/data/iat-nova status|", check)
        self.assertTrue((self.folder / "data/iat-nova").is_dir())
        self.assertEqual("enforce", conf.load([self.nova_conf]).mode)

    def test_the_agent_reads_what_was_configured(self) -> None:
        """nova.conf keeps Nova's own part, and the agent's own reader takes it."""
        self.stack(IAT_NOVA_MODE="observe", IAT_NOVA_METRICS_PORT="9742")
        settings = conf.load([self.nova_conf])
        self.assertEqual(
            ("observe", "pollute-buffer", "emulated", "quickstart", 9742),
            (
                settings.mode,
                settings.strategy,
                settings.hardware,
                settings.emulated_scenario,
                settings.metrics_port,
            ),
        )
        self.assertEqual(self.folder / "data/iat-nova", settings.state_dir)
        self.assertEqual("2-3", settings.cpu_dedicated_set)
        self.assertEqual("tcp:127.0.0.1:6640", settings.ovsdb_connection)
        self.assertIsNone(settings.policy_file)

    def test_nova_conf_is_written_by_one_at_a_time(self) -> None:
        """stack.sh configures Nova for Neutron in the background; neither may undo the other."""
        self.stack(BUSY="yes")
        settings = conf.load([self.nova_conf])
        self.assertEqual(("enforce", "emulated"), (settings.mode, settings.hardware))
        self.assertIn("region_name = One", self.nova_conf.read_text())

    def test_dedicated_cpus(self) -> None:
        """Only guests with CPUs of their own get ways of their own; sets that are there stay."""
        self.stack()
        self.assertEqual("2-3", conf.load([self.nova_conf]).cpu_dedicated_set)
        for settings, dedicated, shared in (
            ({}, "4-7", "0-3"),
            ({"CPUS": "3"}, "1-2", "0-0"),
            ({"CPUS": "1"}, None, None),
            ({"IAT_NOVA_SPLIT_CPUS": "False"}, None, None),
        ):
            with self.subTest(settings):
                self.nova_conf.write_text("[DEFAULT]\n")
                self.stack(**settings)
                got = conf.load([self.nova_conf])
                self.assertEqual((dedicated, shared), (got.cpu_dedicated_set, got.cpu_shared_set))

    def test_every_setting_reaches_the_agent(self) -> None:
        """What local.conf says is what nova.conf has."""
        self.stack(
            IAT_NOVA_STRATEGY="core-only",
            IAT_NOVA_POLICY_FILE="/etc/p.yaml",
            IAT_NOVA_OVSDB_CONNECTION="unix:/run/db.sock",
            IAT_NOVA_EMULATED_SCENARIO="leaky-dma",
            IAT_NOVA_EMULATED_SECONDS="60",
            IAT_NOVA_STATE_DIR=self.folder / "elsewhere",
            IAT_NOVA_HARDWARE="emulated",
        )
        settings = conf.load([self.nova_conf])
        self.assertEqual("core-only", settings.strategy)
        self.assertEqual(pathlib.Path("/etc/p.yaml"), settings.policy_file)
        self.assertEqual("unix:/run/db.sock", settings.ovsdb_connection)
        self.assertEqual(("leaky-dma", 60), (settings.emulated_scenario, settings.emulated_seconds))
        self.assertEqual(self.folder / "elsewhere", settings.state_dir)

    def test_without_open_vswitch(self) -> None:
        """A stack with another network back end has no database to follow."""
        self.stack(services="n-cpu,n-api,q-linuxbridge")
        self.assertIsNone(conf.load([self.nova_conf]).ovsdb_connection)

    def test_ovn_has_open_vswitch(self) -> None:
        """OVN's hosts have one."""
        self.stack(services="n-cpu,ovn-controller")
        self.assertEqual("tcp:127.0.0.1:6640", conf.load([self.nova_conf]).ovsdb_connection)

    def test_a_host_with_rdt(self) -> None:
        """The hardware's interfaces are opened, and the agent is root's."""
        self.cpuinfo.write_text("flags\t\t: fpu cat_l3 cdp_l3\n")
        done = self.stack(IAT_NOVA_RESCTRL="/sys/fs/resctrl")
        self.assertIn(" metrics", done["stack install"][0])
        self.assertNotIn("sim", done["stack install"][0])
        settings = conf.load([self.nova_conf])
        self.assertEqual(("auto", "observe"), (settings.hardware, settings.mode))
        waited, *opened, folder, written = [
            call for call in done["stack post-config"] if "iniset" not in call
        ]
        self.assertEqual("async_wait configure_neutron_nova", waited)
        self.assertEqual(
            [
                "sudo modprobe msr",
                "mountpoint -q /sys/fs/resctrl",
                "sudo mount -t resctrl resctrl /sys/fs/resctrl",
            ],
            opened,
        )
        self.assertTrue(folder.startswith("sudo install -d "), folder)
        self.assertTrue(written.startswith(f"sudo {self.prefix}/iat-nova --config"), written)
        self.assertTrue(done["stack extra"][-1].endswith("|libvirt|root"))
        self.assertTrue(done["stack test-config"][0].startswith("test_with_retry sudo "))
        done = self.stack(("unstack",))
        self.assertEqual(
            [
                "stop_process iat-nova-agent",
                f"sudo {self.prefix}/iat-nova restore --config-file {self.folder}/nova-cpu.conf",
            ],
            done["unstack"],
        )
        self.stack(("clean",), status=1, RESTORED="1")
        self.assertTrue((self.folder / "data/iat-nova").is_dir())
        self.stack(("clean",))
        self.assertFalse((self.folder / "data/iat-nova").exists())

    def test_resctrl_that_is_mounted_stays(self) -> None:
        """Somebody else's mount, with its options, is not mounted over."""
        self.cpuinfo.write_text("flags\t\t: cat_l3\n")
        done = self.stack(MOUNTED="yes")
        self.assertFalse([call for call in done["stack post-config"] if "sudo mount" in call])

    def test_placement_is_told(self) -> None:
        """The real command writes provider.yaml with what was configured just before."""
        self.prefix = BIN
        policy = self.folder / "policy.yaml"
        policy.write_text("parameters: {ddio_ways_max: 4}\n")
        said = f"iat-nova: {self.written} is written; restart nova-compute to use it\n"
        self.stack(IAT_NOVA_POLICY_FILE=policy, said=said)
        (provider,) = yaml.safe_load(self.written.read_text())["providers"]
        (inventory,) = provider["inventories"]["additional"]
        # 11 ways less 4 of DDIO, 1 of the stack and 1 of the pool.
        self.assertEqual(5, inventory["CUSTOM_IAT_LLC_WAY"]["total"])
        self.assertEqual(["CUSTOM_IAT", "CUSTOM_IAT_DDIO"], provider["traits"]["additional"])

    def test_clean_of_a_compute_host_withdraws(self) -> None:
        """Placement is elsewhere, and guests may have ways: the file stays and offers nothing."""
        self.prefix = BIN
        self.stack(said=f"iat-nova: {self.written} is written; restart nova-compute to use it\n")
        self.stack(("clean",), said=None)
        offer = provider_config.offered(self.written)
        self.assertTrue(offer.withdrawn)
        self.assertGreater(offer.total, 0)
        self.stack(("clean",), services="n-cpu,placement-api")
        self.assertFalse(self.written.exists())
        self.stack(("clean",))
        self.assertFalse(self.written.exists())

    def test_placement_is_not_told(self) -> None:
        """Where that is not wanted."""
        done = self.stack(IAT_NOVA_PROVIDER_CONFIG="False")
        self.assertNotIn("provider", " ".join(done["stack post-config"]))

    def test_an_api_host_has_the_validators_only(self) -> None:
        """Where no agent runs, Nova gets the checks of iat:* and users the flavors."""
        done = self.stack(disabled="iat-nova-agent", services="n-api")
        self.assertEqual(1, len(done["stack install"]))
        self.assertEqual(["iat.pc", "iat.be"], [call.split()[5] for call in done["stack extra"]])
        self.assertEqual(([], []), (done["stack post-config"], done["stack test-config"]))
        self.assertNotIn("[iat]", self.nova_conf.read_text())

    def test_a_compute_host_makes_no_flavors(self) -> None:
        """Flavors are made once, and not at all when not wanted."""
        for settings in ({"services": "n-cpu,q-agt"}, {"IAT_NOVA_FLAVORS": "False"}):
            done = self.stack(**settings)
            self.assertFalse([call for call in done["stack extra"] if "openstack" in call])
            self.assertTrue([call for call in done["stack extra"] if "run_process" in call])

    def test_neither_service(self) -> None:
        """On a host with neither nothing at all is done."""
        done = self.stack(
            *STACK, ("unstack",), ("clean",), disabled="iat-nova-agent", services="g-api"
        )
        self.assertEqual(
            ["define_plugin iat-nova"], [call for one in done.values() for call in one]
        )

    def test_stacked_twice_is_the_same(self) -> None:
        """unstack.sh and stack.sh again give the same configuration."""
        self.stack()
        once = self.nova_conf.read_text()
        self.stack(("unstack",), *STACK)
        self.assertEqual(once, self.nova_conf.read_text())

    def test_unstack_stops_and_clean_removes(self) -> None:
        """The history survives unstack.sh and goes with clean.sh."""
        self.stack()
        done = self.stack(("unstack",))
        self.assertEqual(["stop_process iat-nova-agent"], done["unstack"])
        self.assertTrue((self.folder / "data/iat-nova").is_dir())
        self.stack(("clean",))
        self.assertFalse((self.folder / "data/iat-nova").exists())
        self.assertTrue((self.folder / "data").is_dir())

    def test_flavors_are_valid(self) -> None:
        """The flavors' extra specs are ones that the agent understands."""
        calls = [one for one in self.stack()["stack extra"] if one.startswith("openstack")]
        self.assertEqual(2, len(calls))
        for call in calls:
            if call.startswith("openstack --os-compute-api-version 2.86 flavor create"):
                specs = dict(re.findall(r"--property (\S+?)=(\S+)", call))
                self.assertLessEqual({"iat:priority", "iat:io"}, set(specs))
                pinned = specs.get("hw:cpu_policy") == "dedicated"
                self.assertEqual(specs["iat:priority"] == "PC", pinned)
                self.assertFalse(extra_specs.parse(specs).problems)

    def test_bashate(self) -> None:
        """OpenStack's style checker has nothing to say."""
        done = subprocess.run(
            [BIN / "bashate", DEVSTACK / "plugin.sh"], capture_output=True, text=True, check=False
        )
        self.assertEqual((0, ""), (done.returncode, done.stdout))
