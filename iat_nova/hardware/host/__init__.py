# SPDX-License-Identifier: Apache-2.0
"""The interfaces of one host: detection, choice, and the value with all chosen interfaces."""
