# SPDX-License-Identifier: Apache-2.0
"""A refusal's state and remedy are two values; nobody cuts them out of a text."""

import unittest

from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.cat.resctrl_fs import ResctrlError
from iat_nova.hardware.host import probe
from iat_nova.hardware.kernel.msr import MsrError
from iat_nova.model import verbatim
from iat_nova.report.sentences import text


class TestErrors(unittest.TestCase):
    """Errors of the hardware, and the findings they become."""

    def test_a_finding_has_the_values_of_its_error(self):
        """Any punctuation in the state or the remedy stays where it is."""
        state, remedy = verbatim("a; b: c"), verbatim("d; e")
        for error in (
            HardwareError(state, remedy),
            MsrError(state, 5, remedy),
            ResctrlError(state, 5, remedy),
        ):
            with self.subTest(error=error):
                found = probe.refusal("x", error)
                self.assertEqual((state, remedy), (found.state, found.remedy))
                self.assertEqual("a; b: c; d; e", text(error.message))

    def test_no_remedy(self):
        """A semicolon within the state does not make a remedy."""
        found = probe.refusal("x", HardwareError("undo failed: a; b"))
        self.assertEqual((verbatim("undo failed: a; b"), None), (found.state, found.remedy))
