# SPDX-License-Identifier: Apache-2.0
"""The agent: the loop, the parts of the loop, and the code that joins the parts."""
