# SPDX-License-Identifier: Apache-2.0
"""A4's thresholds, equal in all three parameter files of the artifact."""

from __future__ import annotations

# Comments give the artifact's names. Shares are relative changes, others percent or points.
HIT_CHANGE = 0.2  # T1 LCA_LLC_HIT_FL: of a high-priority tenant's LLC hit rate
DDIO_MISS_PERCENT = 40.0  # T2 LK_STG_DDIO_MS_THR
STORAGE_PERCENT = 35.0  # T3 LK_STG_TP_THR: storage's inbound bytes against the network's
STORAGE_LLC_MISS_PERCENT = 40.0  # T4 LK_STG_LLC_MS_THR: of the storage tenant
LLC_MISS_PERCENT = 90.0  # T5 LOC_LLC_MISS_THR
L2_MISS_PERCENT = 80.0  # LOC_L2_MISS_THR
MISS_CHANGE = 0.05  # BPS_CACHE_MISS_FL: of antagonists
STORAGE_CHANGE = 0.3  # BPS_STG_TP_FL
NETWORK_CHANGE = 0.01  # BPS_NET_TP_FL
MEMORY_CHANGE = 0.1  # BPS_MEM_BW_FL
DDIO_MISS_CHANGE = 1.0  # IOLCA_DDIO_MISS_FL: doubled; marked deprecated there, but still active

# Without a name in the artifact's scripts.
HIT_POINTS_STABLE = 10.0  # a change of phase is larger than this, and than HIT_CHANGE
HIT_POINTS_GROW = 5.0  # a fall that ends growth is larger than this, and than HIT_CHANGE
L2_MISS_CHANGE_RELEASE = 0.1  # of an antagonist: possibly a new phase of the program

LEAST_WAYS = 2  # of the low-priority zone, and of the trash ways
FIRST_WAYS = 3  # the first size tried
