# SPDX-License-Identifier: Apache-2.0
"""Stands in for systemctl where no systemd runs: a host below a folder, its agent a real process.

What Ansible's module asks is answered as systemd 252 does: show, is-enabled, enable, disable,
start, stop, restart, reload, daemon-reload. Other units than the agent's are noted only. All that
was asked for is in ``systemctl.log`` of the folder ($HOST_ROOT). The agent runs as $HOST_USER, if
that is set.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(os.environ["HOST_ROOT"])
BIN = pathlib.Path(os.environ["HOST_BIN"])
AGENT = "iat-nova-agent"
PID, ENABLED = ROOT / "agent.pid", ROOT / "enabled"
CONFIG = ROOT / "etc/iat-nova"
ARGUMENTS = ["--config-file", CONFIG / "iat-nova.conf", "--config-dir", CONFIG / "iat-nova.conf.d"]
USER = os.environ.get("HOST_USER")
READY_S = 300.0


def running():
    """Return the agent's process, None where there is none."""
    with contextlib.suppress(OSError, ValueError):
        pid = int(PID.read_text())
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return None if state == "Z" else pid
    return None


def start():
    """Start the agent, and wait for its first iteration as Type=notify does, or its end."""
    if running():
        return 0
    with (ROOT / "agent.log").open("a") as log:
        agent = subprocess.Popen(
            [BIN / AGENT, *ARGUMENTS],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            user=USER,
            group=USER,
            extra_groups=[] if USER else None,
        )
    PID.write_text(str(agent.pid))
    end_s = time.monotonic() + READY_S
    while time.monotonic() < end_s and agent.poll() is None:
        if ask("status").returncode == 0:
            return 0
        time.sleep(0.2)
    ended = agent.poll()
    why = f"no iteration within {READY_S} s" if ended is None else f"it ended with status {ended}"
    print(why, file=sys.stderr)  # Ansible shows this
    return 1


def ask(*command):
    """Run iat-nova."""
    return subprocess.run(
        [BIN / "iat-nova", *command, *ARGUMENTS], check=False, capture_output=True
    )


def stop():
    """End the agent and wait for that; it restores the host."""
    if pid := running():
        os.kill(pid, signal.SIGTERM)
        while running():
            time.sleep(0.05)
    PID.unlink(missing_ok=True)
    return 0


def show(unit):
    """Print what `systemctl show` has of a unit, as far as Ansible asks."""
    active = unit != AGENT or running()
    print(f"Id={unit}.service\nLoadState=loaded")
    print(f"ActiveState={'active' if active else 'inactive'}")
    print(f"SubState={'running' if active else 'dead'}")
    return 0


def main(verb, unit=""):
    """Do what is asked."""
    unit = unit.removesuffix(".service")
    if verb == "show":
        return show(unit)
    if verb == "is-enabled":
        print("enabled" if ENABLED.exists() else "disabled")
        return 0 if ENABLED.exists() else 1
    with (ROOT / "systemctl.log").open("a") as log:
        print(verb, unit, file=log)
    if unit != AGENT:
        return 0
    if verb == "enable":
        ENABLED.touch()
    elif verb == "disable":
        ENABLED.unlink(missing_ok=True)
    elif verb in ("start", "stop"):
        return start() if verb == "start" else stop()
    elif verb == "restart":
        stop()
        return start()
    elif verb == "reload":
        return ask("reload").returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(*[one for one in sys.argv[1:] if not one.startswith("-")][:2]))
