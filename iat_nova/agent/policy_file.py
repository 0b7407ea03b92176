# SPDX-License-Identifier: Apache-2.0
"""The file of a policy: read here, and rendered in a child process under limits.

Jinja2's sandbox limits access, not effort: nested ranges, strings that double, ``center``,
``lipsum`` and ``batch`` can take all time and memory. Limits on memory or CPU time apply to a whole
process. The child is a new interpreter (``subprocess``), because ``fork`` would leave the agent's
threads in an undefined state. The child sets the limits itself and gives up all capabilities. Its
start takes some 0.3 s of CPU time, once per policy file. A file without a template needs no child.
"""

from __future__ import annotations

import json
import math
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iat_nova.common.readers import POLICY, FileKind
from iat_nova.hardware.kernel.capabilities import give_up
from iat_nova.model import HostFacts, message
from iat_nova.policy import Policy, default, parse
from iat_nova.policy.problems import PolicyError, Problem
from iat_nova.policy.rendered import Rendered

MARKUP = ("{{", "{%", "{#")
"""The beginnings of a template's parts; a text without any of these is rendered unchanged."""

CPU_S = 10  # for rendering alone; a policy takes some 0.02 s
MEMORY_BYTES = 512 << 20
WALL_S = 120.0  # for a child that gets no CPU, or stops responding


def load(path: str | Path | None, host: HostFacts) -> Policy:
    """Load a policy file, or the default policy when `path` is None. Raises `PolicyError`."""
    if path is None:
        return default(host)
    return parse(read(path), host, str(path), render_limited)


def again(policy: Policy, host: HostFacts) -> Policy:
    """Render and compile a policy's text again for changed host facts. Raises `PolicyError`."""
    return parse(policy.text, host, policy.source, render_limited)


def read(path: str | Path, kind: FileKind = POLICY) -> str:
    """Return the text of a policy's file, or of a file of its tests. Raises `PolicyError`."""
    try:
        return kind.read(path).decode("utf-8-sig")
    except (OSError, ValueError) as error:  # also invalid UTF-8, or an impossible path
        reason = error.strerror if isinstance(error, OSError) else None
        said = message("file-unreadable", error=reason or str(error))
        raise PolicyError.of(said, source=str(path)) from error


def render_limited(source: str, host: HostFacts, cpu_s: int = CPU_S) -> Rendered:
    """Render a policy as `render` does, with limits of time and memory. Raises `PolicyError`."""
    if not any(begin in source for begin in MARKUP):
        from iat_nova.policy.render import render  # noqa: PLC0415 - slow to load: Jinja2

        return render(source, host)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__, str(cpu_s)],
            input=pickle.dumps((source, host)),
            capture_output=True,
            timeout=WALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PolicyError.of(message("rendering-too-slow", most_s=WALL_S)) from None
    except OSError as error:
        raise PolicyError.of(
            message("rendering-failed", error=error.strerror or str(error))
        ) from error
    return _result(done, cpu_s)


def _result(done: subprocess.CompletedProcess[bytes], cpu_s: int) -> Rendered:
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise PolicyError.of(message("rendering-too-dear", most_s=cpu_s))
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise PolicyError.of(
            message("rendering-ended", status=done.returncode, said=last or "no message")
        )
    answer = json.loads(done.stdout)
    if "problems" in answer:
        raise PolicyError(map(_problem, answer["problems"]))
    return Rendered(answer["text"], tuple(answer["lines"]), tuple(answer["asked"]))


def _problem(plain: Sequence[Any]) -> Problem:
    """Return a problem from the child's answer; values are numbers, texts and lists of texts."""
    path, line, code, values = plain
    return Problem(
        path,
        line,
        message(code, **{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}),
    )


def _plain(problem: Problem) -> tuple[object, ...]:
    said = problem.message
    return problem.path, problem.line, said.code, dict(said.values)


def main(cpu_s: int) -> None:
    """Run as the child: read source and host from standard input, write the result to output."""
    from iat_nova.policy.render import render  # noqa: PLC0415 - slow to load: before the limits

    give_up()
    source, host = pickle.load(sys.stdin.buffer)  # from the parent process
    # A slow CPU may need seconds to get here: the time of the start does not count.
    last_s = math.ceil(time.process_time()) + cpu_s
    resource.setrlimit(resource.RLIMIT_CPU, (last_s, last_s + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answer: dict[str, object]
    try:
        rendered = render(source, host)
        answer = {"text": rendered.text, "lines": rendered.lines, "asked": rendered.asked}
    except PolicyError as error:
        answer = {"problems": list(map(_plain, error.problems))}
    except MemoryError:
        said = message("rendering-too-large", most_mib=MEMORY_BYTES >> 20)
        answer = {"problems": [_plain(Problem("", None, said))]}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]))
