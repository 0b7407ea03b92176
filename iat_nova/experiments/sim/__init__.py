# SPDX-License-Identifier: Apache-2.0
"""The emulated server: a machine with CAT and DDIO in virtual time.

The emulated server needs numba and numpy from the extra ``iat-nova[sim]``. No other package imports
this package, numba or numpy. Without numba and numpy, importing a module of this package raises
`ImportError` with the name of the extra. This module and `cmd` need neither.
"""
