# SPDX-License-Identifier: Apache-2.0
"""Guests and devices of this host: libvirt, Open vSwitch and sysfs, read into facts."""
