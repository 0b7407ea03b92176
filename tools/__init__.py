# SPDX-License-Identifier: Apache-2.0
"""What a checkout needs and an installation does not."""
