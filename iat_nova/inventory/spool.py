# SPDX-License-Identifier: Apache-2.0
"""Extra specs from a spool folder, for Nova below 32, which keeps them out of the metadata.

A notification driver inside nova-compute leaves one file an instance, ``<uuid>.json``::

    {"extra_specs": {"iat:priority": "PC"}}

Other members are allowed and ignored.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Protocol

from iat_nova.common import files

_MOST_BYTES = 256 * 1024


class SpoolError(Exception):
    """A spooled file cannot be understood; the text names it and says why."""


class ExtraSpecsReader(Protocol):
    """What knows an instance's extra specs when its domain does not say them."""

    def extra_specs_of(self, uuid: str) -> Mapping[str, str] | None:
        """Return them, None when they are not known. Raises `SpoolError`."""


class Spool:
    """The folder that the notification driver fills; it need not exist yet."""

    def __init__(self, path: str | pathlib.Path) -> None:
        self._path = pathlib.Path(path)

    def extra_specs_of(self, uuid: str) -> Mapping[str, str] | None:
        """Read one instance's file, None when there is none. Raises `SpoolError`."""
        path = self._path / f"{uuid}.json"
        try:
            text = files.read_bytes(path, _MOST_BYTES, follow=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SpoolError(f"{path} cannot be read: {error.strerror}") from error
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SpoolError(f"invalid JSON in {path}: {error}") from error
        specs = content.get("extra_specs") if isinstance(content, dict) else None
        if not isinstance(specs, dict) or not all(isinstance(v, str) for v in specs.values()):
            raise SpoolError(f"{path} holds no 'extra_specs' that map names to texts")
        return specs
