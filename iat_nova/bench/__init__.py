# SPDX-License-Identifier: Apache-2.0
"""What an iteration of the loop costs, on hardware in memory or this host's own."""
