# SPDX-License-Identifier: Apache-2.0
"""Messages made of what others raise."""

import unittest

from iat_nova.model.message import as_message, message, verbatim


class Raised(Exception):
    """An error of a plug-in, with an attribute of its own."""

    message = frozenset({1})


class AsMessage(unittest.TestCase):
    def test_an_attribute_of_another_kind(self):
        """What is no message stays out of the history: the text of the error counts."""
        self.assertEqual(verbatim("no room"), as_message(Raised("no room")))

    def test_an_errors_own(self):
        """An error that carries a message is that message."""
        error = Raised()
        error.message = message("left")
        self.assertEqual(message("left"), as_message(error))
