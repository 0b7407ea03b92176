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
from collections.abc import Iterator, Sequence
from typing import Any

from oslo_config import cfg

from iat_nova.common import config_files
from iat_nova.common.readers import CONFIGURATION
from iat_nova.common.untrusted import shortened
from iat_nova.model import Message, message, verbatim
from iat_nova.strategies.registry import BUILT_IN, DEFAULT

GROUP = "iat"
STATE_DIR = "/var/lib/iat-nova"
LOCK = "agent.lock"
"""The lock in the state directory: held by the single agent, which writes its status there."""

WRITER_LOCK = pathlib.Path("/run/iat-nova/writer.lock")
"""The lock of the only process that may write this host's cache masks, with any state directory.

The file is not in /run/lock: if that folder is sticky and writable for all, the kernel refuses root
a file of the agent's user (fs.protected_regular).
"""
STATE_DIR_VARIABLE = "IAT_NOVA_STATE_DIR"

IAT_OPTS = [
    cfg.StrOpt(
        "mode",
        default="observe",
        choices=[
            ("observe", "decide and record everything, write nothing"),
            ("enforce", "decide and write masks"),
        ],
        help="Whether the agent writes its decisions to the hardware.",
    ),
    cfg.StrOpt(
        "strategy",
        default=DEFAULT,
        help="The strategy that decides on the ways of each tenant: {}, or a plug-in in the entry "
        "point group iat_nova.strategies. `iat` is the published algorithm; `iat-nova simulate "
        "compare` compares strategies on a scenario.".format(", ".join(BUILT_IN)),
    ),
    cfg.StrOpt(
        "shadow",
        help="A second strategy that decides on the same samples without any write: `iat-nova "
        "status`, the report and the metrics show its decisions. Unset: none.",
    ),
    cfg.StrOpt(
        "shadow_policy",
        help="A second policy for the shadow's decisions, with the strategy of `shadow` or, if "
        "unset, the strategy in force. Read together with `policy_file`; if the file is invalid, "
        "the agent reports the problem and goes on. Unset: the policy in force.",
    ),
    cfg.StrOpt(
        "policy_file",
        help="The policy: YAML rendered by Jinja2. Unset: the default policy that ships with the "
        "package. Read at start and at SIGHUP; `iat-nova policy check` shows problems of the file.",
    ),
    cfg.StrOpt(
        "hardware",
        default="auto",
        help="Hardware platform.",
        choices=[
            ("auto", "the interfaces of this host"),
            (
                "emulated",
                "the emulated server (needs the extra iat-nova[sim] and `emulated_scenario`)",
            ),
        ],
    ),
    cfg.StrOpt(
        "cat_interface",
        default="auto",
        choices=[
            ("auto", "resctrl; pqos-msr where the kernel has no resctrl"),
            ("resctrl", "the kernel's resctrl"),
            ("pqos-msr", "libpqos, through registers; resctrl must not be mounted"),
            ("pqos-os", "libpqos, through resctrl"),
        ],
        help="Interface for cache masks (CAT).",
    ),
    cfg.StrOpt(
        "ddio_interface",
        default="auto",
        choices=[
            ("auto", "the register where the CPU has it, else io_alloc, else none"),
            ("msr", "register 0xC8B (Intel)"),
            ("io_alloc", "resctrl's io_alloc (AMD, Linux 6.19 or later)"),
            (
                "iordt",
                "a class of service of all devices (Intel I/O RDT), through resctrl and /dev/mem; "
                "not tested on any CPU yet",
            ),
            ("none", "DDIO's ways are not changed"),
        ],
        help="Interface for the DDIO ways.",
    ),
    cfg.BoolOpt(
        "port_dca",
        default=False,
        help="Whether DDIO may be switched off for single PCIe root ports (Skylake and Cascade "
        "Lake). Needs CAP_SYS_ADMIN and ProtectKernelTunables=no, which the unit does not give "
        "(systemctl edit iat-nova-agent; the documentation of the agent's safety has the lines).",
    ),
    cfg.ListOpt(
        "dca_off_ports",
        default=[],
        help="PCI addresses of root ports, such as 0000:3a:00.0: while the agent enforces, devices "
        "below these ports write to memory. Needs `port_dca`.",
    ),
    cfg.ListOpt(
        "dca_ports",
        default=[],
        help="PCI addresses of root ports at which a strategy may switch DDIO off and on, such as "
        "the ports of NVMe disks: pollute-buffer and a4 switch DDIO off if storage evicts the "
        "lines of other tenants from the cache. Needs `port_dca`.",
    ),
    cfg.StrOpt(
        "counters_interface",
        default="auto",
        choices=[
            ("auto", "perf"),
            ("perf", "events of the kernel's perf"),
            ("msr", "model-specific registers, of which the agent must be the only user"),
        ],
        help="Interface for hardware counters.",
    ),
    cfg.IntOpt(
        "cha_slices",
        default=1,
        min=0,
        help="Number of LLC slices on which DDIO's hits and misses are counted. The counts are "
        "scaled to all slices, as in the paper with one slice. 0: all slices.",
    ),
    cfg.FloatOpt(
        "memory_bandwidth_gbps",
        min=1.0,
        max=256.0,
        help="Memory bandwidth of one cache domain (AMD: of the CPUs that share an L3), in GB/s: "
        "100 % of a class's `bandwidth_min`. Only for CPUs that limit memory bandwidth in GB/s "
        "(AMD), not for limits in percent. `iat-nova qualify` measures the value. Unset: no "
        "limits on such CPUs.",
    ),
    cfg.BoolOpt(
        "monitor_tenants",
        default=False,
        help="Whether each tenant's LLC occupancy and memory traffic are monitored while the agent "
        "enforces, with a monitoring group of resctrl (an RMID) per tenant. Programs that monitor "
        "by CPU (pqos -m) then have fewer RMIDs.",
    ),
    cfg.StrOpt(
        "emulated_scenario",
        help="The scenario of the emulated server: a file, or the name of a shipped scenario.",
    ),
    cfg.FloatOpt(
        "emulated_pace",
        default=1.0,
        min=0,
        help="Maximum emulated seconds per real second; 0: no limit.",
    ),
    cfg.FloatOpt(
        "emulated_seconds",
        min=0,
        help="Emulated seconds after which the agent ends. Unset: the scenario's length.",
    ),
    cfg.StrOpt(
        "libvirt_uri",
        default="qemu:///system",
        help="URI of this host's hypervisor; URIs of other hosts are refused. The connection is "
        "read-only.",
    ),
    cfg.StrOpt(
        "ovsdb_connection",
        help="Open vSwitch's database, such as unix:/run/openvswitch/db.sock. Unset: "
        "[os_vif_ovs] ovsdb_connection. `none`: this host has no Open vSwitch.",
    ),
    cfg.StrOpt(
        "vswitchd_control",
        help="The control socket of ovs-vswitchd, which lists the PMD threads if no pmd-cpu-mask "
        "is set. Unset: found in ovs_rundir.",
    ),
    cfg.StrOpt(
        "ovs_rundir",
        default="/run/openvswitch",
        help="Open vSwitch's run directory.",
    ),
    cfg.StrOpt(
        "state_dir",
        default=STATE_DIR,
        help="The directory of the agent's history, the snapshot of the hardware and the lock.",
    ),
    cfg.FloatOpt(
        "hand_over_s",
        default=60.0,
        min=0,
        max=600,
        help="Seconds in which the next agent can adopt masks and decisions after a restart of the "
        "service; later the host is restored. 0: every end of the agent restores.",
    ),
    cfg.StrOpt(
        "spool_dir",
        help="The folder into which the notification driver inside nova-compute writes extra "
        "specs (Nova below 32). Unset: `spool` in state_dir.",
    ),
    cfg.FloatOpt(
        "reconcile_s",
        default=60.0,
        min=1.0,
        help="Seconds after which the inventory is read again, with or without events.",
    ),
    cfg.FloatOpt(
        "debounce_s",
        default=0.2,
        min=0.0,
        help="Seconds during which events of libvirt and OVSDB are collected before the inventory "
        "is read again.",
    ),
    cfg.FloatOpt(
        "history_whole_hours",
        default=24.0,
        min=0,
        help="Hours for which every iteration is kept. Of older iterations, iterations with an "
        "effect are kept, and one per minute.",
    ),
    cfg.FloatOpt(
        "history_days",
        default=30.0,
        min=0,
        help="Days for which history is kept.",
    ),
    cfg.IntOpt(
        "history_mib",
        default=256,
        min=4,
        help="Maximum size of the history on disk, in MiB. If the space is not sufficient, "
        "iterations without an effect are removed earlier, except those of the last hour, and "
        "then the oldest iterations.",
    ),
    cfg.StrOpt(
        "metrics_address",
        default="127.0.0.1",
        help="The address on which Prometheus metrics are served. Metrics name guests: serve "
        "metrics to your monitoring network only.",
    ),
    cfg.PortOpt(
        "metrics_port",
        default=0,
        help="The port on which Prometheus metrics are served, at /metrics; 0: no metrics. Needs "
        "the extra iat-nova[metrics].",
    ),
    cfg.StrOpt("sysfs_root", default="/sys", advanced=True, help="The mount point of sysfs."),
    cfg.StrOpt("proc_root", default="/proc", advanced=True, help="The mount point of procfs."),
    cfg.BoolOpt(
        "debug",
        default=False,
        help="Log the settings and every iteration, not only iterations with an effect. Same as "
        "[DEFAULT] debug, which in nova.conf also applies to Nova. All other logging options are "
        "oslo.log's, in [DEFAULT].",
    ),
]

COMPUTE_OPTS = [
    cfg.StrOpt("cpu_dedicated_set", help="Nova's own option, read only."),
    cfg.StrOpt("cpu_shared_set", help="Nova's own option, read only."),
    cfg.StrOpt(
        "provider_config_location",
        default="/etc/nova/provider_config/",
        help="Nova's own option, read only.",
    ),
]

OS_VIF_OVS_OPTS = [
    cfg.StrOpt("ovsdb_connection", default="tcp:127.0.0.1:6640", help="os-vif's own, read only."),
]


class ConfigError(Exception):
    """The configuration cannot be used; `message` names the file or the option."""

    def __init__(self, said: Message) -> None:
        super().__init__(said)
        self.message = said


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
        help="the same with all *.conf files of a folder, in the order of their names",
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


def _settings(conf: cfg.ConfigOpts, read_files: Sequence[str], named: str | None) -> Settings:
    """Make the settings from `conf`, which was read from these files. `named`: state directory."""
    iat = conf[GROUP]
    configured = iat.state_dir if iat.state_dir != STATE_DIR else None
    state_dir = pathlib.Path(named or configured or os.environ.get(STATE_DIR_VARIABLE) or STATE_DIR)
    if iat.hardware == "emulated" and not iat.emulated_scenario:
        raise ConfigError(message("emulated-without-scenario"))
    ovsdb = iat.ovsdb_connection or conf.os_vif_ovs.ovsdb_connection
    made = {  # options with another type, or made from several; all other options are unchanged
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
        "cpu_dedicated_set": conf.compute.cpu_dedicated_set,
        "cpu_shared_set": conf.compute.cpu_shared_set,
        "provider_config_location": pathlib.Path(conf.compute.provider_config_location),
        "read_files": tuple(read_files),
    }
    names = {field.name for field in dataclasses.fields(Settings)} - made.keys()
    return Settings(**made, **{name: iat[name] for name in names})
