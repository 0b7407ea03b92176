# SPDX-License-Identifier: Apache-2.0
"""The options of the agent, with types, defaults and help texts."""

from __future__ import annotations

from oslo_config import cfg

from iat_nova.common.plugins import DEFAULT_STRATEGY, SHIPPED_STRATEGIES
from iat_nova.conf import STATE_DIR

IAT_OPTS = [
    cfg.StrOpt(
        "mode",
        default="observe",
        choices=[
            ("observe", "decide and record everything, change no ways"),
            ("enforce", "decide and write masks"),
        ],
        help="Whether the agent writes its decisions to the hardware.",
    ),
    cfg.StrOpt(
        "strategy",
        default=DEFAULT_STRATEGY,
        help="The strategy that decides on the ways of each tenant: {}, or a plug-in in the entry "
        "point group iat_nova.strategies. `iat` is the published algorithm. `unmanaged` and `a4` "
        "are for comparisons and come with the emulated server; `iat-nova simulate compare` "
        "compares strategies on a scenario.".format(", ".join(SHIPPED_STRATEGIES)),
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
            ("pqos-os", "as resctrl, which libpqos's OS interface drives as well"),
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
                "classes of service of devices (Intel I/O RDT), through resctrl and /dev/mem; "
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
        "the ports of NVMe disks: pollute-buffer switches DDIO off if storage evicts the "
        "lines of other tenants from the cache. Needs `port_dca`.",
    ),
    cfg.IntOpt(
        "cha_slices",
        default=1,
        min=0,
        help="Number of LLC slices of each package on which DDIO's hits and misses are counted, at "
        "least one per cluster of sub-NUMA clustering. The counts are scaled to all slices, as in "
        "the paper with one slice. 0: all slices.",
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
        "enforces, with a monitoring group of resctrl (an RMID) per tenant, and with "
        "ddio_interface = iordt one per port of devices. Programs that monitor by CPU (pqos -m) "
        "then have fewer RMIDs.",
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
        help="Emulated seconds after which the agent ends. Unset or 0: the scenario's length.",
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
        help="Seconds without another event of libvirt or OVSDB after which the inventory is read "
        "again. If events do not stop, the inventory is read after ten times as long.",
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
    cfg.StrOpt(
        "sysfs_root",
        default="/sys",
        advanced=True,
        help="The mount point of sysfs, for online CPUs and PCI devices. The hardware's "
        "interfaces are always in /sys.",
    ),
    cfg.StrOpt(
        "proc_root",
        default="/proc",
        advanced=True,
        help="The mount point of procfs, for the threads of ovs-vswitchd. All else is in /proc.",
    ),
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
