# SPDX-License-Identifier: Apache-2.0
"""Output for people: way maps, live screen, HTML report."""
