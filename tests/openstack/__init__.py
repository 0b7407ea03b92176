# SPDX-License-Identifier: Apache-2.0
from tests import time_limit

time_limit.install(900.0)  # a class may fetch and install a whole Nova
