# SPDX-License-Identifier: Apache-2.0
"""Hosts reduced to miss curves: what a strategy's loop is worth, in minutes.

The emulated server (`iat_nova.sim`) runs every access; here a host is some formulas, so that
hundreds of hosts can be tried, and the best static allocation be found by exhaustive search.
Plain Python: neither numpy nor the emulated server is needed.
"""
