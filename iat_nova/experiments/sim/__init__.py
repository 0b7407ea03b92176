# SPDX-License-Identifier: Apache-2.0
"""The emulated server: a machine with CAT and DDIO in virtual time.

The emulated server needs numpy from the extra ``iat-nova[sim]``. No other package imports this
package or numpy. This module and `cmd` need no numpy, and do not load the engine (`native`).
"""
