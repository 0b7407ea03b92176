# SPDX-License-Identifier: Apache-2.0
"""What Nova itself loads; imports nothing else of ours."""
