# SPDX-License-Identifier: Apache-2.0
"""The file of a policy: read here, and rendered in a child process under limits.

Jinja2's sandbox limits access, not effort: nested ranges, strings that double, ``center``,
``lipsum`` and ``batch`` can take all time and memory. Limits on memory or CPU time apply to a whole
process. The child (`policy_child`) is a new interpreter (``subprocess``), because ``fork`` would
leave the agent's threads in an undefined state. The child sets the limits itself and gives up all
capabilities. It takes some 0.1 s of CPU time. A file without a template needs no child.
"""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iat_nova import policy
from iat_nova.common.readers import POLICY
from iat_nova.model import HostFacts, message
from iat_nova.policy.problems import PolicyError, Problem
from iat_nova.policy.rendered import MAX_CHARACTERS, Rendered, unchanged

MARKUP = ("{{", "{%", "{#")
"""The beginnings of a template's parts; a text without any of these is rendered unchanged."""

CHILD = "iat_nova.agent.policy_child"
CPU_S = 10  # for rendering alone; a policy takes some 0.02 s
WALL_S = 120.0  # for a child that gets no CPU, or stops responding


def load(path: str | Path | None, host: HostFacts) -> policy.Policy:
    """Load a policy file, or the default policy when `path` is None. Raises `PolicyError`."""
    if path is None:
        return policy.default(host)
    return policy.parse(read(path), host, str(path), render_limited)


def again(last: policy.Policy, host: HostFacts) -> policy.Policy:
    """Render and compile a policy's text again for changed host facts. Raises `PolicyError`."""
    return policy.parse(last.text, host, last.source, render_limited)


def read(path: str | Path) -> str:
    """Return the text of a policy's file. Raises `PolicyError`."""
    try:
        return POLICY.read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        said = message("file-not-utf8", error=str(error))
        raise PolicyError.of(said, source=str(path)) from error
    except (OSError, ValueError) as error:  # also an impossible path
        reason = error.strerror if isinstance(error, OSError) else None
        said = message("file-unreadable", error=reason or str(error))
        raise PolicyError.of(said, source=str(path)) from error


def render_limited(source: str, host: HostFacts, cpu_s: int = CPU_S) -> Rendered:
    """Render a policy as `render` does, with limits of time and memory. Raises `PolicyError`."""
    if len(source) <= MAX_CHARACTERS and not any(begin in source for begin in MARKUP):
        return unchanged(source)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", CHILD, str(cpu_s)],
            input=pickle.dumps((source, host)),
            capture_output=True,
            timeout=WALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PolicyError.of(message("rendering-too-slow", most_s=WALL_S)) from None
    except OSError as error:
        text = error.strerror or str(error)
        raise PolicyError.of(message("rendering-failed", error=text)) from error
    if done.returncode or not done.stdout.endswith(b"\n"):
        raise _ended(done, cpu_s)
    plain = json.loads(done.stdout)
    if "problems" in plain:
        raise PolicyError(map(_problem, plain["problems"]))
    return Rendered(plain["text"], tuple(plain["lines"]), tuple(plain["asked"]))


def _ended(done: subprocess.CompletedProcess[bytes], cpu_s: int) -> PolicyError:
    """Return why a child ended before it had rendered."""
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return PolicyError.of(message("rendering-too-dear", most_s=cpu_s))
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return PolicyError.of(
        message("rendering-ended", status=done.returncode, said=last or "no message")
    )


def _problem(plain: Sequence[Any]) -> Problem:
    """Return a problem from the child's answer; values are numbers, texts and lists of texts."""
    path, line, code, values = plain
    return Problem(
        path,
        line,
        message(code, **{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}),
    )
