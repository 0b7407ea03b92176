# SPDX-License-Identifier: Apache-2.0
"""Access to a machine's hardware: counters, cache allocation, DDIO ways."""
