# SPDX-License-Identifier: Apache-2.0
"""What is told of an agent whose state folder is on a full disk."""

import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

FULL = """
    import errno, os, pathlib, sqlite3, sys
    from iat_nova.store import heartbeat
    from iat_nova.store.writer import History
    from tests.unit import stories
    folder = pathlib.Path(sys.argv[1])
    lock = folder / "agent.lock"
    with heartbeat.only_agent(lock) as mine:
        history = History(
            folder / "history.sqlite", max_age_s=1e6, max_bytes=1 << 23, clock=stories.SetClock()
        )
        history.status(stories.status())
        assert history.flush(), history.problem
        try:
            (folder / "fill").write_bytes(b"x" * (64 << 20))
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
        for _ in range(500):
            stories.tell(history, clock=stories.SetClock(), be_name=os.urandom(2000).hex())
        assert not history.flush(1.0)
        assert "full" in history.problem, history.problem
        mine.iteration(1.0, history.problem)
        assert mine.problem is None, mine.problem
        print(heartbeat.look(lock).state, heartbeat.look(lock).text)
"""


class FullDiskTest(unittest.TestCase):
    """A file system without a free block, which the kernel gives to who may mount one."""

    def test_the_agent_is_seen_running(self) -> None:
        """Nothing can be recorded, and status still tells that it works and what is wrong."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        mount = f"mount -t tmpfs -o size=1m none {folder}"
        may = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount]
        if subprocess.run(may, check=False, capture_output=True).returncode:
            self.skipTest("this user may not mount a file system of its own")
        code = [sys.executable, "-c", textwrap.dedent(FULL), folder]
        done = subprocess.run(
            [*may[:-1], f'{mount} && exec "$@"', "sh", *code],
            cwd=pathlib.Path(__file__).parents[2],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stdout, "^running history .*: the disk is full")
