# SPDX-License-Identifier: Apache-2.0
"""Under Nova's Python: have extra specs validated as nova-api does for a request.

In: {"specs": [[name, value], ...]}. Out: what was discovered, and per pair None or the refusal.
"""

import json
import sys

from nova import exception
from nova.api.validation.extra_specs import validators


def refusal(name, value):
    try:
        validators.validate(name, value)
    except exception.ValidationError as error:
        return {"code": error.code, "message": error.format_message()}
    return None


asked = json.loads(sys.argv[1])
print(
    json.dumps(
        {
            "discovered": sorted(name for name in validators.VALIDATORS if name.startswith("iat:")),
            "namespaces": sorted(validators.NAMESPACES),
            "refusals": [refusal(name, value) for name, value in asked["specs"]],
        }
    )
)
