# SPDX-License-Identifier: Apache-2.0
"""The process in which a policy is rendered under limits; see `policy_file`.

The process loads only Jinja2 and the facts of templates, because commands that check a policy wait
for the result.
"""

from __future__ import annotations

import json
import math
import pickle
import resource
import sys
import time

from iat_nova.hardware.kernel.capabilities import give_up
from iat_nova.model import HostFacts, message
from iat_nova.policy.problems import PolicyError, Problem
from iat_nova.policy.render import render

MEMORY_BYTES = 512 << 20


def _plain(problem: Problem) -> tuple[object, ...]:
    said = problem.message
    return problem.path, problem.line, said.code, dict(said.values)


def main(cpu_s: int) -> None:
    """Run as the child: read source and host from standard input, write the result as a line."""
    give_up()
    source, host = pickle.load(sys.stdin.buffer)  # from the parent process
    # A slow CPU may need seconds to get here: the time of the start does not count.
    last_s = math.ceil(time.process_time()) + cpu_s
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (last_s, last_s + 2))
    try:
        answer = _answer(source, host)
    except MemoryError:
        said = message("rendering-too-large", most_mib=MEMORY_BYTES >> 20)
        answer = {"problems": [_plain(Problem("", None, said))]}
    print(json.dumps(answer))


def _answer(source: str, host: HostFacts) -> dict[str, object]:
    try:
        rendered = render(source, host)
    except PolicyError as error:
        return {"problems": list(map(_plain, error.problems))}
    return {"text": rendered.text, "lines": rendered.lines, "asked": rendered.asked}


if __name__ == "__main__":
    main(int(sys.argv[1]))
