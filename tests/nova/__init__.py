# SPDX-License-Identifier: Apache-2.0
"""A real Nova drives iat-nova; see `tests.nova.cloud`."""

from tests import time_limit

time_limit.install(600.0)  # Rally's task takes two and a half minutes
