# SPDX-License-Identifier: Apache-2.0
"""Under Nova's Python: import the validators with a snapshot before everything but what is allowed.

Out: the modules that the import added beside the standard library.
"""

import importlib.abc
import json
import sys

from nova.api.validation.extra_specs import base  # noqa: F401  what the validators may use

before = set(sys.modules)
forbidden = json.loads(sys.argv[1])["forbidden"]


class Snapshot(importlib.abc.MetaPathFinder):
    """Makes packages as absent as on a controller that never had them."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in forbidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


sys.meta_path.insert(0, Snapshot())
import iat_nova_plugin.validators as loaded  # noqa: E402

added = {
    name
    for name in set(sys.modules) - before
    if "site-packages" in (getattr(sys.modules[name], "__file__", None) or "")
}
print(json.dumps({"added": sorted(added), "keys": [each.name for each in loaded.register()]}))
