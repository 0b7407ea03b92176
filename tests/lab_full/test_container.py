# SPDX-License-Identifier: Apache-2.0
"""The container of this checkout in the lab's guest."""

import shutil
import tempfile
import unittest
from pathlib import Path

from tests.lab.lab import GuestCase
from tests.lab.test_service import OWN_DEFAULT
from tests.packages.debian_root import PROJECT, Root, missing, packages, said

BASE = "localhost/debian:clean"
"""In place of Docker Hub's image: what mmdebstrap makes."""


class Container(GuestCase):
    """Built by the Containerfile, run by podman as the page on installing says."""

    def test_at_work(self):
        """The agent in it enforces, and restores when it is stopped or asked to."""
        if why := missing() or absent():
            raise unittest.SkipTest(why)
        with tempfile.TemporaryDirectory(prefix="iat-nova-lab-") as share:
            build(Path(share) / "storage", Path(share) / "root")
            self.guest("contained", least=1, share=share, options=OWN_DEFAULT, timeout_s=900)


def absent():
    """Return which programs are missing, None if all are there."""
    names = [name for name in ("buildah", "crun", "jq", "podman") if shutil.which(name) is None]
    return f"not installed: {' '.join(names)}" if names else None


def build(storage, folder):
    """Build the image into a folder of its own, on a base of a clean Debian."""
    Root(folder, "image", "--include=ca-certificates")
    clean = (folder / "lower").read_text().strip()
    store = ("--root", storage, "--storage-driver", "overlay")
    packed = 'set -o pipefail; tar --create --directory "$1" . | "${@:2}"'
    path = "ENV PATH=/usr/sbin:/usr/bin:/sbin:/bin"  # as Docker Hub's image has one
    said("bash", "-c", packed, "bash", clean, "podman", *store, "import", "-c", path, "-", BASE)
    said(
        "buildah", *store, "build", "--isolation", "chroot", "--build-arg", f"BASE={BASE}",
        "--file", PROJECT / "tools/packaging/Containerfile", "--tag", "iat-nova-agent", packages(),
    )  # fmt: skip
