# SPDX-License-Identifier: Apache-2.0
"""Hosts reduced to miss curves, to evaluate a strategy's loop within minutes.

The emulated server (`iat_nova.experiments.sim`) simulates every access. Here a host consists of
formulas. Hundreds of hosts can be tried, and an exhaustive search finds the best static allocation.
Plain Python: neither numpy nor the emulated server is needed.
"""
