# SPDX-License-Identifier: Apache-2.0
"""A real Nova drives iat-nova; see `tests.nova.cloud`."""
