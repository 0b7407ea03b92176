# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.lab.guest.forker``: starts what an operator types, without its start-up time.

To import the agent, and the strategy it asks for, takes ten seconds on the lab's slow CPUs;
a fork of a process that has done so is there at once. The parent starts no thread, so its children
are like any other process.
Each line on stdin is a JSON object, `do` and its arguments; each answer is a JSON value.
"""

import json
import os
import select
import signal
import sys

import iat_nova.agent.restoring
import iat_nova.cmd.restore  # noqa: F401 - both else imported when they are asked for
from iat_nova.cmd import agent
from iat_nova.cmd import main as program
from iat_nova.conf import load
from iat_nova.strategies import registry

DEADLINE_S = 120.0


def start(main, argv, log):
    """Run `main(argv)` in a process of its own, its output at the end of `log`; return its id."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os._exit(main(argv))
    return child


def wait(pid):
    """Return the exit status of a process, negative: its signal; one that stays is killed."""
    fd = os.pidfd_open(pid)
    if not select.select([fd], [], [], DEADLINE_S)[0]:
        os.kill(pid, signal.SIGKILL)
        print(f"process {pid} did not end in {DEADLINE_S:.0f} s", file=sys.stderr)
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


DO = {
    "agent": lambda config, log: start(agent.main, ["--config-file", config], log),
    "restore": lambda config, log: wait(
        start(program.main, ["restore", "--config-file", config], log)
    ),
    "wait": wait,
}


def main():
    registry.find(load([]).strategy)
    for line in sys.stdin:
        told = json.loads(line)
        print(json.dumps(DO[told.pop("do")](**told)), flush=True)


if __name__ == "__main__":
    main()
