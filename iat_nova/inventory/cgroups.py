# SPDX-License-Identifier: Apache-2.0
r"""The CPUs that control groups allow to libvirt's guests.

libvirt names a guest's group by its driver, id and name: ``machine-qemu\x2d7\x2dname.scope`` with
systemd, else ``qemu-7-name.libvirt-qemu`` (src/util/virsystemd.c, src/hypervisor/domain_cgroup.c).
"""

from __future__ import annotations

import errno
import functools
import pathlib
import re

from iat_nova.common.cpulist import parse_cpus
from iat_nova.common.kernel_files import names, text_of

_GROUP = re.compile(r"(?:machine-)?qemu(?:-|\\x2d)([0-9]{1,9})(?:-|\\x2d).+")
_FILES = ("cpuset.cpus.effective", "cpuset.effective_cpus")  # of versions 2 and 1
_cpus = functools.lru_cache(maxsize=16)(parse_cpus)  # guests with equal CPUs share a set


def of_guests(root: pathlib.Path) -> dict[int, pathlib.Path]:
    """Return the groups of running guests below a mounted cgroup file system, by libvirt's id."""
    roots = (root, root / "cpuset")  # of versions 2 and 1
    slices = [top / name for top in roots for name in names(top) if name.startswith("machine")]
    folders = (*slices, *(folder / name for folder in slices for name in names(folder)))
    found = ((folder, _GROUP.fullmatch(name)) for folder in folders for name in names(folder))
    return {int(name[1]): folder / name[0] for folder, name in found if name is not None}


def allowed_cpus(group: pathlib.Path | None) -> frozenset[int] | None:
    """Return the CPUs that a guest's group allows; None if unknown."""
    texts = (text_of(group / name, errno.ENODEV) for name in _FILES) if group is not None else ()
    try:
        return _cpus(next(filter(None, texts), "")) or None
    except ValueError:
        return None
