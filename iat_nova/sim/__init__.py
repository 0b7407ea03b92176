# SPDX-License-Identifier: Apache-2.0
"""The emulated server: a machine with CAT and DDIO in virtual time.

It needs numba and numpy, which the extra ``iat-nova[sim]`` brings; nothing outside this package
imports them, or anything of it. Importing its modules without them raises `ImportError` with that
advice; this one and `cmd` need neither.
"""
