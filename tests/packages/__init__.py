# SPDX-License-Identifier: Apache-2.0
"""The packages of distributions: `tox -e packages`."""
