# SPDX-License-Identifier: Apache-2.0
"""README's commands on a bare Debian: `tox -e bare`."""
