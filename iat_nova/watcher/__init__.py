# SPDX-License-Identifier: Apache-2.0
"""What Watcher loads; imports nothing else of ours."""
