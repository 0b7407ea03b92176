# SPDX-License-Identifier: Apache-2.0
"""A notification driver for nova-compute that gives the agent the extra specs of guests.

For Nova below 32, which does not write extra specs into a domain's metadata. In nova.conf::

    [notifications]
    notification_format = both
    [oslo_messaging_notifications]
    driver = messagingv2
    driver = iat_spool

The driver keeps one small file per instance in ``[iat] spool_dir`` and sends nothing. No error of
the driver reaches Nova. The first error is logged; the next is logged only after a success.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from oslo_config import cfg
from oslo_messaging.notify import notifier

from .spool import SpoolFolder, news

LOG = logging.getLogger(__name__)

# The agent's own options of these names (`iat_nova.conf`), which is not to be imported here.
OPTS = [
    cfg.StrOpt("state_dir", default="/var/lib/iat-nova"),
    cfg.StrOpt("spool_dir"),
]


class SpoolDriver(notifier.Driver):  # type: ignore[misc]
    """Stores extra specs from versioned notifications about the instances of this host."""

    def __init__(self, conf: cfg.ConfigOpts, topics: list[str], transport: Any) -> None:
        super().__init__(conf, topics, transport)
        self._folder = SpoolFolder(spool_dir(conf))
        self._trouble = False

    def notify(self, ctxt: Any, msg: Any, priority: str, retry: int | None) -> None:
        """Store the extra specs of a notification about an instance of this host; never raises."""
        item = news(msg)
        if item is None:
            return
        try:
            kept = self._folder.keep(item)
        except OSError as error:
            self._complain(
                "iat-nova: extra specs cannot be written to %s: %s%s",
                self._folder.path,
                error.strerror or error,
                _remedy(error),
            )
            return
        if kept:
            self._trouble = False
        else:
            self._complain(
                "iat-nova: the extra specs of instance %s are too large to be kept", item.uuid
            )

    def _complain(self, text: str, *values: object) -> None:
        if not self._trouble:
            LOG.warning(text, *values)
        self._trouble = True


def _remedy(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return (
            f"; user {os.geteuid()} must own it and be let through every folder above it "
            "([iat] spool_dir names another one)"
        )
    if isinstance(error, FileNotFoundError):
        return "; make the folder, owned by the user nova-compute runs as ([iat] spool_dir)"
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return "; [iat] spool_dir names the folder"
    return ""


def spool_dir(conf: cfg.ConfigOpts) -> str:
    """Return the folder that the agent reads with the same configuration."""
    conf.register_opts(OPTS, group="iat")
    state_dir = conf.iat.state_dir or OPTS[0].default  # also for an option without a value
    return str(conf.iat.spool_dir or f"{state_dir}/spool")
