# SPDX-License-Identifier: Apache-2.0
"""How long an audit takes with many hosts: ``python -m tests.openstack.watcher_scale HOSTS``.

Watcher, its database, its emulators of Nova and Placement are those of test_watcher. The model of
the cluster is made without Nova. A server that answers the strategy's queries stands in for
Prometheus. Each host has 20 guests in one cache
domain, half of them critical; on one host in a hundred two guests are short.
"""

from __future__ import annotations

import http.server
import json
import re
import sys
import threading
import time
import urllib.parse

from tests.openstack import test_watcher

GUESTS = 20
DEDICATED = {"hw:cpu_policy": "dedicated"}


def uuid(host: int, guest: int) -> str:
    """Return a guest's UUID."""
    return f"{host:08x}-1a7a-4000-8000-{guest:012x}"


def short(host: int) -> bool:
    """Return whether a host has short guests."""
    return host % 100 == 0


def value(name: str, host: int, guest: int) -> float:
    """Return the value of a metric of a guest: number 0 and 1 are critical, 19 fills the most."""
    if name == "tenant_llc_ratio":
        return 0.3 if guest == GUESTS - 1 else 0.03
    if name == "tenant_stalled_ratio":
        return 0.4 if short(host) and guest < 2 else 0.02
    return 0.15 if short(host) and guest < 2 else 0.01


def samples(promql: str, hosts: int):
    """Yield labels and value of each sample that answers a query."""
    name = re.search(r"iat_nova_(\w+)", promql)[1]
    for host in range(hosts):
        labels = {"fqdn": f"compute-{host}", "domain": "0"}
        if name.startswith("tenant_"):
            for guest in range(GUESTS):
                critical = "PC" if guest < GUESTS / 2 else "BE"
                more = {"tenant": uuid(host, guest), "priority": critical, "io": "false"}
                yield labels | more, value(name, host, guest)
        elif name == "newcomer_ways":
            yield labels | {"priority": "PC"}, 1.5 if short(host) else 4.0
            yield labels | {"priority": "BE"}, 0.5 if short(host) else 2.0
        else:
            yield labels, {"llc_ways": 11.0, "last_iteration_time_seconds": 0.5}.get(name, 1.0)


def server(hosts: int) -> http.server.ThreadingHTTPServer:
    """Start what stands in for Prometheus; return it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urllib.parse.urlsplit(self.path)
            data: dict[str, object] = {"activeTargets": [{"labels": {"fqdn": "compute-0"}}]}
            if url.path.endswith("/query"):
                (promql,) = urllib.parse.parse_qs(url.query)["query"]
                result = [
                    {"metric": labels, "value": [0, str(number)]}
                    for labels, number in samples(promql, hosts)
                ]
                data = {"resultType": "vector", "result": result}
            body = json.dumps({"status": "success", "data": data}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    return made


def main() -> None:
    """Print the seconds of two audits that make a plan, and of one that has nothing to do."""
    hosts = int(sys.argv[1])
    guests = [
        {
            "uuid": uuid(host, guest),
            "name": f"guest-{host}-{guest}",
            "host": f"compute-{host}",
            "vcpus": 1,
            "memory": 1024,
            "disk": 1,
            "project_id": test_watcher.PROJECT,
            "extra_specs": DEDICATED,
        }
        for host in range(hosts)
        for guest in range(GUESTS)
    ]
    prometheus = server(hosts)
    parameters = {"max_migrations": 100, "threshold": 0.1}
    audits = [
        {"parameters": parameters},
        {"parameters": parameters},
        {"parameters": {**parameters, "threshold": 0.5}},
    ]
    began_s = time.monotonic()
    address = ("127.0.0.1", prometheus.server_address[1])
    nodes = [f"compute-{host}" for host in range(hosts)]
    answer = test_watcher.run(address, audits, nodes, guests, pcpus=24, direct=True)
    for audit in answer["audits"]:
        moves = sum(one["type"] == "migrate" for one in audit.get("actions", ()))
        print(
            f"{hosts} hosts, {len(guests)} guests: {audit['state']}, {moves} migrations, "
            f"{audit['took']['s']:.1f} s, CPU time {audit['took']['cpu_s']:.1f} s"
        )
    print(f"all: {time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    main()
