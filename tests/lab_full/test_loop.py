# SPDX-License-Identifier: Apache-2.0
"""The loop closed where the lab's own suite has no time for it."""

from tests.lab import test_loop


class Loop(test_loop.Closed):
    """One socket."""

    def test_slicing_on_one_socket(self):
        """Figure 7 B."""
        self.check("figure7-b", sockets=1)
