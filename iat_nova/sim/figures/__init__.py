# SPDX-License-Identifier: Apache-2.0
"""The published figures, measured again on the emulated server and held against their claims.

`api` says what a figure is; each figure is a value in a module of its own, listed in `catalogue`;
`claims` judges; `runner` measures points side by side and keeps them; `pages` writes what came
of it. The claims are in ``claims.yaml``, and no others are judged.
"""
