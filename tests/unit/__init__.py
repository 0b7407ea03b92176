# SPDX-License-Identifier: Apache-2.0
"""Unit tests. No property of ours is about time: a busy machine must not make one fail."""

import sys

try:
    from hypothesis import HealthCheck, settings
except ModuleNotFoundError:  # as after `./quickstart install`: tests without properties run
    print("properties need hypothesis: ./quickstart test installs it", file=sys.stderr)
else:
    settings.register_profile(
        "iat-nova", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("iat-nova")
