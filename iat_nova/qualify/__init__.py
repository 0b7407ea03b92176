# SPDX-License-Identifier: Apache-2.0
"""Does this host's hardware do what the agent asks of it? Measured by effect, then judged.

A module a test: `measure` does the input and output, `judge` is a pure function of the rows it
returned. `registry` lists them.
"""
