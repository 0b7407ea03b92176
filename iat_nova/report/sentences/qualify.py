# SPDX-License-Identifier: Apache-2.0
"""The sentences of `iat-nova qualify`: measurement, meaning and remedy."""

from collections.abc import Mapping

_MEASURED: Mapping[str, str] = {
    # masks
    "mask-misses": "arrays too large for {few} ways and not for {many} miss in "
    "{few_missed_share:share} of accesses with {few} ways and in {many_missed_share:share} with "
    "{many}",
    "mask-changes-nothing": "{measured:also}: the mask changes nothing",
    "mask-noise": "{measured:also}; but even arrays of half that size miss in up to "
    "{missed_share:share} of accesses",
    "mask-no-array-between": "no array lies well between {few} and {many} ways",
    # DDIO's ways
    "ddio-misses-by-ways": "of lines that devices wrote {few_missed_share:share1} missed with "
    "{few} ways and {many_missed_share:share1} with {many}",
    "ddio-register-keeps": "asked for {asked} ways, {ways} are read back",
    "ddio-traffic-changed": "{measured:also}; but the traffic went from {least_per_s:rate} to "
    "{most_per_s:rate} during the test",
    "ddio-buffers-fit": "{measured:also}: the buffers that devices write to fit in {few} ways "
    "already",
    "ddio-always-misses": "{measured:also}: nearly every line misses with few ways and with many",
    "ddio-changes-nothing": "{measured:also}: the ways change nothing",
    "ddio-buffers-unknown": "{measured:also}: devices write to buffers of other programs, which "
    "may exceed what {many} ways hold",
    "ddio-noise": "{measured:also}: noise explains the difference",
    # slices
    "slice-farthest": "of {slices} slices number {slice} is farthest from the mean: "
    "{change_share:gain1}",
    "slices-little-written": "devices wrote {lines:.0f} cache lines to a slice during the test: "
    "too few for a result",
    # memory bandwidth
    "stream-limited": "one CPU streams {free_bytes_per_s:gbps} without a limit and "
    "{limited_bytes_per_s:gbps} at a limit of {limit:also}",
    "stream-drifts": "{measured:also}; unlimited it went from {first_bytes_per_s:gbps} to "
    "{last_bytes_per_s:gbps} by itself",
    "stream-unchanged": "{measured:also}: the limit changes nothing",
    "stream-noise": "{measured:also}: the difference is within the noise of one CPU's stream",
    "limit-in-percent": "{limit_percent} %",
    "limit-in-gbps": "{limit_gbps:g} GB/s",
    # time of a write
    "write-times": "a write and its read-back take (median) {medians:list}; the slowest took "
    "{slowest_ms:.1f} ms",
    "write-median": "{what} {median_ms:.2f} ms",
}

_MEANINGS: Mapping[str, str] = {
    "nothing-known": "Not measured.",
    "masks-isolate": "A tenant keeps to its ways: the agent can protect tenants from each other.",
    "masks-without-effect": "The agent's masks would have no effect here: do not enforce.",
    "masks-disturbed": "Other programs filled the cache during the test, or memory beyond the LLC "
    "answers: nothing is proven.",
    "masks-untestable": "With so few ways nothing can be said of masks.",
    "ddio-follows": "DDIO's ways follow: the agent can give I/O room, and take it.",
    "ddio-not-resizable": "The agent cannot resize DDIO here.",
    "ddio-without-effect": "The agent would set ways aside that do nothing for I/O. The agent "
    "finds out by itself only under loads that compete for these ways.",
    "ddio-undecided": "Whether DDIO follows its ways is not known yet.",
    "port-follows": "A port's ways follow its class, beside DDIO's: the agent can keep a drive's "
    "writes away from packets.",
    "port-without-effect": "Ways of single ports would have no effect here.",
    "port-undecided": "Whether a port follows its ways is not known yet.",
    "one-slice-stands": "One slice stands for all: [iat] cha_slices = 1 will do.",
    "one-slice-misleads": "Hits and misses counted on one slice would be off by that much.",
    "slices-undecided": "Whether one slice stands for all is not known yet.",
    "limits-throttle": "A limit of memory bandwidth slows a class down: it can be used.",
    "limits-throttle-whole": "A limit of memory bandwidth slows a class down: it can be used. All "
    "{cpus} CPUs move {gbps:.1f} GB/s together: [iat] memory_bandwidth_gbps = {gbps:.1f}.",
    "limits-throttle-part": "A limit of memory bandwidth slows a class down: it can be used. "
    "{cpus} CPUs move {gbps:.1f} GB/s together; what all CPUs of a cache domain do (--cpus, while "
    "the host is empty) is [iat] memory_bandwidth_gbps.",
    "limits-without-effect": "Limits of memory bandwidth would have no effect; masks and DDIO do "
    "not depend on it.",
    "limits-undecided": "Whether limits of bandwidth work is not known yet.",
    "writes-quick": "Writes take a negligible part of each second.",
    "writes-slow": "The agent works, but is slow to change many tenants' ways.",
    "writes-too-slow": "Changing the ways of a few tenants would take longer than the loop's "
    "interval.",
}

_UNAVAILABLE: Mapping[str, str] = {
    "llc-size-unknown": "the size of the LLC is not known (sysfs shows none)",
    "too-few-ways-free": "too few ways are free to compare a small class with a large one",
    "no-adjoining-ways-free": "no {ways} contiguous ways are free of resctrl groups in mode "
    "exclusive or pseudo-locked",
    "core-not-counted": "CPU {cpu}: its counters could not be read; another program may use them "
    "(perf, a guest with a virtual PMU)",
    "ddio-not-movable": "DDIO's ways cannot be moved: {cause:also}",
    "ddio-not-counted": "hits and misses of devices, which the test needs, are not counted: "
    "{cause:also}",
    "ddio-has-no-ways": "no mask for DDIO is set or known here: devices may fill any way",
    "ddio-little-written": "devices write {lines_per_s:rate} cache lines: a result needs at least "
    "{least_per_s:rate}",
    "ports-not-placed": "single ports get no ways here",
    "port-of-disk-unknown": "no port with a class of its own (I/O RDT) is known to be the disk's",
    "disk-has-controllers": "the disk has {controllers} NVMe controllers (multipath): no port "
    "is its alone",
    "ddio-counters-stopped": "DDIO's counters stopped; another program may use them (perf, pcm)",
    "slices-not-counted": "no slice counts what devices write on this CPU",
    "slices-not-read": "no slice could be read; another program may use their counters",
    "cha-pmus-not-shown": "the kernel shows no uncore_cha PMU",
    "no-limits-here": "memory bandwidth cannot be limited here",
    "limit-not-kept": "asked for a limit of {asked}, {kept} is read back",
    "walk-not-written-for": "the walk is written for x86_64, this is {machine}",
    "no-memory-for-code": "no memory to run code in: {reason}",
    "no-memory-for-array": "no memory for an array of {size_bytes} bytes: {reason}",
    "cpu-unusable": "CPU {cpu} cannot be used: {reason}",
    "disk-unreadable": "--disk: {reason}",
    "disk-unfit": "--disk is neither a block device nor a file of at least {least_mib} MiB",
    "program-not-installed": "{program} is not installed",
    "program-not-started": "{path}: {reason}",
    "program-failed": "{program} ended with status {status}: {said}",
    "program-failed-silently": "{program} ended with status {status}",
    "program-hangs": "{program} did not end",
    "no-memory-rate": "stress-ng gave no memory rate",
    "cpus-of-several-domains": "--cpus {cpus}: these are not CPUs of one cache domain; there are: "
    "{domains:also}",
    "cpus-busy": "--cpus {cpus}: {busy} are busy; name idle CPUs",
    "no-idle-cpus": "no cache domain has two idle CPUs that no guest may be pinned to; name CPUs: "
    "--cpus LIST",
}

_REMEDIES: Mapping[str, str] = {
    "see-bios-and-report": "look at the BIOS (RDT, CAT) and the microcode; send this report with a "
    "bug report",
    "send-report": "send this report with a bug report",
    "repeat-while-idle": "repeat the test while the host is idle",
    "repeat-on-idle-cpus": "repeat the test while the host is idle, on other --cpus",
    "repeat-under-steady-traffic": "repeat the test under steady traffic, or with --disk",
    "repeat-under-steadier-traffic": "repeat the test under steadier traffic",
    "leave-ddio-alone": "set [iat] ddio_interface = none; send this report with a bug report",
    "leave-ports-alone": "set [iat] ddio_interface = auto; send this report with a bug report",
    "set-ddio-interface-iordt": "with I/O RDT (iat-nova doctor has a line): set [iat] "
    "ddio_interface = iordt",
    "name-nvme-behind-port": "name an NVMe disk with a channel of its own: --disk /dev/nvme0n1",
    "use-faster-disk-or-traffic": "name a faster disk (--disk), or send more traffic",
    "see-ddio-in-bios": "check that DDIO is on in the BIOS; buffers that are never used twice "
    "show this result, too",
    "name-disk-or-send-traffic": "name a disk to read from (--disk), or send traffic to this host",
    "name-nvme-or-send-traffic": "name an NVMe disk to read from (--disk /dev/nvme0n1), or send "
    "traffic to this host",
    "name-nvme-disk": "name an NVMe disk to read from (--disk /dev/nvme0n1): then buffers have a "
    "known size",
    "name-faster-disk": "name a faster disk, or send traffic to this host and leave out --disk",
    "count-all-slices": "set [iat] cha_slices = 0, which counts all slices",
    "see-what-holds-cpus": "look for the cause of slow CPUs (SMIs, frozen or overcommitted CPUs)",
    "use-cpu-with-mba": "run iat-nova doctor, which says why; limits need a CPU with MBA",
    "remove-default-limit": "remove the limit of the default class, which another program set: "
    "this limit holds for all classes",
    "allow-code-in-memory": "with SELinux: setsebool -P selinuxuser_execheap 1, or run iat-nova "
    "unconfined",
    "name-online-cpus": "name online CPUs: --cpus",
    "name-direct-disk": "name a block device or a large file on a disk that takes O_DIRECT: --disk",
    "name-present-disk": "name a disk of this host",
    "write-large-file": "fallocate is not enough, fill the file with data: dd if=/dev/urandom "
    "of=FILE bs=1M count=1024",
    "use-newer-stress-ng": "name an idle CPU (--cpus), or install a newer stress-ng (0.15 gives "
    "the rate)",
    "install-program": "apt install {program} (dnf install {program})",
}

SENTENCES: Mapping[str, str] = {**_MEASURED, **_MEANINGS, **_UNAVAILABLE, **_REMEDIES}
