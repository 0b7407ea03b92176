# SPDX-License-Identifier: Apache-2.0
"""The process in which a policy is rendered under limits; see `policy_file`.

It loads only Jinja2 and what a template reads, as a command that checks a policy waits for it.
"""

from __future__ import annotations

import json
import math
import pickle
import resource
import sys
import time

from iat_nova.hardware.kernel.capabilities import give_up
from iat_nova.model import message
from iat_nova.policy.problems import PolicyError, Problem
from iat_nova.policy.render import render

MEMORY_BYTES = 512 << 20


def _plain(problem: Problem) -> tuple[object, ...]:
    said = problem.message
    return problem.path, problem.line, said.code, dict(said.values)


def main(cpu_s: int) -> None:
    """Run as the child: read source and host from standard input, write the result to output."""
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
