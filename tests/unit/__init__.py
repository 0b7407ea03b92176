# SPDX-License-Identifier: Apache-2.0
"""Unit tests. No property of ours is about time: a busy machine must not make one fail."""

import hypothesis

hypothesis.settings.register_profile(
    "iat-nova", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("iat-nova")
