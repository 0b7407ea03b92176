# SPDX-License-Identifier: Apache-2.0
"""Hands on the machine: counters, cache allocation, DDIO ways."""
