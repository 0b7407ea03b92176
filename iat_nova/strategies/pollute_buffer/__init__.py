# SPDX-License-Identifier: Apache-2.0
"""All ways for all tenants, and a pollute buffer for tenants whose confinement pays in a trial.

Without an agent every tenant fills every way, so no way lies idle. A tenant that streams through
memory then evicts lines that other tenants would use again. A *pollute buffer* is a small part of
the cache, to which such tenants are confined; all other tenants keep the whole cache. The term is
from Soares, Tam and Stumm, "Reducing the harmful effects of last-level cache polluters with an
OS-level, software-only pollute buffer" (MICRO 2008).

Confined tenants are not guessed from a miss curve. A trial of a few seconds measures the gain of
all tenants together, and an unprofitable move is undone. Single tenants may still lose, trials cost
time, and a later load may suffer from a layout that paid before.
"""
