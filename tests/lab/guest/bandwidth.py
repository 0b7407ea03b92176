# SPDX-License-Identifier: Apache-2.0
"""The agent limits a stream's memory bandwidth on an EPYC beside limits of others, and ends."""

import subprocess

from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from tests.lab.guest import loop
from tests.lab.guest.host import BIN, REGISTERS
from tests.proofs import proves

OTHERS = "MB:0=2047;1=333"  # of the default group: no multiples of anything


def words():
    """Return what limits memory bandwidth in each L3 cache: class 0's, and the stream's."""
    stream = REGISTERS.pqr_assoc(4)[0]
    return [(REGISTERS.mba(0, cache), REGISTERS.mba(stream, cache)) for cache in range(2)]


@proves("memory bandwidth")
class Ended(loop.Loop):
    """By SIGTERM."""

    def setUp(self):
        super().setUp()
        before = ResctrlFs().read("schemata")
        self.addCleanup(ResctrlFs().write, "schemata", before)
        ResctrlFs().write("schemata", f"{OTHERS}\n")

    def end(self, agent, config):
        """The stream is limited until then, and the limits of others are as they were after it."""
        self.assertEqual([(2047, 130), (333, 333)], words())
        super().end(agent, config)
        self.assertEqual([(2047, 2047), (333, 333)], words())


@proves("restored after kill -9")
class Killed(Ended):
    """By SIGKILL."""

    def end(self, agent, config):
        """The limit lies there until somebody restores."""
        agent.kill()
        agent.communicate(timeout=60)
        self.assertEqual([(2047, 130), (333, 333)], words())
        subprocess.run([BIN / "iat-nova", "restore", "--config-file", config], check=True)
        self.assertEqual([(2047, 2047), (333, 333)], words())
