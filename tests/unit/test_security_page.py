# SPDX-License-Identifier: Apache-2.0
"""What the security page promises of root and the service's account: each sentence has its test."""

import re
import unittest

from tests.unit import pages

LABEL = ".. _service-account:"
ATTACK = "tests.functional.test_service_account"
RESTORE = "tests.unit.enforcement.test_restore.Restrained"
PROVEN = {
    "Root acts as the owner": f"{ATTACK}.OneByOne.test_a_file_of_the_account_alone",
    "Nothing outside the folders": f"{ATTACK}.Commands.test_writing",
    "No symbolic link": "tests.unit.common.test_owned_folder.Paths.test_of_others",
    "A lock file that has a second name": f"{ATTACK}.OneByOne.test_a_hard_link_of_a_lock",
    "A pipe": f"{ATTACK}.OneByOne.test_a_pipe_for_the_history",
    "``status``": "tests.unit.common.test_owned_folder.AnotherAccount.test_for_good",
    "``reload``": f"{ATTACK}.Signals.test_a_forged_process_number",
    "A snapshot": "tests.unit.hardware.test_rootport.Wired.test_forged_registers",
    "Of these registers": "tests.unit.hardware.test_msr.CoreRegisters.test_forged_bits",
    "A root port": "tests.unit.hardware.test_rootport.Wired.test_a_forged_snapshot",
    "``report``": "tests.unit.common.test_owned_folder.Named.test_refused",
    "A lock file that is removed": f"{RESTORE}.test_another_writer",
}
"""The begin of a sentence, and the test that fails where the sentence is wrong."""


class SecurityPage(unittest.TestCase):
    def test_each_sentence(self):
        """Every promise begins as one of the table, and its test is there."""
        text = (pages.SOURCE / "operator/security.rst").read_text(encoding="utf-8")
        section = text.partition(LABEL)[2].partition("\nFiles that an operator names")[0]
        promises = re.findall(r"^\* (.+)$", section, re.MULTILINE)
        begun = [[one for one in PROVEN if text.startswith(one)] for text in promises]
        self.assertEqual([[one] for one in PROVEN], begun)
        for test in PROVEN.values():
            (case,) = unittest.defaultTestLoader.loadTestsFromName(test)
            self.assertEqual(test, case.id())
