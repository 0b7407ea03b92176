# SPDX-License-Identifier: Apache-2.0
"""Loads made by existing programs: fio reads a disk, stress-ng streams memory."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from iat_nova.checks.qualify.api import Unavailable
from iat_nova.common.clock import Clock
from iat_nova.hardware.ddio.pci_place import ADDRESS
from iat_nova.model import Message, message

BLOCKS = Path("/sys/class/block")
BLOCK = 128 << 10  # bytes of one read
START_S = 2.0  # fio reports errors within this time
LONGEST_S = 180  # fio ends by itself, even if this process was killed
STREAM_S = 6  # stress-ng gives no rate of a shorter stream
_END_S = 10.0
_CONTROLLER = re.compile(r"nvme[0-9]+")


class DiskReads:
    """`api.InboundTraffic`: fio reads a disk or file past the page cache.

    Nothing is written to the disk.
    """

    ours = True

    def __init__(self, disk: Path, clock: Clock, blocks: Path = BLOCKS) -> None:
        self._disk = disk
        self._clock = clock
        self._blocks = blocks

    @property
    def devices(self) -> tuple[str, ...]:
        """The PCI addresses in the place of a block device in sysfs; empty for a file.

        With NVMe multipath the block device is below a virtual subsystem, whose folder has a link
        to each controller (Linux, drivers/nvme/host/core.c). Raises `Unavailable` if the disk has
        several controllers.
        """
        place = (self._blocks / self._disk.resolve().name).resolve()
        above = (one for one in place.parents if one.parent.name == "nvme-subsystem")
        if (subsystem := next(above, None)) is None:
            return _addresses(place)
        links = (one for one in subsystem.iterdir() if _CONTROLLER.fullmatch(one.name))
        controllers = {link.resolve() for link in links}
        if len(controllers) > 1:
            raise Unavailable(
                message("disk-has-controllers", controllers=len(controllers)),
                message("name-nvme-behind-port"),
            )
        return _addresses(*controllers)

    @contextlib.contextmanager
    def flowing(self, cpu: int, footprint: int) -> Iterator[None]:
        """Let fio read the disk into buffers of `footprint` bytes; see `api.InboundTraffic`."""
        fio = program("fio")
        self._check(footprint)
        command = [
            fio, "--name=qualify", f"--filename={str(self._disk).replace(':', chr(92) + ':')}",
            "--readonly", "--allow_file_create=0", "--rw=randread", "--direct=1",
            "--ioengine=libaio", f"--bs={BLOCK}", f"--iodepth={max(footprint // BLOCK, 8)}",
            "--time_based", f"--runtime={LONGEST_S}", f"--cpus_allowed={cpu}",
            f"--output={os.devnull}",
        ]  # fmt: skip
        with running(command) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(START_S)
            if process.poll() is not None:
                _, said = process.communicate()
                words = said.replace(str(self._disk), "the disk")
                failed = _failed("fio", process.returncode, words)
                raise Unavailable(failed, message("name-direct-disk"))
            yield

    def _check(self, least: int) -> None:
        """Raise `Unavailable` unless the disk is readable and large enough."""
        try:
            found = self._disk.stat()
        except OSError as error:
            unreadable = message("disk-unreadable", reason=error.strerror)
            raise Unavailable(unreadable, message("name-present-disk")) from error
        if stat.S_ISBLK(found.st_mode):
            return
        if not stat.S_ISREG(found.st_mode) or found.st_size < 4 * least:
            raise Unavailable(
                message("disk-unfit", least_mib=4 * least >> 20), message("write-large-file")
            )


def _addresses(*places: Path) -> tuple[str, ...]:
    return tuple(part for place in places for part in place.parts if ADDRESS.fullmatch(part))


class PresentTraffic:
    """`api.InboundTraffic`: the present traffic of devices."""

    ours = False
    devices = ()

    @contextlib.contextmanager
    def flowing(self, cpu: int, footprint: int) -> Iterator[None]:
        """Start nothing: devices write already; see `api.InboundTraffic`."""
        yield


def stream(cpus: Sequence[int]) -> float:
    """`api.Streams` by stress-ng, a process per CPU."""
    stress_ng = program("stress-ng")
    with tempfile.TemporaryDirectory(prefix="iat-nova-qualify-") as folder:
        paths = [Path(folder) / f"{cpu}.yaml" for cpu in cpus]
        with contextlib.ExitStack() as stack:
            processes = [
                stack.enter_context(running([
                    stress_ng, "--stream", "1", "--taskset", str(cpu),
                    "--timeout", f"{STREAM_S}s", "--metrics", "--yaml", str(path),
                ]))
                for cpu, path in zip(cpus, paths, strict=True)
            ]  # fmt: skip
            for process in processes:
                _wait(process)
        return sum(rate_of(path.read_text()) for path in paths)


def _wait(process: subprocess.Popen[str]) -> None:
    """Wait for stress-ng to end. Raises `Unavailable` if stress-ng fails or does not end."""
    try:
        _, said = process.communicate(timeout=10 * STREAM_S)
    except subprocess.TimeoutExpired:
        raise Unavailable(message("program-hangs", program="stress-ng")) from None
    if process.returncode:
        raise Unavailable(_failed("stress-ng", process.returncode, said))


def rate_of(metrics: str) -> float:
    """Return bytes per second from stress-ng's metrics. Raises `Unavailable`."""
    found = yaml.safe_load(metrics) or {}
    for stressor in found.get("metrics") or ():
        rates = [stressor.get(f"memory-{way}-rate-mb-per-sec") for way in ("read", "write")]
        if all(isinstance(rate, int | float) for rate in rates):
            return float(sum(rates)) * 1e6
    raise Unavailable(message("no-memory-rate"), message("use-newer-stress-ng"))


def program(name: str) -> str:
    """Return the path of a program. Raises `Unavailable` with the package to install."""
    found = shutil.which(name)
    if found is None:
        missing = message("program-not-installed", program=name)
        raise Unavailable(missing, message("install-program", program=name))
    return found


@contextlib.contextmanager
def running(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a program within the context. Raises `Unavailable` if the program cannot start."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, cwd="/",
        )  # fmt: skip
    except OSError as error:
        refused = message("program-not-started", path=command[0], reason=error.strerror)
        raise Unavailable(refused) from error
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _failed(program: str, status: int, said: str) -> Message:
    """Return the message about a failed program, with the last line of the program's output."""
    if not (lines := said.strip().splitlines()):
        return message("program-failed-silently", program=program, status=status)
    return message("program-failed", program=program, status=status, said=lines[-1])
