# SPDX-License-Identifier: Apache-2.0
"""All options of the agent, and the value `Settings` that is made from the options.

The options are in ``[iat]`` of nova.conf or of a separate file. Four options belong to Nova and are
only read here: ``cpu_dedicated_set``, ``cpu_shared_set`` and ``provider_config_location`` of
``[compute]``, and ``[os_vif_ovs] ovsdb_connection``. A private `ConfigOpts` is used, so that no
option is registered in another program's configuration.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import pathlib
import re
import types
from collections.abc import Iterator, Sequence
from typing import Any

from oslo_config import cfg

from iat_nova.common import config_files
from iat_nova.common.readers import CONFIGURATION
from iat_nova.common.untrusted import shortened
from iat_nova.conf.options import COMPUTE_OPTS, IAT_OPTS, OS_VIF_OVS_OPTS, STATE_DIR
from iat_nova.model.message import MessageError, message, verbatim

__all__ = [
    "COMPUTE_OPTS",
    "IAT_OPTS",
    "OS_VIF_OVS_OPTS",
    "STATE_DIR",
    "ConfigError",
    "Settings",
    "load",
]

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
    counters_interface: str
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
    return [(GROUP, IAT_OPTS)]


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
    names = _files(named)
    conf = cfg.ConfigOpts()
    conf.register_opts(IAT_OPTS, group=GROUP)
    conf.register_opts(COMPUTE_OPTS, group="compute")
    conf.register_opts(OS_VIF_OVS_OPTS, group="os_vif_ovs")
    with parsed(conf, names):
        return _settings(conf, names, state_dir)


@contextlib.contextmanager
def parsed(conf: cfg.ConfigOpts, names: Sequence[str]) -> Iterator[None]:
    """Read configuration files for the registered options.

    Values are checked when read: read all values within this context. Raises `ConfigError`.
    """
    try:
        conf([], project="iat-nova", default_config_files=list(names), default_config_dirs=[])
        yield
    except cfg.ConfigFilesNotFoundError as error:
        said = message("config-absent", files=tuple(map(str, error.config_files)))
        raise ConfigError(said) from error
    except cfg.ConfigFilesPermissionDeniedError as error:
        said = message("config-denied", files=tuple(map(str, error.config_files)))
        raise ConfigError(said) from error
    except UnicodeDecodeError as error:
        raise ConfigError(message("config-no-text", error=str(error))) from error
    except RecursionError:
        raise ConfigError(message("config-circular", files=tuple(names))) from None
    except (cfg.ConfigFileParseError, cfg.ConfigFileValueError, cfg.Error) as error:
        text = shortened(_LOCATION.sub(r"\1", str(error)), _MOST_SHOWN)
        said = verbatim(text)
        if names and not any(name in text for name in names):
            said = message("config-refused", files=tuple(names), error=text)
        raise ConfigError(said) from error


def _files(named: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the files, each within its limits; oslo.config reports files that are missing."""
    try:
        names = config_files.expanded(named)
    except OSError as error:
        said = message("config-folder", folder=str(error.filename), error=error.strerror)
        raise ConfigError(said) from error
    for name in names:
        try:
            CONFIGURATION.read(name).decode()
        except (FileNotFoundError, PermissionError):
            continue
        except (OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError):
                said = message("config-refused", files=(name,), error=error.strerror)
            else:
                said = message("config-file-no-text", file=name, error=str(error))
            raise ConfigError(said) from error
    return names


_MOST_SHOWN = 500  # characters of what oslo.config says
# oslo.config shows the place of a value as the repr of an internal tuple; keep the file's name.
_LOCATION = re.compile(r"LocationInfo\(.*?detail='([^']*)'\)")


_MOST = 10**9  # seconds, hours or days of an option
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def _ports(
    allowed: bool, option: str, ports: Sequence[str], others: Sequence[str] = ()
) -> tuple[str, ...]:
    """Check an option's root ports; no port may also be in the other option."""
    if ports and not allowed:
        raise ConfigError(message("option-needs-port-dca", option=option))
    for port in ports:
        if not _PCI_ADDRESS.fullmatch(port):
            raise ConfigError(message("option-no-address", option=option, found=port))
        if port in others:
            raise ConfigError(message("option-port-twice", option=option, port=port))
    return tuple(ports)


def _check_number(option: str, found: float | None) -> None:
    """Raise `ConfigError` for NaN, and for numbers that no clock can wait for."""
    if found is not None and not found <= _MOST:
        raise ConfigError(message("option-too-large", option=option, found=str(found), most=_MOST))


def _value(conf: cfg.ConfigOpts, option: cfg.Opt) -> Any:
    """Return an option's value: the default for an empty value, as for an option that is not set.

    oslo.config gives None for an empty number. Raises `ConfigError`.
    """
    found = conf[GROUP][option.dest]
    if found in (None, ""):
        found = option.default
    if isinstance(option, cfg.FloatOpt):
        _check_number(option.dest, found)
    return found


def _settings(conf: cfg.ConfigOpts, read_files: Sequence[str], named: str | None) -> Settings:
    """Return the settings in `conf`. `named`: the state directory of the command line, or None."""
    unset = os.environ.get(STATE_DIR_VARIABLE) or STATE_DIR
    conf.set_default("state_dir", unset, group=GROUP)  # so a file may also name the default
    iat = types.SimpleNamespace(**{option.dest: _value(conf, option) for option in IAT_OPTS})
    state_dir = pathlib.Path(named or conf[GROUP].state_dir or unset)
    if iat.hardware == "emulated" and not iat.emulated_scenario:
        raise ConfigError(message("emulated-without-scenario"))
    ovsdb = iat.ovsdb_connection or conf.os_vif_ovs.ovsdb_connection
    # Options with another type, or made from several; all other options are unchanged.
    made: dict[str, Any] = {
        "policy_file": pathlib.Path(iat.policy_file) if iat.policy_file else None,
        "shadow_policy": pathlib.Path(iat.shadow_policy) if iat.shadow_policy else None,
        "dca_off_ports": _ports(iat.port_dca, "dca_off_ports", iat.dca_off_ports),
        "dca_ports": _ports(iat.port_dca, "dca_ports", iat.dca_ports, iat.dca_off_ports),
        "cha_slices": iat.cha_slices or None,
        "ovsdb_connection": None if ovsdb == "none" else ovsdb,
        "ovs_rundir": pathlib.Path(iat.ovs_rundir),
        "state_dir": state_dir,
        "spool_dir": pathlib.Path(iat.spool_dir) if iat.spool_dir else state_dir / "spool",
        "sysfs_root": pathlib.Path(iat.sysfs_root),
        "proc_root": pathlib.Path(iat.proc_root),
        "cpu_dedicated_set": conf.compute.cpu_dedicated_set or None,  # empty: unset, as in Nova
        "cpu_shared_set": conf.compute.cpu_shared_set or None,
        "provider_config_location": pathlib.Path(conf.compute.provider_config_location),
        "read_files": tuple(read_files),
    }
    names = {field.name for field in dataclasses.fields(Settings)} - made.keys()
    return Settings(**made, **{name: getattr(iat, name) for name in names})
