# SPDX-License-Identifier: Apache-2.0
"""Does this host's hardware do what the agent asks? Measured by effect, then judged.

Each test is a module. `measure` does the input and output. `judge` is a pure function of the
measured rows. `run` lists the tests.
"""
