# SPDX-License-Identifier: Apache-2.0
"""Hosts of emulated servers with real agents, each with libvirt's test driver; one Prometheus."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping

import libvirt
import yaml

from tests.functional.daemons import TestLibvirtd, short_folder
from tools import demo_host

BIN = pathlib.Path(sys.executable).parent
SCENARIOS = pathlib.Path(__file__).parent / "in_watcher"
DEADLINE_S = 120.0  # for a busy machine
INTERVAL_S = 1


def missing() -> str | None:
    """Return why no such host can be made here, or None."""
    if shutil.which("prometheus") is None:
        return "prometheus is not installed"
    return TestLibvirtd.missing()


def guests(scenario: str) -> list[demo_host.Guest]:
    """Return the guests of a scenario as libvirt shall have them."""
    plain = yaml.safe_load((SCENARIOS / f"{scenario}.yaml").read_text())
    return [
        demo_host.Guest(
            int(one["name"].removeprefix("instance-")),
            one["display_name"],
            "flavor",
            one["extra_specs"],
            tuple(one["cpus"]),
            "",
        )
        for one in plain["guests"]
    ]


def free_port() -> int:
    """Return a port that nobody uses at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextlib.contextmanager
def running(*command: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program for the time of the context."""
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def prometheus(ports: Mapping[str, int], label: str = "fqdn") -> Iterator[tuple[str, int]]:
    """Run a Prometheus that scrapes agents at ports of this machine, by host; yield its address.

    `label`: holds the name of the host.
    """
    targets = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {label: host}} for host, port in ports.items()
    ]
    config = {
        "global": {"scrape_interval": f"{INTERVAL_S}s"},
        "scrape_configs": [{"job_name": "iat-nova", "static_configs": targets}],
    }
    port = free_port()
    with short_folder() as folder:
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        command = (
            "prometheus",
            f"--config.file={folder}/prometheus.yaml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        )
        with running(*command):
            yield "127.0.0.1", port


def ask(address: tuple[str, int], promql: str) -> list[tuple[dict[str, str], float]]:
    """Ask a Prometheus; return each sample's labels and value, nothing while it starts."""
    host, port = address
    asked = urllib.parse.urlencode({"query": promql})
    try:
        url = f"http://{host}:{port}/api/v1/query?{asked}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            found = json.load(answer)["data"]["result"]
    except urllib.error.URLError:
        return []
    return [(one["metric"], float(one["value"][1])) for one in found]


class Hosts:
    """The hosts by name, with the scenario of each. A context manager.

    `agents`: the processes, by host. `prometheus`: its address.
    """

    def __init__(self, scenarios: Mapping[str, str]) -> None:
        self._scenarios = scenarios
        self._stack = contextlib.ExitStack()
        self._states: dict[str, pathlib.Path] = {}
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.prometheus = ("127.0.0.1", 0)

    def __enter__(self) -> Hosts:
        with contextlib.ExitStack() as stack:
            ports = {host: self._agent(stack, host) for host in self._scenarios}
            self.prometheus = stack.enter_context(prometheus(ports))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _agent(self, stack: contextlib.ExitStack, host: str) -> int:
        daemon = TestLibvirtd(stack.enter_context(short_folder()))
        daemon.start()
        stack.callback(daemon.stop)
        connection = libvirt.open(daemon.uri)
        stack.callback(connection.close)
        connection.lookupByName("test").destroy()
        for guest in guests(self._scenarios[host]):
            connection.defineXML(demo_host.domain_xml(guest)).create()
        folder, port = stack.enter_context(short_folder()), free_port()
        demo_host.write_sysfs(folder / "sys")
        config = folder / "nova.conf"
        config.write_text(f"""[compute]
cpu_dedicated_set = {demo_host.DEDICATED}
cpu_shared_set = {demo_host.SHARED}
[iat]
ovsdb_connection = none
mode = enforce
hardware = emulated
emulated_scenario = {SCENARIOS / self._scenarios[host]}.yaml
libvirt_uri = {daemon.uri}
sysfs_root = {folder / "sys"}
state_dir = {folder / "state"}
metrics_port = {port}
""")
        command = (BIN / "iat-nova-agent", "--config-file", config)
        self.agents[host] = stack.enter_context(running(*command))
        self._states[host] = folder / "state"
        return port

    def pause(self, host: str) -> None:
        """Pause the agent of a host: it serves metrics, and its last iteration gets old."""
        command = (BIN / "iat-nova", "--state-dir", self._states[host], "pause")
        subprocess.run(list(map(str, command)), check=True, capture_output=True)

    def ask(self, promql: str) -> list[tuple[dict[str, str], float]]:
        """Ask Prometheus, as the function `ask`."""
        return ask(self.prometheus, promql)

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {DEADLINE_S:.0f} s: {what}")
            for host, agent in self.agents.items():
                if agent.poll() is not None:
                    raise unittest.TestCase.failureException(f"the agent of {host} has ended")
            time.sleep(0.5)
