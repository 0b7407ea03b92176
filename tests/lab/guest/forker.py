# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.lab.guest.forker CONFIG LOG``: an iat-nova-agent a line, its pid on stdout.

To import the agent takes seconds on the lab's slow processors; a fork of a process that has done so
is there at once. The parent starts no thread, so that the children are like any other.
"""

import os
import signal
import sys

from iat_nova.cmd import agent


def main(config, log):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are taken away at once
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
            os._exit(agent.main(["--config-file", config]))
        print(child, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
