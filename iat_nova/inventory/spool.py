# SPDX-License-Identifier: Apache-2.0
"""Extra specs from a spool folder, for Nova below 32, whose metadata lacks extra specs.

A notification driver inside nova-compute leaves one file per instance, ``<uuid>.json``::

    {"extra_specs": {"iat:priority": "PC"}}

Other members are allowed and ignored.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from iat_nova.common.owned_folder import OwnedFolder
from iat_nova.common.readers import SPOOL
from iat_nova.common.untrusted import Unreadable
from iat_nova.model.message import MessageError, as_message, message


class SpoolError(MessageError):
    """A spooled file is invalid; `message` has path and error."""


class Spool:
    """The folder that the notification driver fills; may be missing at first."""

    def __init__(self, path: str | pathlib.Path) -> None:
        self._folder = OwnedFolder(path)

    def extra_specs_of(self, uuid: str) -> Mapping[str, str] | None:
        """Return the extra specs of an instance, None without a file. Raises `SpoolError`."""
        path = self._folder.path / f"{uuid}.json"
        try:
            content = SPOOL.parse_object(self._folder.read(path.name, SPOOL.most_bytes))
        except FileNotFoundError:
            return None
        except OSError as error:
            said = message("spool-unreadable", path=str(path), error=error.strerror)
            raise SpoolError(said) from error
        except Unreadable as error:
            said = message("spool-not-understood", path=str(path), error=as_message(error))
            raise SpoolError(said) from error
        specs = content.get("extra_specs")
        if not isinstance(specs, dict) or not all(isinstance(v, str) for v in specs.values()):
            raise SpoolError(message("spool-without-specs", path=str(path)))
        return specs
