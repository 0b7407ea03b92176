# SPDX-License-Identifier: Apache-2.0
"""Rally plug-ins of iat-nova."""
