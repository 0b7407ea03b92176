# SPDX-License-Identifier: Apache-2.0
"""The sentences of inventory and classification: sources, guests, guaranteed ways."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    # sources: libvirt, Open vSwitch, the host
    "host-stale": "the host's facts are stale: {error}",
    "libvirt-problem": "libvirt at {uri}: {problem:also}; no guests have been seen yet",
    "libvirt-problem-alone": "libvirt at {uri}: {problem:also}",
    "libvirt-problem-since": "libvirt at {uri}: {problem:also}; guests are shown as of "
    "{seen_s:utc}",
    "libvirt-unanswered": "libvirt at {uri} ([iat] libvirt_uri)",
    "libvirt-silent": "libvirtd is not responding",
    "libvirt-slow": "libvirtd is slow: a reading takes more than {slow_s:g} s",
    "libvirt-not-connected": "not connected yet",
    "libvirt-failed": "the connection failed",
    "libvirt-closed-by-server": "libvirtd closed the connection",
    "libvirt-keepalive": "libvirtd did not answer keep-alives",
    "libvirt-closed-here": "the connection was closed here",
    "libvirt-closed": "the connection closed (reason {reason})",
    "ovsdb-not-connected": "OVSDB at {address}: not connected yet",
    "ovsdb-lost": "OVSDB at {address}: connection lost",
    "ovsdb-not-followed": "OVSDB at {address}: the agent's connection thread has ended (see the "
    "log), so changes of the virtual switch are not noticed; restart the agent",
    "ovsdb-unavailable": "OVSDB at {error}",
    "ovsdb-busy": "OVSDB at {address}: its tables are busy",
    "ovsdb-empty": "OVSDB at {address} has no row in Open_vSwitch; run ovs-vsctl init",
    "ovsdb-unanswered": "OVSDB at {address} ([iat] ovsdb_connection; none: no Open vSwitch here)",
    "vswitchd-unanswered": "OVSDB at {address}: ovs-vswitchd, for the CPUs of its PMD threads "
    "([iat] vswitchd_control, or other_config:pmd-cpu-mask)",
    "source-not-answered": "{source:also}: no answer yet",
    # the virtual switch
    "switch-stale": "{trouble:also}; the last picture of the virtual switch is kept",
    "ports-uncounted": "Open vSwitch did not give the packet counts of its ports: {error}",
    "port-option-invalid": "port {port}: options:{option} {value!r} is not a number up to {most}",
    "dpdk-not-started": "DPDK is configured but was not started; see ovs-vswitchd's log",
    "pmd-cpus-kept": "ovs-vswitchd does not run: CPUs {cpus} of its pmd-cpu-mask are kept for it "
    "for {kept_s:g} s. Start ovs-vswitchd, or remove other_config:pmd-cpu-mask",
    "pmd-cpus-given": "ovs-vswitchd does not run: CPUs {cpus} of its pmd-cpu-mask are the host's "
    "until it does. Start ovs-vswitchd, or remove other_config:pmd-cpu-mask",
    "pmd-cpus-unknown": "the PMD threads' CPUs are unknown: ovs-vswitchd's control socket: "
    "{error}; and no ovs-vswitchd is seen in {proc_root}. Set other_config:pmd-cpu-mask or [iat] "
    "vswitchd_control",
    "pmd-mask-invalid": "other_config:pmd-cpu-mask: {error}",
    "stack-unknown": "Open vSwitch has a userspace datapath but its PMD CPUs are not known: it "
    "counts as part of the host",
    # extra specs
    "extra-spec-no-number": "{name}={found!r} is not used: it takes a whole number from {least} "
    "to {most}",
    "extra-spec-not-one-of": "{name}={found!r} is not used: it takes {allowed:or}",
    "extra-spec-misspelt": "{name}={found!r} is not used: it takes {allowed:or}; did you mean "
    "{near}?",
    "extra-spec-above": "{name}={most} is not used: {by}={ways} is above it",
    "extra-spec-unknown": "unknown extra spec {name}; known are {known:list}",
    "extra-spec-unknown-near": "unknown extra spec {name}; did you mean {near}?",
    # guests and their CPUs
    "extra-specs-unknown": "the extra specs of flavor {flavor} are not known; name the flavor "
    "under flavors: in the policy, or match it in a class",
    "guest-tuned": "libvirt allocates cache to this guest (cachetune): the host is only observed",
    "guest-unmanaged": "{name} ({uuid}) is not managed: {causes:also}",
    "cpus-unknown": "no CPUs of the guest are known",
    "cpu-taken": "CPU {cpu} is dedicated to {owner} as well, and {owner} keeps the CPU",
    "cpu-claimed": "CPU {cpu} is dedicated to {claimant} as well",
    "cpus-offline": "CPUs {cpus} are offline",
    "cpus-outside": "CPUs {cpus} are in no cache domain",
    "shared-cpus-gone": "every shared CPU ({cpus}) is offline, another tenant's or in no cache "
    "domain",
    "floats-over-dedicated": "{name} may also run on CPUs {cpus}, which are dedicated to other "
    "tenants",
    "device-shared": "{device} is attached to {guests:list} as well; detach the device from one "
    "guest",
    "device-elsewhere": "{device} is on NUMA node {numa_node}, the guest's CPUs are not: DDIO "
    "fills the LLC of the device's socket",
    "member-warning": "{name}: {warning:also}",
    "member-ways-unused": "its flavor asks for LLC ways of its own; it floats, so the pool's count "
    "for it",
    "member-weight-unused": "it floats, so the pool's weight, 1, counts, not its class's",
    "member-priority-unused": "it is {asked} and floats, so it gets the pool's priority {priority} "
    "(pool.priority)",
    # what libvirt and Nova say of a guest
    "guest-stale": "stale: libvirt unavailable; guests are shown as of {seen_s:utc}",
    "domain-undescribed": "libvirt does not describe it: {error}",
    "domain-xml-unreadable": "the domain's XML cannot be read ({error})",
    "domain-cpus-ignored": "{part}: {error:also}; it is ignored",
    "domain-number-invalid": "invalid {part} '{found}': expected a number up to {most}",
    "device-unwatched": "{cause:also}; it is not watched",
    "hostdev": "a hostdev",
    "interface-hostdev": "an interface of type hostdev",
    "interface-without-target": "an interface of type {type} has no target device",
    "interface-of-unknown-type": "an interface is of the unknown type '{type}'",
    "interface-without": "an interface of type {type} has no <{child} {attribute}=...>",
    "device-without-address": "{device:also} has no source address",
    "device-address-unreadable": "{device:also} has an unreadable PCI address {address}",
    "nova-metadata-absent": "no metadata of Nova: flavor, owner and specs are unknown",
    "nova-metadata-without": "Nova's metadata does not name the {part}",
    "nova-metadata-nameless": "Nova's metadata holds an {part} without a name; it is ignored",
    "nova-metadata-twice": "Nova's metadata holds the {part} {name} twice; the first counts",
    "spool-unreadable": "{path} cannot be read: {error}",
    "spool-not-understood": "{path} cannot be understood: {error:also}",
    "spool-without-specs": "{path} holds no 'extra_specs' that map names to texts",
    "vcpus-not-pinned": "vCPUs {vcpus} should be dedicated but are not pinned to one CPU each; "
    "they are taken as floating",
    "cpu-policy-unknown": "its CPU policy is unknown: {error:also}",
    "pin-unassigned": "CPU {cpu} is pinned by {guests:list} as well and no cpu_dedicated_set "
    "assigns it; treated as shared",
    "cpu-of-an-earlier": "CPU {cpu} is dedicated to {owner}, which started first; vCPU {vcpu} is "
    "taken as floating over it",
    "cpu-pinned-by-a-later": "CPU {cpu} is dedicated to it, but {guest} is pinned to it too",
    "emulator-on-a-cpu-of": "its emulator threads are pinned to CPU {cpu}, which is {owner}'s",
    "emulator-of-another": "CPU {cpu} is the guest's own, but {guest}'s emulator threads are "
    "pinned to it",
    # why a tenant has its class, priority and I/O
    "class-and-io-asked": "class {class} ({why:also}); {priority} by {priority_by:also}; io {io} "
    "by {io_by:also}",
    "class-and-io-found": "class {class} ({why:also}); {priority} by {priority_by:also}; io {io} "
    "by auto ({io_why:also})",
    "conditions-met": "{met:list}",
    "condition-met": "{name}={value}",
    "conditions-not-met": "none of {names:list}",
    "no-condition": "matches everyone",
    "no-class-matches": "no class matches",
    "by-class": "class {class}",
    "by-extra-spec": "extra spec",
    "by-flavors": "the policy's flavors",
    "io-no-device": "no VF, PF, macvtap, vDPA or vhost-user",
    "io-not-counted": "counted as I/O because of its attachments ({kinds:list}); "
    "not all have packet counts",
    "io-at-or-above": "{packets_per_s:.0f} packets/s, at or above {threshold_per_s:.0f}",
    "io-below": "{packets_per_s:.0f} packets/s, below {threshold_per_s:.0f}",
    "pool-reason": "guests whose vCPUs float; priority by pool.priority: {priority}",
    "host-reason": "every other online CPU: housekeeping, emulator threads",
    "stack-reason": "Open vSwitch's PMD threads",
    "stack-reason-source": "Open vSwitch's PMD threads ({source})",
    "stack-ended": "not managed: no PMD thread runs (ovs-vswitchd does not run)",
    "stack-without-threads": "not managed: no PMD thread runs ({source})",
    "stack-in-kernel": "not managed: Open vSwitch forwards in the kernel, on no cores of its own",
    # guaranteed ways
    "guaranteed-too-many": "is guaranteed {ways} ways, the LLC has {usable} for tenants",
    "guaranteed-together": "cache domain {domain}: the tenants' minimums are {ways} ways "
    "together, the LLC has {usable} for tenants: some will share",
    "guaranteed-together-critical": "cache domain {domain}: the minimums of PC tenants and the "
    "stack are {ways} ways together, the LLC has {usable} for tenants: some will share",
    "bandwidth-unlimited": "bandwidth_min of {classes:list}: this CPU limits memory bandwidth in "
    "GB/s, and how many are 100 % is not known: nothing is limited; set [iat] "
    "memory_bandwidth_gbps",
    "flavor-asks-placement-only": "flavor {flavor} asks Placement for {resources} ways "
    "({resource}) and does not set {spec}: make them equal",
    "flavor-disagrees": "flavor {flavor} asks Placement for {resources} ways ({resource}) and sets "
    "{ways} as {spec}: make them equal",
    "flavor-asks-agent-only": "flavor {flavor} guarantees {ways:ways} ({spec}) that Placement does "
    "not count, so Nova may promise more ways than a host has: add {resource}={ways} once hosts "
    "have their provider.yaml",
    "over-committed": "over-committed: {facts:also}",
    "ways-promisable": "cache domain {domain}: {ways:ways}{less:parts} leave {left}",
    "less-reserved": " - {count} reserved",
    "less-ddio": " - {count} that DDIO may take",
    "less-stack": " - {count} of the stack",
    "less-pool": " - {count} of the pool",
    "less-host": " - {count} of the host",
    "less-shared": " - {count} that must stay shared",
    "promised": "{guarantee:also} for guarantees, but its guests are guaranteed {ways:ways}",
    "spare-elsewhere": "{ways} ways are left in other cache domains",
    "no-spare-elsewhere": "no ways are left in other cache domains",
    "placement-uncounted": "Placement did not count {guests:list}",
}
