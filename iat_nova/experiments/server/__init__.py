# SPDX-License-Identifier: Apache-2.0
"""The emulated server: the protocols of `hardware.api` over the engine."""
