# SPDX-License-Identifier: Apache-2.0
"""The codes: a closed list, each used and explained."""

import pathlib
import re
import unittest

import iat_nova
from iat_nova.model.reasons import Code, about
from tests.unit.pages import SOURCE

PACKAGE = pathlib.Path(iat_nova.__file__).parent
ROW = re.compile(r"^   \* - ``([a-z-]+)``\n     - ([a-z]+)\n     - \S", re.MULTILINE)


class CodesTest(unittest.TestCase):
    def test_every_code_has_its_meaning(self) -> None:
        """The operator's page lists all of them, each with its group, and nothing else."""
        page = (SOURCE / "operator/metrics.rst").read_text(encoding="utf-8")
        self.assertEqual([(code, about(code)) for code in Code], ROW.findall(page))

    def test_every_code_is_used(self) -> None:
        """A code that nothing gives would have rules wait for it in vain."""
        text = "".join(
            path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "reasons.py"
        )
        self.assertEqual({code.name for code in Code}, set(re.findall(r"\bCode\.([A-Z_]+)", text)))

    def test_codes_can_be_labels(self) -> None:
        """Small words with hyphens: nothing to quote in a rule, a shell or JSON."""
        for code in Code:
            self.assertRegex(code, r"^[a-z]+(-[a-z]+)*$")

    def test_kinds(self) -> None:
        """A code read from a record has its kind, and a code of a later version is degraded."""
        for code, kind in (
            ("cachetune", "observe"),
            ("writer-lock", "observe"),
            ("paused", "paused"),
            ("cpus-offline", "notice"),
            ("restore-waits", "notice"),
            ("config-unread", "drift"),
            ("policy-invalid", "drift"),
            ("classification-failed", "degraded"),
            ("tenants", "degraded"),
            ("of-a-later-version", "degraded"),
        ):
            with self.subTest(code):
                self.assertEqual(kind, about("".join(code)))
