# SPDX-License-Identifier: Apache-2.0
"""Under Nova's Python: load a folder of provider.yaml files as nova-compute does at its start.

In: {"folder": PATH}. Out: what Nova loaded, or {"error": TEXT} where nova-compute would not start.
"""

import json
import sys

from nova import exception
from nova.compute import provider_config

try:
    print(json.dumps(provider_config.get_provider_configs(json.loads(sys.argv[1])["folder"])))
except exception.ProviderConfigException as error:
    print(json.dumps({"error": str(error)}))
