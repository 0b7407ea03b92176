# SPDX-License-Identifier: Apache-2.0
"""The rights of the service, tested in a child process with the service's user and capabilities.

The rights of root, or of another user, do not show the rights of the service. The unit's sandbox
(mount namespace, device and system call filters) is not reproduced.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from iat_nova.hardware.kernel.capabilities import NUMBERS, become, held
from iat_nova.model import Message, message
from iat_nova.model.message import MessageError

UNITS = ("iat-nova-agent.service", "devstack@iat-nova-agent.service")
"""The shipped unit, and DevStack's unit, which runs as root."""
_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Service:
    """The account of a systemd unit, without capabilities that `NUMBERS` does not list.

    `absent`: the unit's user if this user does not exist yet and `user` stands in; else None.
    """

    user: str
    capabilities: frozenset[str]
    absent: str | None = None

    def described(self) -> Message:
        """Return the message with user and capabilities."""
        account = message("account-bare", user=self.user)
        if names := tuple(sorted(self.capabilities)):
            account = message("account-capable", user=self.user, capabilities=names)
        if self.absent is None:
            return account
        return message("account-stands-in", account=account, absent=self.absent)

    def existing(self) -> Service:
        """Return the service itself, or a service of user nobody if its user does not exist."""
        try:
            pwd.getpwnam(self.user)
        except KeyError:
            return Service("nobody", self.capabilities, self.user)
        return self


SHIPPED = Service("iat-nova", frozenset({"CAP_DAC_OVERRIDE", "CAP_PERFMON", "CAP_SYS_RAWIO"}))


class NotPossible(MessageError):
    """This process cannot become the agent's user with the agent's capabilities."""


def service(run: Callable[..., Any] = subprocess.run) -> Service:
    """Return user and capabilities of the installed unit, with drop-ins, or else of the shipped."""
    for unit in UNITS:
        command = ["systemctl", "show", "-p", "LoadState,User,AmbientCapabilities", unit]
        try:
            said = run(command, capture_output=True, text=True, timeout=10, check=False).stdout
        except (FileNotFoundError, PermissionError, subprocess.SubprocessError):
            return SHIPPED
        shown = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
        if shown.get("LoadState") == "loaded":
            user = shown.get("User") or "root"
            named = frozenset(shown.get("AmbientCapabilities", "").upper().split())
            return Service(user, frozenset(NUMBERS) if user == "root" else named & NUMBERS.keys())
    return SHIPPED


def run_as(who: Service, what: Callable[[], Any]) -> Any:
    """Run a function with the service's rights; return the function's result (plain JSON values).

    The function runs in a child process. Raises `NotPossible` if the rights cannot be assumed or do
    not suffice to read a file, such as the program. Raises `RuntimeError` if the function fails.
    """
    user = _user(who)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _in_child(user, who, what, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    outcome, value = json.loads(said) if said else ("failed", "it ended early")
    if outcome == "denied":
        raise NotPossible(message("files-denied", files=(value,)), message("list-file", path=value))
    if outcome == "failed":
        raise RuntimeError(value)
    return value


def _user(who: Service) -> pwd.struct_passwd:
    if os.geteuid() != 0:
        raise NotPossible(message("not-root"), message("ask-as-root"))
    if missing := who.capabilities - held("CapPrm"):
        raise NotPossible(message("capabilities-lacking", capabilities=tuple(sorted(missing))))
    return pwd.getpwnam(who.user)


def _in_child(user: pwd.struct_passwd, who: Service, what: Callable[[], Any], writing: int) -> None:
    """Assume the service's rights, call the function, write the result; never returns."""
    try:
        become(user, who.capabilities)
        program = (__file__, sys.prefix, sys.base_prefix)  # a failed import hides the reason
        denied = [one for one in program if not os.access(one, os.R_OK, effective_ids=True)]
        said = json.dumps(["denied", denied[0]] if denied else ["done", what()])
    except Exception as error:  # noqa: BLE001 - the boundary of a process: the parent raises it
        if isinstance(error, PermissionError) and error.filename is not None:
            said = json.dumps(["denied", error.filename])
        else:
            said = json.dumps(["failed", f"{type(error).__name__}: {error}"])
            _LOG.debug("in the process with the service's rights", exc_info=True)
    with os.fdopen(writing, "w") as pipe:
        pipe.write(said)
    sys.stderr.flush()
    os._exit(0)
