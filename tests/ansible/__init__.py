# SPDX-License-Identifier: Apache-2.0
from tests import time_limit

time_limit.install(900.0)  # one test walks the role's whole path: four minutes on an idle machine
