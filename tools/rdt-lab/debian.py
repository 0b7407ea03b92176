# SPDX-License-Identifier: Apache-2.0
"""Fetch packages of Debian, of this machine's release or another suite, without installing them."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Unusable(Exception):
    """The lab cannot be used here; the text says what to do."""


class Suite:
    """A suite of Debian, read through a root of apt of its own: this machine's stays as it is."""

    def __init__(self, name, work):
        """Read the lists of the suite into the folder `work`. Raises `Unusable`."""
        for part in ("parts", "lists/partial", "cache/archives/partial"):
            (work / part).mkdir(parents=True)
        (work / "parts/suite.sources").write_text(
            f"Types: deb\nURIs: {mirror()}\nSuites: {name}\nComponents: main\n"
            f"Signed-By: {KEYRING}\n"
        )
        self._own = [
            f"-oDir::Etc::sourcelist={os.devnull}", f"-oDir::Etc::sourceparts={work}/parts",
            f"-oDir::State::lists={work}/lists", f"-oDir::Cache={work}/cache",
            "-oAPT::Sandbox::User=",
        ]  # fmt: skip
        said("apt-get", *self._own, "update", "-qq")

    def names(self, prefix):
        """Return the names of packages that begin so."""
        return said("apt-cache", *self._own, "pkgnames", prefix).split()

    def download(self, names, debs):
        """Fetch packages into a folder. Raises `Unusable`."""
        said("apt-get", *self._own, "download", "-qq", *names, cwd=debs)


def mirror():
    """Return where this machine gets Debian from. Raises `Unusable`."""
    places = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*.*"))]
    for place in filter(Path.exists, places):
        for line in place.read_text().splitlines():
            found = re.match(r"(?:URIs:|deb(?:\s+\[[^]]*\])?)\s*(\S+/debian/?)(?:\s|$)", line)
            if found:
                return found[1]
    raise Unusable("no source of Debian in /etc/apt")


def unpack(debs, folder):
    """Unpack packages into a folder, whole or not at all."""
    new = Path(f"{folder}.new")
    for old in (folder, new):
        shutil.rmtree(old, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for package in sorted(debs.glob("*.deb")):
        said("dpkg-deb", "-x", str(package), str(new))
    new.rename(folder)


def said(*command, **options):
    """Run a command and return its output. Raises `Unusable` with what it says."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, **options)
    if done.returncode:
        raise Unusable(f"{shlex.join(command)}: {done.stderr.strip()}")
    return done.stdout
