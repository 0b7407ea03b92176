# SPDX-License-Identifier: Apache-2.0
"""What Debian's packages of this checkout bring to a clean Debian, and leave behind."""

import pathlib
import tempfile
import unittest

from tests.packages.debian_root import CLEAN, OLD_SUITE, SUITE, Root, missing, repack

COMPLETED = """
source /usr/share/bash-completion/completions/iat-nova
COMP_WORDS=(iat-nova policy "") COMP_CWORD=2
$(complete -p iat-nova | sed -E 's/.*-F ([^ ]+).*/\\1/')
echo "${COMPREPLY[@]}"
"""
ELSEWHERE = ("/proc", "/mnt", "/var/cache/man")
LEFT = (
    f"find / -xdev {' '.join(f'-path {place} -prune -o' for place in ELSEWHERE)} "
    "-name '*iat[-_]nova*' -print"
)
LOGGED = """
from iat_nova.cmd import logs
logs.setup([], False, "1")
logs.LOG.warning("careful")
"""
VALIDATED = """
from nova.api.validation.extra_specs import validators
validators.load_validators()
validators.validate("iat:priority", "PC")
try:
    validators.validate("iat:priority", "GOLD")
except Exception as error:
    print(error)
"""


class DebianCase(unittest.TestCase):
    """Packages of this checkout in a clean root, installed once for all tests of the class."""

    packages: tuple[str, ...] = ()
    root_of: tuple[str, ...] = CLEAN
    suite = SUITE

    @classmethod
    def setUpClass(cls):
        if why := missing():
            raise unittest.SkipTest(why)
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="iat-nova-root-"))
        cls.root = Root(pathlib.Path(folder), *cls.root_of, suite=cls.suite)
        cls.root.install(*cls.packages)
        cls.run_it = cls.root.run


class TestAgent(DebianCase):
    """A compute host's packages."""

    packages = ("iat-nova-agent",)

    def test_the_programs_work(self):
        """They start, and offer what is installed; there is no emulated server."""
        self.assertRegex(self.run_it("iat-nova", "--version"), r"^iat-nova \d")
        self.assertRegex(self.run_it("iat-nova-agent", "--version"), r"^iat-nova \d")
        self.assertNotIn("simulate", self.run_it("iat-nova", "--help"))
        self.assertIn("verdict", self.run_it("iat-nova", "doctor", status=1))
        self.assertIn("is valid", self.run_it("iat-nova", "policy", "check"))

    def test_manual_and_completion(self):
        """man finds the pages, bash and zsh what completes."""
        self.assertIn("Explain a decision", self.run_it("man", "iat-nova-explain"))
        self.assertIn("default: observe", self.run_it("man", "5", "iat-nova.conf"))
        self.assertNotIn("simulate", self.run_it("ls", "/usr/share/man/man1"))
        offered = self.run_it("bash", "-c", COMPLETED).split()
        self.assertEqual(["check", "diff", "facts", "schema", "show"], sorted(offered))
        found = "autoload -Uz compinit && compinit -u && print $_comps[iat-nova]"
        self.assertEqual("_iat-nova\n", self.run_it("zsh", "-c", found))

    def test_who_owns_what(self):
        """The state is the service's, everything else root's; the service is enabled."""
        owners = self.run_it(
            "stat", "-c", "%n %U:%G %a", "/var/lib/iat-nova", "/var/lib/iat-nova/holds",
            "/run/iat-nova", "/etc/iat-nova/iat-nova.conf",
        )  # fmt: skip
        self.assertEqual(
            "/var/lib/iat-nova iat-nova:iat-nova 750\n"
            "/var/lib/iat-nova/holds iat-nova:iat-nova 755\n/run/iat-nova iat-nova:iat-nova 755\n"
            "/etc/iat-nova/iat-nova.conf root:root 644\n",
            owners,
        )
        others = self.run_it("sh", "-c", f"{LEFT} | xargs -I@ find @ ! -user root")
        self.assertEqual(
            {"/var/lib/iat-nova", "/var/lib/iat-nova/holds", "/run/iat-nova"}, set(others.split())
        )
        self.assertEqual("enabled\n", self.run_it("systemctl", "is-enabled", "iat-nova-agent"))
        verified = self.run_it("systemd-analyze", "verify", "iat-nova-agent.service")
        self.assertNotIn("iat-nova-agent", verified)
        self.assertRegex(self.run_it("getent", "passwd", "iat-nova"), r":/usr/sbin/nologin$")
        self.assertRegex(self.run_it("getent", "group", "iat-nova"), r"^iat-nova:")

    def test_settings_of_others(self):
        """The package applies its own setting, and none that another program has changed since."""
        configured = ("/var/lib/dpkg/info/iat-nova-agent.postinst", "configure")
        self.assertRegex(self.root.settings_after(*configured), r"(^|\n)1\n2\n$")

    def test_log(self):
        """What the journal would get has no colors, whatever oslo.log the distribution has."""
        said = self.run_it("python3", "-c", LOGGED)
        self.assertRegex(said, r"^\S+ \S+ \d+ WARNING iat_nova \[-\] careful\n$")


class TestAgentOnDebian12(TestAgent):
    """The same where libraries and systemd are older."""

    suite = OLD_SUITE


class TestUpgrade(DebianCase):
    """From this version to a later one, whose configuration file as shipped is another."""

    packages = TestAgent.packages

    def test_what_is_the_operators_is_kept(self):
        """Changed settings, files of the operator's own and the state stay, beside the new file."""
        mode = "s/^#mode = .*/mode = enforce/"
        self.run_it("sed", "-i", mode, "/etc/iat-nova/iat-nova.conf")
        before = self.run_it("cat", "/etc/iat-nova/iat-nova.conf")
        self.assertIn("\nmode = enforce\n", before)
        own = "/etc/iat-nova/iat-nova.conf.d/own.conf"
        state = "/var/lib/iat-nova/history.sqlite"
        self.run_it("sh", "-ec", f"mkdir -p $(dirname {own}); echo '[iat]' >{own}; touch {state}")
        repack(self.root.folder / "share/iat-nova-agent.deb", "+1", "# A later line.\n")
        keep = ("-o", "Dpkg::Options::=--force-confold")
        self.run_it("apt-get", "install", "-qq", "-y", *keep, "/mnt/iat-nova-agent.deb")
        version = self.run_it("dpkg-query", "-W", "-f=${Version}", "iat-nova-agent")
        self.assertTrue(version.endswith("+1"), version)
        self.assertEqual(before, self.run_it("cat", "/etc/iat-nova/iat-nova.conf"))
        shipped = self.run_it("cat", "/etc/iat-nova/iat-nova.conf.dpkg-dist")
        self.assertIn("# A later line.\n", shipped)
        self.assertEqual("[iat]\n", self.run_it("cat", own))
        self.run_it("test", "-e", state)
        self.assertRegex(self.run_it("iat-nova", "--version"), r"^iat-nova \d")
        self.assertEqual("enabled\n", self.run_it("systemctl", "is-enabled", "iat-nova-agent"))


class TestUpgradeOnDebian12(TestUpgrade):
    """The same there."""

    suite = OLD_SUITE


class TestPurge(DebianCase):
    """What is left of a compute host's packages."""

    packages = TestAgent.packages

    def test_nothing_is_left(self):
        """State, settings and configuration go with purge; state and configuration alone stay."""
        self.run_it("touch", "/var/lib/iat-nova/history.sqlite")
        damaged = "/var/lib/iat-nova/snapshot.json"
        self.run_it("sh", "-c", f"echo '{{' >{damaged}")
        refused = self.run_it("apt-get", "purge", "-qq", "-y", *self.packages, status=100)
        self.assertRegex(refused, f"{damaged}(?s:.*)iat-nova-agent is not removed")
        self.run_it("iat-nova", "--version")
        self.run_it("rm", damaged)
        self.run_it("apt-get", "remove", "-qq", "-y", *self.packages)
        left = set(self.run_it("sh", "-c", LEFT).split())
        self.assertLessEqual({"/etc/iat-nova/iat-nova.conf", "/var/lib/iat-nova"}, left)
        self.assertFalse([name for name in left if name.startswith("/usr")], left)
        self.run_it("touch", damaged)  # of an agent in a container, say
        self.run_it("apt-get", "purge", "-qq", "-y", *self.packages, status=100)
        self.run_it("rm", damaged)
        self.run_it("apt-get", "purge", "-qq", "-y", *self.packages)
        self.assertEqual("", self.run_it("sh", "-c", LEFT))


class TestPurgeOnDebian12(TestPurge):
    """The same there."""

    suite = OLD_SUITE


class TestNova(DebianCase):
    """A controller: Debian's own Nova, and of ours what that loads."""

    packages = ("python3-iat-nova-plugin",)
    root_of = ("nova", "--include=python3-nova")

    def test_nova_checks_our_extra_specs(self):
        """It finds the validators; nothing of the agent is there."""
        self.assertIn("GOLD", self.run_it("python3", "-c", VALIDATED))
        self.run_it("python3", "-c", "import iat_nova_plugin.notifier")
        self.run_it("python3", "-c", "import iat_nova", status=1)
        self.run_it("sh", "-c", "command -v iat-nova", status=127)


class TestNovaOnDebian12(TestNova):
    """The same with an older Nova."""

    suite = OLD_SUITE


class TestSimulator(DebianCase):
    """The emulated server on a machine that has nothing else."""

    packages = (*TestAgent.packages, "python3-iat-nova-simulator")

    def test_a_guest_is_explained(self):
        """From a run on the emulated server, by the installed programs."""
        self.run_it(
            "iat-nova", "simulate", "run", "quickstart", "--seconds", "5", "--keep", "/tmp/run",
        )  # fmt: skip
        ended = ("iat-nova", "--state-dir", "/tmp/run", "explain", "web")
        self.assertIn("Why not more", self.run_it(*ended, status=3))  # no agent runs any more
        self.assertIn("simulate run", self.run_it("man", "iat-nova-simulate-run"))


class TestSimulatorOnDebian12(TestSimulator):
    """The same with older Python packages."""

    suite = OLD_SUITE
