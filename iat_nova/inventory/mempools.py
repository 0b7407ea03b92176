# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's mempools of packet buffers, as reported by ovs-vswitchd with DPDK.

``netdev-dpdk/get-mempool-info`` returns the output of DPDK's ``rte_mempool_dump`` for every pool.
"""

from __future__ import annotations

import itertools
import re

from iat_nova.model import Mempool

METHOD = "netdev-dpdk/get-mempool-info"
_NAME = re.compile(r"^mempool <([^>]*)>", re.MULTILINE)
_SIZE = re.compile(r"^\s*size=([0-9]{1,18})\b", re.MULTILINE)
_HANDLER = re.compile(r"^\s*ops_name: <([^>]*)>", re.MULTILINE)


def read_mempools(text: str) -> tuple[Mempool, ...]:
    """Return the pools in a dump; pools without size or handler are left out."""
    starts = [*(match.start() for match in _NAME.finditer(text)), len(text)]
    found = []
    for start, end in itertools.pairwise(starts):
        part = text[start:end]
        name, size, handler = (form.search(part) for form in (_NAME, _SIZE, _HANDLER))
        if name and size and handler:
            found.append(Mempool(name[1], handler[1], int(size[1])))
    return tuple(found)
