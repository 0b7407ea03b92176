# SPDX-License-Identifier: Apache-2.0
"""The sentences of the hardware's errors, their remedies, and what a restore did."""

from collections.abc import Mapping

_ANY: Mapping[str, str] = {
    "with-remedy": "{state:also}; {remedy:also}",
    "asked-for": "asked for",
    "file-unusable": "{path}: {reason}",
    "file-unwritten": "{path}: write: {reason}",
    "cache-domain": "cache domain {domain}",
    "domain-absent": "there is no cache domain {domain} on this machine (there are: {there:list})",
    "domain-all-offline": "cache domain {domain}: none of its CPUs is online",
    "undo-failed": "{error:also}; and undoing it failed too: {failures:also}",
    "refused-for-test": "cache domain {domain}, class {name!r}: refused for a test",
    "bench-needs-perf": "the bench reads perf's counters",
}

_CLASSES: Mapping[str, str] = {
    # what CAT accepts
    "class-mask": "cache domain {domain}, class {name!r}: mask {mask:mask}",
    "mask-empty": "{what:also} holds no way",
    "mask-too-high": "{what:also} goes beyond the {ways} ways of this cache",
    "mask-with-gap": "{what:also} has a gap; this CPU wants contiguous masks",
    "mask-too-small": "{what:also} has fewer than the {ways} ways required",
    "mask-reserved": "{what:also} takes reserved ways {reserved:mask}; another owner holds them",
    "classes-too-many": "cache domain {domain}: {wanted} classes wanted, {free} can be had beside "
    "the default one",
    "class-twice": "cache domain {domain}: two classes are named {name!r}",
    "cpu-outside-domain": "cache domain {domain}, class {name!r}: CPU {cpu} is not in this domain",
    "cpu-in-two-classes": "cache domain {domain}: CPU {cpu} is in class {first!r} and in "
    "{second!r}",
    # memory bandwidth
    "class-bandwidth": "cache domain {domain}, class {name!r}: memory bandwidth",
    "bandwidth-whole-unknown": "cache domain {domain}: {percent} % of memory bandwidth: how many "
    "GB/s are 100 % is not known",
    "bandwidth-unlimitable": "{what:also} cannot be limited here",
    "bandwidth-of-default": "{what:also} of the default class is never limited",
    "bandwidth-out-of-range": "{what:also} {limit} is not between {least} and {most} in steps of "
    "{step}",
    # resctrl
    "resctrl-unmounted": "resctrl is not mounted; mount -t resctrl resctrl {path}",
    "resctrl-arbitrates": "mounted, and the kernel arbitrates",
    "resctrl-absent": "{path}: no L3 cache allocation there",
    "resctrl-without-l3": "{path}: mounted, without L3 cache allocation (its info has "
    "{resources:list})",
    "resctrl-without-domains": "{path}: no cache domain with CPUs online; bring CPUs of a cache "
    "domain online: chcpu -e CPUS",
    "resctrl-refused": "{path}: {change}: {reason}",
    "resctrl-refused-because": "{refusal:also}; the kernel says: {said}",
    "resctrl-locked": "{path}: another program holds its lock (lslocks shows which)",
    "schemata-line-absent": "{path}/schemata has no line {resource}",
    "cpus-in-foreign-group": "{path}: CPUs {cpus} are in this group, which the agent did not make",
    "groups-not-as-left": "the last agent left the groups {left:list}, and now there are "
    "{there:list}",
    "groups-of-absent-domains": "the last agent left groups of cache domains that do not exist now",
    "groups-changed-meanwhile": "changed by another program since the hand-over: {changes:also}",
    # libpqos
    "pqos-instead": "libpqos is there, and {error:also}",
    "pqos-absent": "no libpqos on this host (looked for {names:list})",
    "pqos-in-use": "process {process} uses libpqos ({path})",
    "pqos-beside-resctrl": "{path} is mounted: libpqos's MSR interface would write registers that "
    "the kernel manages, and the kernel would not notice",
    "pqos-without-cpus": "cache domain {domain}: libpqos knows none of its CPUs",
    "pqos-without-l3": "libpqos: this machine has no L3 cache allocation",
    "pqos-without-capabilities": "libpqos returned no capabilities",
    "pqos-coreinfo-unknown": "libpqos: struct pqos_coreinfo of CPU {cpu} has an unknown form",
    "pqos-l3ca-unknown": "libpqos's struct pqos_l3ca has an unknown form (versions 4 to 7 are "
    "known)",
    "pqos-mba-unknown": "libpqos's struct pqos_mba has an unknown form (versions 4 to 7 are known)",
    "pqos-version-unknown": "libpqos version {version}: only 4 to 7 are known",
    "pqos-cap-size": "libpqos: struct pqos_cap has {size_bytes} bytes, expected {known_bytes}: "
    "this build of libpqos is not supported",
    "pqos-l3ca-size": "libpqos: struct pqos_cap_l3ca has {size_bytes} bytes, expected one of "
    "{known_bytes:list}: this build of libpqos is not supported",
    "pqos-cdp-on": "code and data prioritisation is on",
    "pqos-call-failed": "libpqos: {call}: {reason:also}",
    "pqos-change-failed": "libpqos: {call} ({what:also}): {reason:also}",
    "pqos-masks": "domain {domain} {masks:list}",
    "pqos-limit": "domain {domain} class {number} = {limit}",
    "pqos-cpu": "CPU {cpu}",
    "pqos-cpu-into-class": "CPU {cpu} into class {number}",
    "pqos-class-mask": "class {number} = {mask:mask}",
    "pqos-class-limit": "class {number} = {limit}",
    "pqos-code": "code {number}",
    "pqos-error": "error",
    "pqos-bad-parameter": "bad parameter",
    "pqos-not-offered": "not offered by this machine",
    "pqos-not-initialised": "not initialised",
    "pqos-register-refused": "register or file refused",
    "pqos-performance-counters": "performance counters",
    "pqos-busy": "busy",
    "pqos-interface-unsupported": "the MSR interface is not supported",
    "pqos-overflow": "overflow",
    "pqos-unavailable": "unavailable",
    "cpu-in-foreign-class": "another program has put CPU {cpu} into class {number}",
    "cpuid-without-l3": "CPUID: this CPU has no L3 cache allocation",
}

_DDIO: Mapping[str, str] = {
    "ddio-mask-outside": "cache domain {domain}: DDIO mask {mask:mask} is not within the {ways} "
    "ways of this cache",
    "ddio-mask-with-gap": "cache domain {domain}: DDIO mask {mask:mask} has a gap",
    "ddio-ways-fixed": "cache domain {domain}: DDIO's ways are fixed here: {reason:also}",
    "ddio-unwritable": "cache domain {domain}: DDIO's ways cannot be written here",
    "ddio-not-restored": "domain {domain}: DDIO was restored to {found:mask} and is at {now:mask}",
    "ddio-interface-refused": "ddio_interface = {wanted} cannot be had: {reason:also}",
    "ddio-not-by-msr": "DDIO's register: {reason:also}",
    "ddio-not-by-io-alloc": "io_alloc: {reason:also}",
    "ddio-register-usable": "IIO_LLC_WAYS (0xc8b) can be read and written",
    "msr-writes-refused": "the msr driver refuses writes",
    "kernel-locked-down": "the kernel is locked down ({setting}): no register writes",
    "io-alloc-offered": "resctrl offers io_alloc ({state})",
    "io-alloc-not-offered": "this kernel or CPU has no io_alloc",
    "io-alloc-shut": "devices are kept out of cache domain {domains:list} (io_alloc_cbm)",
    # I/O RDT
    "iordt-no-table": "{path}: not there; firmware lists the devices of I/O RDT in this table, on "
    "Granite Rapids, Sierra Forest and later CPUs",
    "iordt-not-in-cpu": "CPUID shows no I/O RDT, though the firmware has its table",
    "iordt-enable-unknown": "I/O RDT channel {channel}: whether a tag needs the enable bit is not "
    "known: two published texts read the flags of this link differently",
    "iordt-number": "I/O RDT channel {channel}: {number} does not fit into a tag",
    "iordt-channel-absent": "I/O RDT channel {channel}: the firmware's table has no such channel",
    "iordt-register-absent": "I/O RDT channel {channel} has no register for {tag} tags",
    "iordt-register-differs": "I/O RDT channel {channel}: register {address:#x} was set to "
    "{value:#x} and reads {now:#x}",
    "iordt-without-classes": "the CPU counts devices alone, and has no classes for them",
    "iordt-without-resctrl": "classes of devices are groups of resctrl, which is not used here",
    "iordt-with-cdp": "resctrl is mounted with code and data prioritisation",
    "iordt-channels-untagged": "I/O RDT channels {channels:list} have no class tags: their devices "
    "would fill the ways of class 0",
    "iordt-ways-unknown": "cache domain {domain}: the ways of devices are unknown",
    "iordt-class-unknown": "{group}: not exactly one class register followed the test mask, so "
    "the number of its class is unknown",
    "iordt-on-already": "cache domain {domain}: another program, or the firmware, has switched "
    "classes of devices on (register 0xc83)",
    "iordt-switch-differs": "register 0xc83 was set to {value:#x} and reads {now:#x}",
    "irdt-malformed": "the ACPI table IRDT is malformed at byte {offset}: {what:also}",
    "irdt-other-table": "signature {signature} (hexadecimal) is that of another table",
    "irdt-length": "length {length_bytes} is not from {least_bytes} to {most_bytes} bytes",
    "irdt-checksum": "the table's bytes add up to {sum:#x} (modulo 256), not to 0",
    "irdt-type": "type {type} is not known",
    "irdt-device-type": "device type {type} is not known",
    "irdt-link-type": "link type {type} is not known",
    "irdt-uses": "a device of {length_bytes} bytes: the list of its links is cut off",
    "irdt-channels": "{channels} channels: a link has 1 to {most}",
    "irdt-link-absent": "a device uses link {link}, which its unit does not have",
    "irdt-link-twice": "a second link {link} in one unit",
    "irdt-device-twice": "device {device} stands twice in one resource management unit (RMUD)",
    "irdt-channel-absent": "a device uses channel {channel} of link {link}, which has {channels}",
    "irdt-address": "registers at {address:#x}: not aligned, or beyond physical memory",
    "irdt-registers-overlap": "registers at {address:#x} belong to two channels",
    "memory-refused": "{path}: physical address {address:#x}: {reason}",
    "memory-unprotected": "{path} shows RAM: a wrong address of the firmware would let the agent "
    "write to RAM",
    # root ports
    "port-dca-absent": "port_dca: {cpu} has no such switch; Skylake and Cascade Lake have it",
    "not-a-root-port": "{path}: not a PCIe root port of Intel",
    "saved-port-is-none": "{path}: the snapshot names a root port, but this device is not a root "
    "port; nothing was written to the device",
    "port-ignores-bits": "{path}: perfctrlsts_0 was set to {value:#x} and reads {now:#x}: this "
    "port does not keep the value",
    "configuration-space-short": "{path}: ends before {offset:#x}",
}

_COUNTERS: Mapping[str, str] = {
    # registers
    "register-unread": "{path}/msr: register {register:#x}: read: {reason}",
    "register-unwritten": "{path}/msr: register {register:#x}: write {value:#x}: {reason}",
    "register-writes-off": "{refusal:also}: the msr driver refuses writes",
    "register-owner-offline": "register {register:#x}: its owner is offline",
    "counter-in-use": "CPU {cpu}: counter {counter} (register {register:#x} = {value:#x}) is in "
    "use",
    "cha-counter-in-use": "CPU {cpu}: CHA {slice} counter {counter} (register {register:#x} = "
    "{value:#x}) is in use",
    "slices-too-many": "{slices} LLC slices a package: this CPU has at most {most}",
    # perf
    "perf-unknown-machine": "perf_event_open is not known on {machine}",
    "perf-refused": "CPU {cpu}, perf event type {type} config {config:#x}: {reason}",
    "perf-cpu-offline": "{refusal:also}; the CPU is offline",
    "perf-no-right": "{refusal:also} ({why:also})",
    "paranoid-unknown": "kernel.perf_event_paranoid is unknown",
    "paranoid-too-strict": "kernel.perf_event_paranoid = {paranoid}: above 2, CAP_PERFMON may "
    "not be enough (kernels of Debian and Ubuntu)",
    "paranoid-without-perfmon": "kernel.perf_event_paranoid = {paranoid}, without CAP_PERFMON",
    "paranoid-with-right": "kernel.perf_event_paranoid = {paranoid}, with {capabilities:list}",
    "uncore-cha-absent": "{path}: no uncore_cha PMU",
    "amd-df-absent": "{path}: no amd_df PMU",
    "pmu-term-absent": "{pmu}: this kernel's PMU has no term {term!r} (it has: {there:list})",
    "pmu-value-too-wide": "a value is too wide for the bits {bits} of its term",
    # which counters are chosen
    "counters-without-events": "counters_interface = {wanted}: no event table for this CPU "
    "({cpu}): the agent could not count the effect of its decisions",
    "counters-by-kernel-only": "counters_interface = msr: {cpu} is counted through the kernel only",
    "counters-refused": "counters_interface = {wanted}: perf: {reason:also}",
    "perf-group-each-cpu": "one group and one system call per CPU",
    "cpu-without-events": "no event table for this CPU",
    "cha-pmus-absent": "no uncore_cha PMU (modprobe intel_uncore)",
    "cha-pmus-counted": "the kernel's {pmus} CHA PMUs",
    "cha-registers-unknown": "no table of CHA registers for {cpu} (counters_interface = perf)",
    "slices-unknown": "only uncore_cha PMUs give the number of slices (modprobe intel_uncore)",
    "fabric-event-unknown": "no event of this CPU is known; this CPU does not count hits and "
    "misses of devices",
    "fabric-pmu-absent": "no amd_df PMU (modprobe amd_uncore); this CPU does not count hits and "
    "misses of devices",
    "fabric-chosen": "amd_df: lines that devices write, by socket; this CPU does not count hits "
    "and misses of devices",
    # monitoring of tenants
    "monitoring-absent": "monitor_tenants: this CPU or kernel monitors no cache, or resctrl is not "
    "used",
    "rmids-too-few": "{tenants} tenants need an RMID each, but only {free} of {rmids} are free",
    "rmids-in-limbo": "{waiting} of {tenants} tenants wait for an RMID: those given back in the "
    "last {limbo_s:.0f} s may be in use yet",
    "traffic-counters-too-few": "{uncounted} of {tenants} tenants have no counter of memory "
    "traffic: all {counters} of cache domain {domains:list} are assigned; unassign counters that "
    "no program reads (mbm_L3_assignments)",
}

_CHANGES: Mapping[str, str] = {
    # by other programs
    "group-cpus-moved": "{group:group}: CPUs {cpus} were moved",
    "group-removed": "{group:group} was removed",
    "group-mask-changed": "{group:group}: {resource}:{domain} is {mask:mask}, the agent wrote "
    "{wrote:mask}",
    "group-register-changed": "{group:group}: the register of domain {domain} is {mask:mask}, the "
    "agent left {left:mask}",
    "group-limit-changed": "{group:group}: MB:{domain} is {limit}, the agent wrote {wrote}",
    "class-mask-changed": "class {number}: L3:{domain} is {mask:mask}, the agent wrote "
    "{wrote:mask}",
    "class-limit-changed": "class {number}: MB:{domain} is {limit}, the agent wrote {wrote}",
    "class-cpu-moved": "CPU {cpu} was moved out of class {number}",
    "port-ways-changed": "domain {domain}: another program changed the ways of port {ports:list}",
    "ddio-changed": "domain {domain}: DDIO is at {now:mask}, the agent left {left:mask}",
    "iordt-rmids-on-already": "cache domain {domain}: another program, or the firmware, has "
    "switched RMIDs of devices on (register 0xc83)",
    "iordt-rmid-unknown": "the RMID of a monitoring group of a port is not known",
    "port-rmids-too-few": "{ports} ports need an RMID each, and {free} are free",
    "ports-not-monitored": "ports of devices: {error:also}",
    "iordt-port-absent": "the table IRDT has no port {port} any more",
    "iordt-tags-changed": "I/O RDT channels {channels:list}: the class tags were changed",
    "iordt-switch-changed": "cache domain {domain}: classes of devices were switched off",
    "port-bits-changed": "root port {port}: perfctrlsts_0 bits are {bits:#x}, the agent left "
    "{left:#x}",
}

_SNAPSHOT: Mapping[str, str] = {
    "of-part": "{part}: {what:also}",
    "layout-not-undone": "{error:also}; and the previous settings could not be restored: "
    "{second:also}",
    # the writer's lock and the snapshot's file
    "host-taken": "process {process} writes this host's cache masks ({path})",
    "snapshot-unwritten": "{path}: {reason}; without a snapshot nothing is written",
    "snapshot-too-large": "{path}: would be larger than {most_bytes} bytes; without a snapshot "
    "nothing is written",
    "snapshot-damaged": "{path}: not a snapshot, or a damaged one ({why})",
    "snapshot-format": "{path}: format {found}, this version knows {known}",
    "snapshot-of-other-parts": "the snapshot is of {saved:list}, but this agent uses {used:list}",
    "snapshot-file-gone": "{path} is gone",
    "snapshot-file-changed": "{path} was changed by another program",
    "snapshot-not-updated": "the snapshot's file could not be updated: {error:also}",
    "snapshot-gone": "the snapshot is gone",
    "snapshot-recovered": "{reason:also}: written again from what was handed over",
    "snapshot-copy-damaged": "{reason:also}; the copy of it is damaged: {error}",
    "no-snapshot": "no snapshot has the other original settings: DDIO's ways, and beside groups of "
    "other programs the default group's masks, may still be an agent's; a reboot resets them",
    # what is not restored
    "part-absent": "{part}: no such part here; restore with the version that wrote the snapshot, "
    "or reboot the host",
    "settings-not-kept": "did not keep its original settings: {settings:also}",
    "settings-not-restored": "could not restore the original hardware settings: {causes:also}",
    "not-put-back": "not restored: {settings:also}",
    "not-put-back-yet": "not yet restored: {settings:also}",
    "put-back": "restored",
    "stays-in-snapshot": "{setting:also}; the setting stays in the snapshot and is restored when "
    "the CPU or port is back: by an agent that runs, the next start, or iat-nova restore",
    "not-restored-yet": "not restored yet: {setting:also}",
    "restored-with-problems": "{done:also}; but {problems:also}",
    "earlier-agent-left": "an earlier agent left the host changed, with the state directory "
    "{path}: {error:also}",
    "handed-over-just-now": "handed over just now, and may be adopted yet",
    "hand-over-of-nothing": "the agent has written nothing",
    "hand-over-of-others": "{parts:list} cannot be handed over; only resctrl "
    "groups and DDIO's ways can",
    "hand-over-not-adopted": "the hand-over of the last agent is not adopted: {error:also}",
    "hand-over-unusable": "{path}: this agent cannot adopt the hand-over; the file is removed",
    "restored-for-earlier-agent": "an earlier agent had not restored the host; restored now: "
    "{setting:also}",
    "restored-late": "in reach again, and restored: {setting:also}",
    "setting-restored": "restored: {setting:also}",
    "hand-over-removed": "{path}: no agent adopted the hand-over; the file is removed",
    "strategy-without-state": "strategy {strategy} has no state_type",
    "strategy-changed": "the strategy was {before}, and is {now} now",
    "state-not-json": "the strategy's state cannot be written as JSON: {error}",
    "domains-changed": "the cache domains are not those of the hand-over",
    "left-to-next-agent": "handed over: the next agent has {within_s:g} s to adopt the masks; "
    "without a next agent, systemd then restores the original settings",
    # what is out of reach
    "class-masks-offline": "class masks of cache {cache}: its CPUs are offline",
    "class-limits-offline": "bandwidth limits of cache {cache}: its CPUs are offline",
    "classes-of-cpus-offline": "classes of CPUs {cpus}: these CPUs are offline",
    "cpu-registers-offline": "registers of CPUs {cpus}: these CPUs are offline",
    "domain-registers-offline": "registers of cache domains {domains}: the domains' CPUs are "
    "offline",
    "ddio-register-offline": "IIO_LLC_WAYS of cache domain {domain}: its CPUs are offline",
    "iordt-rmid-switch-offline": "register 0xc83 bit 1 (RMIDs of devices) of cache domain "
    "{domain}: its CPUs are offline",
    "iordt-switch-offline": "register 0xc83 bit 0 (classes of devices) of cache domain {domain}: "
    "its CPUs are offline",
    "port-not-in-sysfs": "root port {port} is not in sysfs",
    # what was restored
    "nothing-to-restore": "nothing to restore",
    "restored-from-memory": "{reason:also}: restored from memory",
    "removed": "removed {path}",
    "default-mask-restored": "default group {resource}:{domain} = {mask:mask}",
    "monitored-cpus-restored": "monitoring group {group}: CPUs {cpus} given back",
    "cpu-class-restored": "CPU {cpu} in class {number}",
    "class-masks-restored": "domain {domain}: {masks:list}",
    "class-limits-restored": "domain {domain}: memory bandwidth of {limits:list}",
    "register-restored": "CPU {cpu}: register {register:#x} = {value:#x}",
    "ddio-register-restored": "domain {domain}: IIO_LLC_WAYS = {value:#x}",
    "io-alloc-disabled": "io_alloc disabled",
    "io-alloc-restored": "io_alloc_cbm {domain}={mask:x}",
    "iordt-switch-restored": "cache domain {domain}: register 0xc83 bit 0 = {on}",
    "iordt-rmid-switch-restored": "cache domain {domain}: register 0xc83 bit 1 = {on}",
    "iordt-rmid-restored": "I/O RDT channel {channel}: RMID tag {value:#x}",
    "iordt-tag-restored": "I/O RDT channel {channel}: class tag {value:#x}",
    "port-bits-restored": "root port {port}: perfctrlsts_0 bits {bits:#x}",
}

_REMEDIES: Mapping[str, str] = {
    # classes and masks
    "give-ways": "give at least {ways:ways}",
    "group-tenants": "group tenants",
    "name-another-class": "name another class",
    "give-another-limit": "give another limit",
    "set-bandwidth-gbps": "set [iat] memory_bandwidth_gbps",
    "doctor-says-why": "iat-nova doctor says why",
    # resctrl
    "boot-with-l3cat": "boot with rdt=l3cat, or use a CPU with cat_l3 in /proc/cpuinfo",
    "mount-resctrl-l3": "mount it (mount -t resctrl resctrl {path}), and boot with rdt=l3cat where "
    "the kernel leaves it off",
    "is-resctrl-mounted": "is resctrl mounted?",
    "is-sysfs-mounted": "is sysfs mounted?",
    "remove-groups": "remove control groups that nobody needs (rmdir)",
    "remove-monitoring-groups": "remove monitoring groups that nobody needs (rmdir, in "
    "mon_groups), or wait: the RMID of a removed group is free again when its data has left the "
    "cache",
    "remove-group-or-spare-cpus": "remove the group (rmdir), or do not use its CPUs",
    "end-or-await-program": "end the program, or wait for its end",
    # libpqos
    "install-pqos": "apt-get install intel-cmt-cat",
    "use-resctrl": "set cat_interface = resctrl",
    "use-resctrl-or-cdp-off": "use resctrl, or switch code and data prioritisation off: pqos "
    "--iface=msr -R l3cdp-off",
    "use-resctrl-or-umount": "use resctrl, or umount {path}",
    "end-or-use-resctrl": "end the program, or use resctrl",
    "spare-or-free-class": "do not use the class, or free the class: pqos -R",
    "ask-doctor-and-pqos": "iat-nova doctor shows what is missing, pqos -v -s what libpqos says",
    # registers and root ports
    "load-msr": "modprobe msr",
    "load-intel-uncore": "modprobe intel_uncore",
    "load-amd-uncore": "modprobe amd_uncore",
    "load-cpuid": "modprobe cpuid",
    "give-msr-right": "give the agent CAP_SYS_RAWIO and the right to the file (CAP_DAC_OVERRIDE), "
    "restart its unit if the msr driver was loaded after it started (systemd then ignored "
    "DeviceAllow=), and look at /sys/kernel/security/lockdown: a kernel in lockdown refuses "
    "everybody",
    "update-firmware": "update the firmware (BIOS); the agent does without I/O RDT",
    "iordt-rmids-off-first": "switch them off where they were switched on, or set monitor_tenants "
    "= false",
    "mount-resctrl-debug": "mount resctrl with -o debug (Linux 6.7)",
    "mount-resctrl-without-cdp": "mount resctrl without cdp",
    "iordt-off-first": "switch them off where they were switched on, or leave ddio_interface "
    "at auto",
    "give-memory-right": "give the process CAP_SYS_RAWIO and the right to the file (a unit: "
    "DeviceAllow=/dev/mem), and look at /sys/kernel/security/lockdown: a kernel in lockdown "
    "refuses everybody",
    "kernel-without-memory": "the kernel was built without it (CONFIG_DEVMEM), or a container "
    "hides it",
    "see-iomem": "a driver has claimed the address, or it is RAM: see /proc/iomem",
    "use-kernel-with-strict-devmem": "use a kernel with CONFIG_STRICT_DEVMEM",
    "register-absent": "this CPU (or virtual machine) has no such register, or refuses the value",
    "cpu-online-or-load-msr": "the CPU is offline, or the driver is not loaded: modprobe msr",
    "raise-unit-open-files": "raise the limit of open files (LimitNOFILE= in the unit)",
    "see-kernel-log": "see the kernel's log (dmesg)",
    "give-port-right": "give the agent CAP_SYS_ADMIN, and its unit ProtectKernelTunables=no "
    "(systemctl edit iat-nova-agent; operator/safety has the lines); a kernel in lockdown refuses "
    "anyway",
    "name-port-above": "name the port above the device (lspci -t)",
    "leave-port-out": "remove the port from dca_off_ports",
    # counters
    "give-perfmon": "give the agent CAP_PERFMON",
    "give-perfmon-as-unit": "give the agent CAP_PERFMON, as its unit does",
    "lower-paranoid-give-perfmon": "sysctl kernel.perf_event_paranoid={paranoid}   # for good: "
    "iat-nova.sysctl as /etc/sysctl.d/60-iat-nova.conf; give the agent CAP_PERFMON, as its unit "
    "does",
    "lower-paranoid": "sysctl kernel.perf_event_paranoid={paranoid}   # for good: "
    "iat-nova.sysctl as /etc/sysctl.d/60-iat-nova.conf",
    "other-refuses-perf": "look for another cause of the refusal: SELinux, a kernel in lockdown "
    "(/sys/kernel/security/lockdown), or a seccomp filter of the unit or container",
    "raise-open-files": "raise the limit of open files (LimitNOFILE= in the unit, ulimit -n)",
    "raise-file-max": "raise fs.file-max",
    "event-absent": "this CPU or virtual machine does not offer the event",
    "event-unknown": "this kernel does not know the event, or the group needs too many counters",
    "counters-held": "another program holds the counters exclusively",
    "kernel-without-perf": "the kernel was built without perf events",
    "see-perf-event-open": "see perf_event_open(2)",
    "end-counting-or-use-perf": "end the program that counts there, or use the perf back end",
    "end-counting-or-use-pmus": "end the program that counts there, or use the kernel's PMUs "
    "(counters_interface = perf)",
    "or-counters-by-msr": "or set counters_interface = msr, which takes counters the kernel does "
    "not know of",
    "unset-counters-interface": "unset [iat] counters_interface",
    # snapshot and restore
    "run-restore": "run iat-nova restore",
    "restore-after-agent": "run `iat-nova restore` when the agent has ended",
    "restore-later": "restore later",
    "restore-state-dir": "the agent starts after: iat-nova restore --state-dir {path}",
    "restore-with-its-version": "restore with the version that wrote the file",
    "look-and-remove-snapshot": "look at the file, and remove it when the host is as it should be",
    "end-writer-first": "end this process first (systemctl stop iat-nova-agent)",
    "run-as-root": "run as root",
}

SENTENCES: Mapping[str, str] = {
    **_ANY,
    **_CLASSES,
    **_DDIO,
    **_COUNTERS,
    **_CHANGES,
    **_SNAPSHOT,
    **_REMEDIES,
}
