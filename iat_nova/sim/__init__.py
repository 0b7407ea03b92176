# SPDX-License-Identifier: Apache-2.0
"""The emulated server: a cache model, workloads and virtual time behind the hardware protocols."""
