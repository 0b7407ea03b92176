# SPDX-License-Identifier: Apache-2.0
"""Who runs on this host: libvirt, Open vSwitch and sysfs, read into facts."""
