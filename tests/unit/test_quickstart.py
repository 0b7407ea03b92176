# SPDX-License-Identifier: Apache-2.0
"""./quickstart test: which suites run, and when they have failed."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
FILES = (
    "quickstart", "setup.cfg", "pyproject.toml", "requirements.txt",
    "test-requirements.txt", "doc/requirements.txt", "etc/iat-nova/constraints.txt",
)  # fmt: skip
# Each of its commands fails so many times, by a lock of another program or by something else.
APT_GET = """#!/bin/sh
echo "$*" >>asked-of-apt
[ "$(grep -c -- "$2" asked-of-apt)" -gt "$(cat times)" ] && exit
cat reason >&2
exit 100
"""
SUITES = ("unit", "functional", "openstack", "nova", "lab")
# stestr's own last lines, of as many tests as the suite's folder says: passed, failed, skipped.
STESTR = """#!/bin/bash
suite=${TEST_PATH##*/}
echo "ran $suite CI=${CI-unset} $*"
[ "$1" = --repo-url ] && [ -d "$2" ] || { echo "FileNotFoundError: $2"; exit 1; }
read -r passed failed skipped <"$TEST_PATH/counts"
[ "$skipped" = 0 ] || echo "{0} tests.$suite.T.test_a ... SKIPPED: no $suite here"
printf ' - Passed: %d\\n - Skipped: %d\\n - Failed: %d\\n' "$passed" "$skipped" "$failed"
[ "$failed" = 0 ]
"""
PROGRAMS = {
    "bin/dpkg-query": "#!/bin/sh\necho install ok installed\n",
    ".venv/bin/python": '#!/bin/sh\necho "$*" >>asked-of-python\n',
    ".venv/bin/stestr": STESTR,
    ".venv/bin/sphinx-build": '#!/bin/sh\necho "sphinx $*"\n',
    "tools/rdt-lab/rdt-lab": "#!/bin/sh\necho /bin/sh\n",  # an emulator that is there
}


class QuickstartTestTest(unittest.TestCase):
    """The script itself, in a folder of its own; packages, pip and stestr are stand-ins."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in FILES:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.folder / name)
        (self.folder / "bindep.txt").write_text("git\n")
        for name, text in PROGRAMS.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        for suite in SUITES:
            self.counts(suite, 2, 0, 1)
            (self.folder / "tests" / suite / "test_a.py").touch()

    def counts(self, suite, *counts):
        """Let a suite's tests pass, fail and be skipped, so many each."""
        folder = self.folder / "tests" / suite
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "counts").write_text(" ".join(map(str, counts)) + "\n")

    def quickstart(self, *suites):
        """Run ``./quickstart test``; return its status, its lines, and what ran."""
        status, lines = self.run_script("test", *suites)
        return status, lines, [one.split() for one in lines if one.startswith("ran ")]

    def run_script(self, *words):
        """Run the script; return its status and its lines."""
        environment = {k: v for k, v in os.environ.items() if k != "CI"}
        done = subprocess.run(
            ["./quickstart", *words],
            cwd=self.folder,
            env=environment | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.splitlines()

    def test_which_suites(self):
        """Without names the two that need nothing else; all; the named ones."""
        for words, suites in (
            ((), ["functional", "unit"]),
            (("all",), ["functional", "unit", "openstack", "nova", "lab"]),
            (("lab", "unit"), ["lab", "unit"]),
        ):
            with self.subTest(words):
                status, lines, ran = self.quickstart(*words)
                self.assertEqual(suites, [suite for _, suite, *_ in ran], lines)
                total = f"{2 * len(suites)} passed, 0 failed, {len(suites)} skipped"
                self.assertEqual((0, total), (status, lines[-1]))

    def test_named_suites_fetch_what_they_need(self):
        """Their tests ask $CI whether they may."""
        _, _, ran = self.quickstart("openstack")
        self.assertEqual("CI=true", ran[0][2])

    def test_a_suite_that_did_not_run_has_failed(self):
        """Where every test is skipped: with the reasons, and the suite's name."""
        self.counts("nova", 0, 0, 3)
        status, lines, _ = self.quickstart("openstack", "nova")
        self.assertEqual((1, "2 passed, 0 failed, 4 skipped"), (status, lines[-1]))
        said = "\n".join(lines)
        self.assertIn("no test of tests/nova passed", said)
        self.assertIn("no nova here", said)
        self.assertNotIn("no test of tests/openstack passed", said)

    def test_failures(self):
        """One of a suite that runs beside another counts as any other."""
        for suite in ("unit", "functional"):
            with self.subTest(suite):
                self.counts(suite, 2, 1, 0)
                status, lines, _ = self.quickstart()
                self.assertEqual((1, "4 passed, 1 failed, 1 skipped"), (status, lines[-1]))
                self.counts(suite, 2, 0, 1)

    def test_nothing_is_installed_twice(self):
        """The tests add their own requirements to what the demonstration has installed."""
        package, more = ("-e", ".[sim,metrics]"), ("-r", "test-requirements.txt")
        for words, installed in (
            (("install",), package),
            (("install",), None),
            (("test", "unit"), more),
            (("test", "unit"), None),
        ):
            self.assertEqual(0, self.run_script(*words)[0])
            asked = self.folder / "asked-of-python"
            asked.touch()
            pip = [one.split() for one in asked.read_text().splitlines() if " pip " in one]
            asked.unlink()
            self.assertEqual([list(installed)] if installed else [], [one[-2:] for one in pip])
        (self.folder / ".venv/.installed-demo").unlink()
        (self.folder / ".venv/.installed-test").unlink()
        self.quickstart("unit")
        pip = next(one for one in asked.read_text().splitlines() if " pip " in one)
        self.assertEqual([*package, *more], pip.split()[-4:])

    def install_packages(self, times, reason):
        """Let apt-get fail so often, for a reason; return status, lines and its commands."""
        programs = {"dpkg-query": "#!/bin/sh\n", "apt-get": APT_GET, "sleep": "#!/bin/sh\n",
                    "sudo": '#!/bin/sh\nexec "$@"\n'}  # fmt: skip
        for name, text in programs.items():
            (self.folder / "bin" / name).write_text(text)
            (self.folder / "bin" / name).chmod(0o755)
        (self.folder / "times").write_text(str(times))
        (self.folder / "reason").write_text(reason)
        status, lines = self.run_script("install")
        asked = self.folder / "asked-of-apt"
        words = [one.split()[1] for one in asked.read_text().splitlines()]
        asked.unlink()
        return status, lines, words

    def test_packages_wait_for_other_programs(self):
        """For any lock of apt-get, with a word; not for ever, and for nothing else."""
        lock = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4 (apt-get)\n"
        other = "E: Unable to locate package git\n"
        for times, reason, asked, waits, failed in (
            (0, lock, ["update", "install"], 0, False),
            (2, lock, ["update"] * 3 + ["install"] * 3, 2, False),
            (61, lock, ["update"] * 61, 1, True),
            (1, other, ["update"], 0, True),
        ):
            with self.subTest(times=times, reason=reason):
                status, lines, words = self.install_packages(times, reason)
                self.assertEqual((int(failed), asked), (status, words), lines)
                self.assertEqual(waits, sum("waiting for another program" in one for one in lines))
                self.assertEqual(failed, "quickstart: apt-get failed" in lines)
                self.assertEqual(failed, reason.strip() in lines)

    def test_docs(self):
        """The pages are built with their own requirements; a warning fails the build."""
        status, lines = self.run_script("docs")
        self.assertEqual(0, status, lines)
        asked = (self.folder / "asked-of-python").read_text()
        self.assertIn("-r doc/requirements.txt", asked)
        self.assertIn("-W", (self.folder / "quickstart-run/docs.log").read_text().split())
        self.assertIn("doc/build/html", lines[-1])

    def test_unknown_suite(self):
        """It is named, with those there are, and nothing runs."""
        status, lines, ran = self.quickstart("unit", "unti")
        self.assertEqual((2, []), (status, ran))
        self.assertIn("no tests in tests/unti; suites: all functional lab", lines[0])
