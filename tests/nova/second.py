# SPDX-License-Identifier: Apache-2.0
"""A second compute host of the cloud, with an agent of its own; it may lose its power.

Real: nova-compute, libvirt, QEMU. The folder of instances is the first host's, as on NFS, or
one of its own: libvirt refuses to migrate disks that are shared on a file system which is not. Of
/sys/devices/system/cpu nova-compute sees a copy: what Nova does to CPUs with
``cpu_power_management`` is seen there, and the machine keeps its CPUs.
"""

from __future__ import annotations

import contextlib
import re
import shutil

import libvirt

from tests.nova.case import FIRST_ITERATION_S, Picture, recorded
from tests.nova.cloud import METRICS, Cloud, CloudError, Script, agent, configure, iat_nova, until

NAME = "compute2"


class SecondHost:
    """`start` it, `cut` its power, `start` it again; `leave` takes it out of the cloud."""

    def __init__(
        self, cloud: Cloud, scenario: str = "scenario.yaml", *, share_disks: bool = True
    ) -> None:
        self._cloud = cloud
        self.folder = cloud.folder / "second"
        self.state = self.folder / "iat"
        uri = f"qemu+unix:///system?socket={self.folder}/lv/run/libvirt-sock"
        self._cpus = self.folder / "cpu"
        self._values = cloud.values | {
            "DIR": str(self.folder), "HOST": NAME, "LIBVIRT_URI": uri, "HUGE_MOUNTS": "",
            "CPUS": str(self._cpus), "SCENARIO": scenario,
            "ADDRESS": "127.0.0.2", "METRICS": str(METRICS + 1),
            "OWN_INSTANCES": "" if share_disks else f"{self.folder}/instances",
        }  # fmt: skip
        (self.folder / "log").mkdir(parents=True)
        # What libvirt finds out of QEMU takes it 8 s.
        shutil.copytree(cloud.folder / "lv/cache", self.folder / "lv/cache")
        cloud.name_socket("127.0.0.2", self.folder)
        self._make_cpus()
        self._told = 0
        self._stack = contextlib.ExitStack()

    def start(self) -> None:
        """Start libvirt, the agent and nova-compute. Raises `CloudError`."""
        configure(self.folder, self._values)
        self._script = Script("second.sh", self.folder, self._values, "--uts")
        self._stack.callback(self._script.end)
        self._script.wait()
        self._hypervisor = libvirt.open(self._values["LIBVIRT_URI"])
        self._stack.callback(self._hypervisor.close)
        self._agent = self._stack.enter_context(agent(self.folder))
        until(
            lambda: self.picture() or self._agent.poll() is not None,
            "an iteration on the second host",
            FIRST_ITERATION_S,
        )
        offer = self.folder / "provider_config/iat-nova.yaml"
        iat_nova(self.folder, "provider-config", "-o", str(offer))
        self.start_compute()

    def start_compute(self) -> None:
        """Start nova-compute and wait until Nova knows of it. Raises `CloudError`."""
        before = self.service().get("updated_at")
        self._script.order("start")
        try:
            until(
                lambda: self.service().get("updated_at") != before and self._in_placement(),
                f"nova-compute of {NAME}",
            )
        except CloudError as error:
            raise CloudError(f"{error}\n{self.log('nova-compute.log')}") from error

    def stop_compute(self) -> None:
        """Stop nova-compute alone; its guests run on."""
        self._script.order("stop")

    def manage_power(self, strategy: str) -> None:
        """Have nova-compute started again, as manager of the CPUs' power."""
        self.stop_compute()
        self._values |= {"POWER": "true", "STRATEGY": strategy}
        configure(self.folder, self._values)
        self.start_compute()

    def cut(self) -> None:
        """Take the power away: nothing ends in order."""
        self._agent.kill()
        self._stack.close()

    def leave(self) -> None:
        """End the host and have Nova forget it."""
        self._stack.close()
        if service := self.service():
            self._cloud.api.nova("DELETE", f"/os-services/{service['id']}")
        until(lambda: not self._in_placement(), f"{NAME} gone from Placement")

    def force_down(self, down: bool) -> None:
        """Tell Nova that the host is down, as fencing does, or that it is back."""
        wanted = {"forced_down": down}
        self._cloud.api.nova("PUT", f"/os-services/{self.service()['id']}", wanted)

    def service(self) -> dict[str, str]:
        """Return Nova's record of the host's nova-compute, empty when there is none."""
        path = f"/os-services?binary=nova-compute&host={NAME}"
        found = self._cloud.api.nova("GET", path)["services"]
        return dict(found[0]) if found else {}

    def _in_placement(self) -> bool:
        """Tell whether the host's offer, which Nova writes last, is in Placement."""
        api = self._cloud.api
        found = api.placement(f"/resource_providers?name={NAME}")["resource_providers"]
        return bool(found) and bool(
            api.placement(f"/resource_providers/{found[0]['uuid']}/traits")["traits"]
        )

    def picture(self) -> Picture | None:
        """Return what its agent recorded last."""
        return recorded(self.state)

    def runs(self, uuid: str) -> bool:
        """Tell whether its libvirt runs a guest."""
        active = libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
        return uuid in {one.UUIDString() for one in self._hypervisor.listAllDomains(active)}

    def log(self, name: str) -> str:
        """Return a log."""
        path = self.folder / "log" / name
        return path.read_text(errors="replace") if path.exists() else f"no {path}"

    # ------------------------------------------------------------- the CPUs' power

    def _make_cpus(self) -> None:
        """Make what Nova reads and writes of each CPU; CPU 0 cannot be taken offline."""
        cpus = (self._cloud.shared, self._cloud.dedicated)
        for cpu in cpus:
            (self._cpus / f"cpu{cpu}/cpufreq").mkdir(parents=True)
            (self._cpus / f"cpu{cpu}/cpufreq/scaling_governor").write_text("schedutil")
            if cpu:
                (self._cpus / f"cpu{cpu}/online").write_text("1")
        (self._cpus / "present").write_text(f"0-{max(cpus)}\n")

    def online(self) -> bool:
        """Tell whether Nova has the dedicated CPU online."""
        return self._of_cpu("online") == "1"

    def governor(self) -> str:
        """Return the dedicated CPU's governor."""
        return self._of_cpu("cpufreq/scaling_governor")

    def _of_cpu(self, name: str) -> str:
        return (self._cpus / f"cpu{self._cloud.dedicated}" / name).read_text()

    def switch_on(self) -> None:
        """Bring the dedicated CPU online, as an operator does."""
        (self._cpus / f"cpu{self._cloud.dedicated}/online").write_text("1")

    def powered(self) -> list[str]:
        """Return what Nova did to the dedicated CPU since the last call, "up" and "down"."""
        said = re.findall(r"Cores powered (up|down) : {'?(\d+)'?}", self.log("nova-compute.log"))
        steps = [way for way, cpu in said if int(cpu) == self._cloud.dedicated]
        news, self._told = steps[self._told :], len(steps)
        return news
