# SPDX-License-Identifier: Apache-2.0
"""The interfaces of one host: which exist, which are chosen, and all of them in one value."""
