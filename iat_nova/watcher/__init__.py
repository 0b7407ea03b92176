# SPDX-License-Identifier: Apache-2.0
"""The modules loaded by Watcher; no other package of iat_nova is imported."""
