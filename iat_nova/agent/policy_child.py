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
    """Run as the child: read source and hosts from standard input, write a line for each host.

    A host whose rendering takes all memory ends the child. Only the first host of a child then gets
    a line, with the error. A later host gets none, as earlier hosts may have taken the memory; the
    next child begins with that host.
    """
    give_up()
    source, hosts = pickle.load(sys.stdin.buffer)  # from the parent process
    most_s = math.ceil(time.process_time()) + len(hosts) * (cpu_s + 1) + 1
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number, host in enumerate(hosts):
        # A slow CPU may need seconds to get here: the time of the start does not count.
        last_s = math.ceil(time.process_time()) + cpu_s
        resource.setrlimit(resource.RLIMIT_CPU, (last_s, most_s))
        try:
            answer = _answer(source, host)
        except MemoryError:
            if not number:
                said = message("rendering-too-large", most_mib=MEMORY_BYTES >> 20)
                print(json.dumps({"problems": [_plain(Problem("", None, said))]}))
            return
        print(json.dumps(answer), flush=True)


def _answer(source: str, host: HostFacts) -> dict[str, object]:
    try:
        rendered = render(source, host)
    except PolicyError as error:
        return {"problems": list(map(_plain, error.problems))}
    return {"text": rendered.text, "lines": rendered.lines, "asked": rendered.asked}


if __name__ == "__main__":
    main(int(sys.argv[1]))
