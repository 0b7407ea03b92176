# SPDX-License-Identifier: Apache-2.0
"""The engine in C: caches, cards, disks and threads of the emulated server.

`engine.c` includes all other C files and has the functions that Python calls. ``state.h`` describes
the state, which consists of numpy arrays: `layout` reads the description. `library` loads the
compiled engine, and compiles it first where needed.
"""
