# SPDX-License-Identifier: Apache-2.0
"""The contracts on imports refuse what they say: each of these is planted and found."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"

# What a module may not import, and why nobody should.
PLANTED = (
    ("inventory.libvirt", "iat_nova.hardware.host.probe"),  # readers do not know each other
    ("hardware.host.probe", "iat_nova.inventory.libvirt"),
    ("policy.classify", "iat_nova.hardware.api"),
    ("policy.compile", "time"),  # a policy means the same at any time
    ("policy.render", "subprocess"),
    ("strategies.layout.plan", "numpy"),  # pure: nothing to install on a host
    ("strategies.iat.controller", "oslo_log"),  # pure: what is told is in the decision
    ("experiments.rivals.a4.strategy", "random"),
    ("strategies.iat.fsm", "iat_nova.store.records"),
    ("model.facts", "os"),
    ("model.ways", "iat_nova.policy"),
    ("hardware.cat.resctrl", "iat_nova.hardware.enforcement.snapshot"),  # downwards only
    ("report.words", "iat_nova.agent.journal"),
    ("store.writer", "iat_nova.report.words"),
    ("agent.wiring", "iat_nova.experiments.server.server"),  # a host may do without
    ("cmd.main", "iat_nova.experiments.times.loop"),
    ("nova.validators", "yaml"),  # loaded by nova-api
    ("nova.spool", "iat_nova.model"),
    ("common.files", "iat_nova.model"),
)


class ContractsTest(unittest.TestCase):
    """One run over a copy of the sources in which everything is planted at once."""

    def setUp(self):
        """Copy what lint-imports reads."""
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        only_sources = shutil.ignore_patterns("__pycache__", "*.yaml", "*.j2")
        for name in ("iat_nova", "tools"):
            shutil.copytree(ROOT / name, self.folder / name, ignore=only_sources)
        shutil.copy(ROOT / "pyproject.toml", self.folder)

    def lint(self):
        """Run lint-imports; return its status and what it says."""
        done = subprocess.run(
            [sys.executable, "-P", "-c", LINT, "--no-cache"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def plant(self, importer, imported):
        """Have a module import another, out of everybody's way."""
        path = self.folder / "iat_nova" / f"{importer.replace('.', '/')}.py"
        path.write_text(f"{path.read_text()}\n\ndef planted():\n    import {imported}\n")

    def test_the_sources_as_they_are(self):
        """Nothing is refused, so what is refused below is what was planted."""
        status, said = self.lint()
        self.assertEqual(0, status, said)

    def test_each_that_is_planted_is_refused(self):
        """All are named, whatever else is wrong."""
        for importer, imported in PLANTED:
            self.plant(importer, imported)
        (self.folder / "iat_nova" / "astray.py").write_text("")
        status, said = self.lint()
        self.assertEqual(1, status)
        for importer, imported in PLANTED:
            with self.subTest(importer=importer, imported=imported):
                self.assertRegex(
                    said, rf"iat_nova\.{re.escape(importer)} -> {re.escape(imported)}\b"
                )
        self.assertIn("astray", said)  # a new module has to be given its place
