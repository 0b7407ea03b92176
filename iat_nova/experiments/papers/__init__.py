# SPDX-License-Identifier: Apache-2.0
"""The published figures, measured again on the emulated server and compared with their claims.

`api` has the types. The figures are in YAML files, listed in `catalogue`, with functions in modules
of the same name. `claims` judges, `runner` measures points in parallel and keeps the rows, `pages`
writes the results. Only the claims in ``claims.yaml`` are judged.
"""
