# SPDX-License-Identifier: Apache-2.0
"""All options of the agent, and the value `Settings` that is made from the options.

The options are in ``[iat]`` of nova.conf or of a separate file. Four options belong to Nova and are
only read here: ``cpu_dedicated_set``, ``cpu_shared_set`` and ``provider_config_location`` of
``[compute]``, and ``[os_vif_ovs] ovsdb_connection``. A private `ConfigOpts` is used, so that no
option is registered in another program's configuration.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from iat_nova.common import config_files
from iat_nova.model.message import MessageError

if TYPE_CHECKING:
    from oslo_config import cfg

    from iat_nova.conf.options import COMPUTE_OPTS, IAT_OPTS, OS_VIF_OVS_OPTS
else:

    def __getattr__(name: str) -> object:
        """Load the options when they are first used: help texts need no oslo.config."""
        if name not in __all__:
            raise AttributeError(name)
        return getattr(importlib.import_module("iat_nova.conf.options"), name)


__all__ = [
    "COMPUTE_OPTS",
    "IAT_OPTS",
    "OS_VIF_OVS_OPTS",
    "STATE_DIR",
    "ConfigError",
    "Settings",
    "load",
]

STATE_DIR = "/var/lib/iat-nova"
GROUP = "iat"
LOCK = "agent.lock"
"""The lock in the state directory: held by the single agent, which writes its status there."""

WRITER_LOCK = pathlib.Path("/run/iat-nova/writer.lock")
"""The lock of the only process that may write this host's cache masks, with any state directory.

The file is not in /run/lock: if that folder is sticky and writable for all, the kernel refuses root
a file of the agent's user (fs.protected_regular).
"""
STATE_DIR_VARIABLE = "IAT_NOVA_STATE_DIR"


class ConfigError(MessageError):
    """The configuration cannot be used; `message` names the file or the option."""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The configuration, checked once. Fields have the names of the options."""

    mode: str
    strategy: str
    shadow: str | None
    shadow_policy: pathlib.Path | None
    policy_file: pathlib.Path | None
    hardware: str
    cat_interface: str
    ddio_interface: str
    port_dca: bool
    dca_off_ports: tuple[str, ...]
    dca_ports: tuple[str, ...]
    cha_slices: int | None  # None: all
    memory_bandwidth_gbps: float | None  # None: unknown
    monitor_tenants: bool
    emulated_scenario: str | None
    emulated_pace: float
    emulated_seconds: float | None
    libvirt_uri: str
    ovsdb_connection: str | None  # None: no Open vSwitch here
    vswitchd_control: str | None
    ovs_rundir: pathlib.Path
    state_dir: pathlib.Path
    hand_over_s: float  # 0: never
    spool_dir: pathlib.Path
    reconcile_s: float
    debounce_s: float
    history_whole_hours: float
    history_days: float
    history_mib: int
    metrics_address: str
    metrics_port: int  # 0: metrics are not served
    sysfs_root: pathlib.Path
    proc_root: pathlib.Path
    debug: bool
    cpu_dedicated_set: str | None
    cpu_shared_set: str | None
    provider_config_location: pathlib.Path  # nova-compute reads its provider.yaml files there
    read_files: tuple[str, ...] = dataclasses.field(compare=False)  # in this order

    @property
    def history_path(self) -> pathlib.Path:
        """The SQLite database of the history."""
        return self.state_dir / "history.sqlite"

    @property
    def lock_path(self) -> pathlib.Path:
        """The lock of the one agent that may run on this state directory."""
        return self.state_dir / LOCK

    @property
    def snapshot_path(self) -> pathlib.Path:
        """The snapshot of the original hardware settings, while these may be changed."""
        return self.state_dir / "snapshot.json"

    @property
    def hand_over_path(self) -> pathlib.Path:
        """The state that an agent leaves to the next agent, until adopted."""
        return self.state_dir / "hand-over.json"


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options for oslo-config-generator, without Nova's options."""
    from iat_nova.conf.options import IAT_OPTS as options  # noqa: PLC0415 - slow to load

    return [(GROUP, options)]


def add_arguments(parser: argparse._ActionsContainer, what: str, **defaults: Any) -> None:
    """Add the options that name configuration files; `what` names the content in their help.

    Both options fill ``config_file``: as in oslo.config, a later file overrides an earlier file.
    """
    parser.add_argument(
        "--config-file",
        action="append",
        metavar="FILE",
        help=f"read {what} from this file; may be repeated, the last one wins; default: "
        "nova-compute's files, then those in /etc/iat-nova",
        **defaults,
    )
    parser.add_argument(
        "--config-dir",
        action="append",
        dest="config_file",
        type=config_files.folder,
        metavar="DIR",
        help=f"read {what} from all *.conf files of this folder, in the order of their names",
        **defaults,
    )


def load(named: Sequence[str | os.PathLike[str]] = (), *, state_dir: str | None = None) -> Settings:
    """Read the configuration files and check every value; later files override earlier files.

    A folder, whose name ends with a slash, stands for its ``*.conf`` files. The state directory is
    `state_dir`, else the directory in the files, else the environment variable IAT_NOVA_STATE_DIR.
    Raises `ConfigError`.
    """
    from iat_nova.conf import reading  # noqa: PLC0415 - slow to load

    return reading.read(named, state_dir)
