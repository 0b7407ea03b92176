# SPDX-License-Identifier: Apache-2.0
"""The modules that Watcher loads; they import no other package of iat_nova."""
