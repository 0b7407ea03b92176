# SPDX-License-Identifier: Apache-2.0
"""What an operator checks: what an agent would find on this host, and what the hardware does."""
