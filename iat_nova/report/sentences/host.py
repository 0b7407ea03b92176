# SPDX-License-Identifier: Apache-2.0
"""The sentences of `iat-nova doctor`: what a host offers an agent, and what to type to mend it."""

from collections.abc import Mapping

_FINDINGS: Mapping[str, str] = {
    "of-subject": "{subject}: {state:also}",
    # CPU and cache domains
    "cpu-known": "{name} ({tables})",
    "cpu-unknown": "{name}: no event table for {vendor} family {family} model {model}: the agent "
    "does not start, because it could not count the effect of its masks",
    "nodes-in-one-cache": "{domains:list}; each node's slices cache only the node's own memory: "
    "for a guest in one node a way holds 1/{nodes} of its size; masks and DDIO's ways are the same "
    "in all nodes",
    "domain-nodes": "domain {domain}: nodes {nodes}",
    "domain-ways": "domain {domain}: {ways:ways}",
    "domain-mask": "domain {domain}: {mask}",
    "cores-shared": "cores shared by {owners:list}: CPUs {cores:list}",
    # resctrl
    "resctrl-not-mounted": "not mounted",
    "resctrl-not-in-kernel": "this kernel has no resctrl, though the CPU can allocate cache",
    "no-cat": "this CPU has no cache allocation: /proc/cpuinfo shows no flag cat_l3",
    "no-cat-virtual-machine": "this is a virtual machine, whose CPU has no cache allocation: "
    "/proc/cpuinfo shows the flag hypervisor and no flag cat_l3",
    "resctrl-offers": "{domains:list}; {classes} classes of service for the agent",
    "cpus-in-no-domain": "{cpus}: sysfs shows no L3 cache of these CPUs that resctrl has; the "
    "agent manages nothing on them",
    "no-class-left": "no class of service is left for the agent",
    "cdp-mounted": "mounted with cdp: code and data get the same mask, of half as many classes",
    "bandwidth-limits": "the agent can limit it for each class of service: {limits:also}",
    "bandwidth-no-limits": "not limited: {cause:also}",
    "mba-percent": "{least_percent} to 100 %, in steps of {step_percent} %",
    "mba-absolute": "absolute, in eighths of a GB/s, up to {most_eighths}, which limits nothing",
    "mba-absent": "this CPU, or its kernel, has no memory bandwidth allocation (info/MB)",
    "mba-steered": "resctrl is mounted with mba_MBps: the kernel steers memory bandwidth itself",
    "mba-unreadable": "the limits cannot be read: {error:also}",
    "mba-step-invalid": "{path} is {step}: expected a positive number",
    "group-of-libvirt": "{group}: libvirt allocates cache",
    "group-of-other": "{group}: another program allocates cache",
    "ways-reserved": "exclusive or pseudo-locked, never touched: {domains:list}",
    "groups-monitor": "{groups:list}; a CPU that the agent gives a class is not counted there "
    "until the agent ends",
    "group-cpus": "{group}: CPUs {cpus}",
    # registers, DDIO, I/O allocation
    "registers-unknown": "not used: the agent knows no counter registers of this CPU",
    "msr-loaded": "loaded",
    "msr-not-loaded": "not loaded",
    "ddio-register-unknown": "not known on this CPU: DDIO's ways stay as they are",
    "ddio-masks": "{domains:list}",
    "no-cache-domain": "no cache domain",
    "io-alloc-absent": "not offered: Zen 5 CPUs have it, with Linux 6.19 or later",
    "io-alloc-on": "{setting}; devices use the highest class of service; only writes of "
    "devices with PCIe TPH follow it",
    "io-alloc-off": "{setting}; devices use the highest class of service once a strategy confines "
    "devices; only writes of devices with PCIe TPH follow it",
    "iordt-present": "{devices} devices in {ports} ports on {channels} channels; tags with a class "
    "on {classes}, with an RMID on {rmids} channels; classes of devices on in cache domain "
    "{on:list}; the agent uses I/O RDT with ddio_interface = iordt alone",
    "ports-unnamed": "no root port is named in [iat] dca_off_ports or dca_ports",
    "ports-off": "DDIO off while the agent enforces: {ports:list}",
    "ports-switchable": "a strategy may switch DDIO off: {ports:list}",
    # counters
    "perf-opens": "{events} events open",
    "cha-events-unknown": "not counted: this CPU's events for DDIO's hits and misses are not known",
    "cha-absent": "not there: the kernel counts no hits and misses of DDIO",
    "cha-of-intel-only": "not counted: only Intel's CPUs count DDIO's hits and misses",
    "cha-counted": "{slices} slices, counted on CPUs {cpus}",
    "fabric-events-unknown": "not counted: no event of this CPU for the writes of devices is known",
    "fabric-absent": "not counted: writes of devices cannot be counted",
    "fabric-counted": "lines that devices write, by socket, counted on CPUs {cpus}; this CPU does "
    "not count which of them hit the LLC",
    "tenants-monitored": "{events:list} of each tenant, {rmids} RMIDs",
    "tenants-monitored-by-counters": "{events:list} of each tenant, {rmids} RMIDs; {counters} "
    "counters of traffic in a cache domain, which may run out",
    "tenants-unmonitored": "single tenants cannot be monitored",
    "monitored-occupancy": "occupancy",
    "monitored-traffic": "memory traffic",
    # libpqos
    "libpqos-usable": "{library}, for cat_interface = pqos-msr",
    "libpqos-not-needed": "not installed; with resctrl, only cat_interface = pqos-msr needs it",
    "libpqos-in-use": "process {pid} holds {path}: it allocates cache, or is about to",
    # whose rights
    "rights-of-service": "of the service: {account:also}",
    "rights-of-user": "of the current user ({cause:also}); the service has others: {account:also}",
    "account-capable": "user {user} with {capabilities:list}",
    "account-bare": "user {user} with no capability",
    "account-stands-in": "{account:also} (there is no user {absent} yet)",
    "not-root": "not root",
    "capabilities-lacking": "this process itself has no {capabilities:list}",
    # agents that run, and what others left
    "agent-runs": "runs as process {pid}",
    "agent-hands-over": "runs as process {pid}; its next end hands over",
    "agent-asked-unreadably": "runs as process {pid}; {cause:also}",
    "settings-out-of-reach": "not restored yet, out of reach: {settings:also}",
    "groups-left-behind": "groups of an earlier agent, without its snapshot: {groups:list}",
    "handed-over-lately": "the last agent handed over: the next agent may adopt the host until "
    "{within_s:g} s after the hand-over",
    "ended-unrestored": "an agent ended without restoring the original hardware settings",
    # configuration, policy, sources
    "files-read": "{files:list}",
    "no-file-read": "no configuration file was read: every option has its default",
    "files-denied": "the service may not read {files:list}",
    "hardware-emulated": "hardware = emulated: an emulated server is driven, nothing of this host",
    "mode-observe": "mode = observe: decides and records, changes no ways",
    "policy-usable": "{source}",
    "cache-tuned": "{guest}: libvirt allocates cache to it",
    "bandwidth-unmeasured": "[iat] memory_bandwidth_gbps is not set: the bandwidth of a cache "
    "domain in GB/s (100 %) is not known",
    "bandwidth-measured": "100 % is {gbps:g} GB/s of a cache domain ([iat] memory_bandwidth_gbps)",
    "bandwidth-unused": "[iat] memory_bandwidth_gbps is not used: this CPU does not limit in GB/s",
    "guests-seen": "guests: {count}, at {uri}",
    "switch-with-pmd": "bridges: {bridges}; PMD threads on CPUs {cpus}",
    "switch-without-pmd": "bridges: {bridges}; no PMD threads",
    # what an agent would do
    "interface-chosen": "{chosen}: {cause:also}",
    "would-not-start": "the agent cannot start: see {subjects:list}",
    "would-observe": "the agent would only observe: see {subjects:list}",
    "would-enforce": "the agent can enforce here",
    "would-enforce-once-set": "the agent can enforce here, once [iat] mode = enforce is set",
    "with-real-hardware": "with hardware = auto {verdict:also}",
}

_REMEDIES: Mapping[str, str] = {
    "report-cpu": "report the CPU to the project",
    "mount-resctrl": "mount -t resctrl resctrl {path}",
    "remount-resctrl": "umount {path}; mount -t resctrl resctrl {path}",
    "boot-with": "boot with {parameter}",
    "use-other-cpu": "use a server whose CPU has the flag; Haswell: boot with rdt=l3cat",
    "use-compute-host": "run iat-nova on the compute host itself",
    "compare-cache-ids": "compare {path} with schemata",
    "remove-a-group": "ls -d {path}/*/   # then rmdir a group that no program needs",
    "remove-group": "rmdir {path}   # if no program needs the group",
    "remove-cachetune": "virsh edit {guest}   # remove <cachetune>; then stop and start the guest",
    "load-module": "modprobe {module}",
    "give-dac-override": "systemctl edit iat-nova-agent   # AmbientCapabilities=CAP_DAC_OVERRIDE, "
    "as its unit has",
    "allow-msr-writes": "echo on > {path}   # or boot with msr.allow_writes=on",
    "unlock-kernel": "boot without lockdown= (and without secure boot where it implies it)",
    "end-process": "ps -p {pid}   # then kill {pid} if no program needs the process",
    "use-whole-cores": "openstack --os-compute-api-version 2.86 flavor set "
    "--property hw:cpu_thread_policy=require (or isolate) FLAVOR; choose whole cores in "
    "cpu_dedicated_set and pmd-cpu-mask",
    "ask-as-root": "sudo iat-nova doctor",
    "bring-back": "bring the CPU online (chcpu -e CPU), or the root port back (echo 1 "
    ">/sys/bus/pci/rescan); then run iat-nova restore",
    "restore-host": "iat-nova restore",
    "adopt-or-restore": "systemctl start iat-nova-agent   # or: iat-nova restore",
    "list-file": "ls -l {path}   # then let the service's user or group read it",
    "set-option": "set [iat] {option} = {value}",
    "enforce-later": "set [iat] mode = enforce   # not a fault: once a day of observing is read, "
    "and iat-nova qualify passes",
    "see-option": "see [iat] {option}",
    "remove-option": "remove the option",
    "measure-bandwidth": "iat-nova qualify --only bandwidth   # measures the value of [iat] "
    "memory_bandwidth_gbps",
    "check-policy": "iat-nova policy check {path}",
    "check-default-policy": "iat-nova policy check",
    "start-libvirt": "systemctl start {unit}   # or set [iat] libvirt_uri, where libvirt listens",
    "use-ovsdb-socket": "ovs-vsctl --no-wait set-manager ptcp:6640:127.0.0.1   # or set [iat] "
    "ovsdb_connection = {address}, where ovsdb-server listens",
    "start-switch": "systemctl start openvswitch-switch   # without Open vSwitch: set [iat] "
    "ovsdb_connection = none",
}

SENTENCES: Mapping[str, str] = {**_FINDINGS, **_REMEDIES}
