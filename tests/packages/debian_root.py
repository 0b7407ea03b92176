# SPDX-License-Identifier: Apache-2.0
"""Clean Debian roots, and this checkout's packages of Debian, built once for all tests."""

import atexit
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = PROJECT / "tools/packaging"
SUITE = "trixie"
OLD_SUITE = "bookworm"
"""Debian 12, which has no packages of the emulated server."""
CLEAN = ("clean", "--include=bash-completion,kmod,man-db,systemd,zsh")
"""A root for the agent: what mmdebstrap is told."""


def missing():
    """Return why the packages cannot be built here, None where they can be."""
    if os.geteuid() != 0:
        return "roots of Debian are made and entered by root"
    absent = [name for name in ("mmdebstrap", "unshare") if shutil.which(name) is None]
    return f"not installed: {' '.join(absent)}" if absent else None


@functools.cache
def packages(suite=SUITE):
    """Build a suite's packages; return their folder. A folder SUITE in $IAT_NOVA_DEBS has them."""
    made = pathlib.Path(os.environ.get("IAT_NOVA_DEBS", "/none"), suite)
    if made.is_dir():
        return made
    folder = pathlib.Path(tempfile.mkdtemp(prefix="iat-nova-debs-"))
    atexit.register(shutil.rmtree, folder)  # the end of a module's tests would be too early
    said(TOOLS / "build-debs", folder, suite, env={**os.environ, "PYTHON": sys.executable})
    return folder


def repack(deb, suffix, shipped=""):
    """Make a package a later version: `suffix` to its version, a line to its configuration."""
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder, "tree")
        said("dpkg-deb", "--raw-extract", deb, tree)
        control = tree / "DEBIAN/control"
        (version,) = re.findall(r"^Version: (.*)$", control.read_text(), re.MULTILINE)
        control.write_text(control.read_text().replace(version, version + suffix))
        if (file := tree / "etc/iat-nova/iat-nova.conf").exists():
            file.write_text(file.read_text() + shipped)
        said("dpkg-deb", "--build", "--root-owner-group", tree, deb)


class Root:
    """A clean Debian in a folder; what is done to it is gone with the folder."""

    def __init__(self, folder, name, *options, suite=SUITE):
        self.folder = pathlib.Path(folder)
        self.suite = suite
        self._bash("new_root", folder, suite, name, *options)

    def run(self, *command, status=0):
        """Run a command in it, which must end with `status`; return all that it wrote."""
        return self._bash("in_root", self.folder, *command, status=status)

    def install(self, *names):
        """Install packages of this checkout, as apt does with all that they need."""
        for name in names:
            (deb,) = packages(self.suite).glob(f"{name}_*.deb")
            shutil.copy(deb, self.folder / "share" / f"{name}.deb")
        self.run("apt-get", "update", "-qq")
        how = ("-qq", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-unsafe-io")
        self.run("apt-get", "install", *how, *(f"/mnt/{name}.deb" for name in names))

    def settings_after(self, *command):
        """Run a command; return ip_forward and perf_event_paranoid, which others set to 1 and 4.

        The former is of a network namespace, the latter a stand-in: the kernel has only one.
        """
        script = """
            sys=/proc/sys
            mkdir -p /etc/sysctl.d /run/systemd
            echo net.ipv4.ip_forward=0 >/etc/sysctl.d/99-theirs.conf
            mount -t tmpfs tmpfs /run/systemd && mkdir /run/systemd/system
            echo 4 >/tmp/paranoid && mount --bind /tmp/paranoid $sys/kernel/perf_event_paranoid
            echo 1 >$sys/net/ipv4/ip_forward
            "$@" >&2
            cat $sys/net/ipv4/ip_forward /tmp/paranoid"""
        return self.run("unshare", "--net", "--mount", "sh", "-ec", script, "sh", *command)

    @staticmethod
    def _bash(*words, status=0):
        script = f'set -euo pipefail; source "{TOOLS}/roots"; "$@"'
        return said("bash", "-c", script, "bash", *words, status=status)


def said(*command, status=0, **options):
    """Run a command, which must end with `status`, and return all that it wrote."""
    done = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    if done.returncode != status:
        raise AssertionError(f"{command}: exit status {done.returncode}\n{done.stdout[-8000:]}")
    return done.stdout
