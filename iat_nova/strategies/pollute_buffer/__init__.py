# SPDX-License-Identifier: Apache-2.0
"""All ways to everybody, and a pollute buffer for those whom, by trial, it pays to confine.

Without an agent every tenant fills every way: nobody's ways lie idle, and who streams through
memory pushes out what others would use again. A *pollute buffer* (Soares, Tam and Stumm, "Reducing
the harmful effects of last-level cache polluters with an OS-level, software-only pollute buffer",
MICRO 2008) is a small part of the cache to which such tenants are confined, while the others keep
all of it. Who belongs there is not guessed from a miss curve: a second's trial shows it, and what
does not pay is undone. So a host is where it would be without the agent, or better by what was
measured.
"""

from iat_nova.strategies.pollute_buffer.strategy import PolluteBuffer

__all__ = ["PolluteBuffer"]
