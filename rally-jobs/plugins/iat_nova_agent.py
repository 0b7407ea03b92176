# SPDX-License-Identifier: Apache-2.0
"""Asks the agent of a compute host what it knows of a guest."""

import dataclasses
import json
import shlex
import subprocess
import time

from rally import exceptions

COMMAND = "iat-nova tenants --long -f json"
COMMAND_TIMEOUT_S = 30.0


@dataclasses.dataclass(frozen=True)
class Row:
    """What the agent says of a guest; `ways` None: it has not been given any yet."""

    priority: str
    ways: int | None
    pooled: bool  # it floats, and shares the pool's ways


class Agents:
    """The agents of all compute hosts, asked by one command.

    `command` prints ``iat-nova tenants --long -f json``; ``{host}`` in it becomes the compute
    host's name, as in ``ssh {host} iat-nova tenants --long -f json``. It is run without a shell.
    """

    def __init__(self, command=COMMAND, poll_s=0.2, timeout_s=60.0):
        self.command = command
        self.poll_s = poll_s
        self.timeout_s = timeout_s
        self.trouble = ""

    @property
    def names_host(self):
        """Whether the command wants to know where a guest is, which only admins may see."""
        return "{host}" in self.command

    def tenants(self, host=""):
        """Return the agent's tenants, None when it did not answer; why is then in `trouble`."""
        words = [word.replace("{host}", host) for word in shlex.split(self.command)]
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )
            # 3 tells of an agent that does not run: what it knew is not true any more
            if done.returncode == 0:
                return json.loads(done.stdout)
            self.trouble = f"exit status {done.returncode}: {done.stderr.strip()}"
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            self.trouble = str(error)
        return None

    def wait(self, what, server, condition, host=""):
        """Look until `condition` holds of the guest's `Row` and return that.

        A guest that the agent does not know is None. While the agent does not answer nothing
        holds. Raises `RallyException` when it takes too long.
        """
        deadline = time.monotonic() + self.timeout_s
        while True:
            tenants = self.tenants(host)
            row = None if tenants is None else _row(tenants, server.id, server.name)
            if tenants is not None and condition(row):
                return row
            if time.monotonic() > deadline:
                said = f"says {row}" if tenants is not None else f"did not answer: {self.trouble}"
                raise exceptions.RallyException(
                    f"server {server.id} ({server.name}) was not {what} within "
                    f"{self.timeout_s:.0f} s; the agent {said} (asked by `{self.command}`)"
                )
            time.sleep(self.poll_s)


def _row(tenants, server_id, server_name):
    """Find a guest; on several cache domains it has ways when it has them on all."""
    own = [row for row in tenants if row["uuid"] == server_id]
    pool = [row for row in tenants if server_name in (row.get("members") or ())]
    found = own or pool
    if not found:
        return None
    ways = [row["ways"] for row in found]
    least = None if None in ways else min(ways)
    return Row(found[0]["priority"], least, not own)
