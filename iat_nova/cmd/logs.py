# SPDX-License-Identifier: Apache-2.0
"""The agent's log uses oslo.log's options in ``[DEFAULT]``, like OpenStack's services."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log
from oslo_log._options import list_opts
from oslo_log.handlers import ColorHandler

from iat_nova.conf import ConfigError
from iat_nova.conf.reading import parsed
from iat_nova.model import message
from iat_nova.report.log import Lines

LOG = logging.getLogger("iat_nova")

QUIET = ("matplotlib", "ovsdbapp")
"""Libraries with many messages of low value; oslo.log's default_log_levels does not list them."""

FILE = "iat-nova-agent.log"
"""The log's name in log_dir; oslo.log's default is the program's name, which may be Python."""

_ELSEWHERE = ("log_config_append", "log_dir", "log_file", "use_journal", "use_syslog")


def setup(read_files: Sequence[str], debug: bool, version: str) -> None:
    """Configure logging from the configuration files and `debug`; by default to standard error.

    Nova's files may name a log file that this process cannot write, or a journal without installed
    bindings. The agent then logs to standard error, which systemd keeps, with the reason. Raises
    `ConfigError` for a value that oslo.log refuses.
    """
    conf = cfg.ConfigOpts()
    for group, options in list_opts():  # not register_options(), which adds command-line options
        conf.register_opts(options, group=group)
    with parsed(conf, read_files):
        if debug:
            conf.set_override("debug", True)
        conf.set_override("publish_errors", False)  # Nova's option: needs Nova's message bus
        try:
            _set_up(conf, version)
        except (TypeError, ValueError) as error:
            raise ConfigError(message("logging-refused", error=str(error))) from error


def on_stderr() -> bool:
    """Tell whether the log goes only to standard error, or nowhere."""
    handlers = logging.getLogger().handlers
    return all(type(one) in (logging.StreamHandler, ColorHandler) for one in handlers)


def _set_up(conf: cfg.ConfigOpts, version: str) -> None:
    if not any(conf[name] for name in _ELSEWHERE):
        conf.set_override("use_stderr", True)  # oslo.log's default is standard output
    if conf.log_dir and not conf.log_file:
        conf.set_override("log_file", FILE)
    try:
        _plainly(conf, version)
    except (OSError, RuntimeError, log.LogConfigError) as error:
        for name in _ELSEWHERE:
            conf.set_override(name, None)
        conf.set_override("use_stderr", True)
        _plainly(conf, version)
        LOG.warning("logging to standard error: %s", error)
    _escape()
    asked = {pair.partition("=")[0] for pair in conf.default_log_levels}
    for name in QUIET:
        if name not in asked and not conf.log_config_append:
            logging.getLogger(name).setLevel(logging.WARNING)


def _escape() -> None:
    """Have all handlers of the process write `Lines`."""
    loggers = (logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict))
    for handler in {handler for logger in loggers for handler in logger.handlers}:
        handler.setFormatter(Lines(handler.formatter or logging.Formatter()))


def _plainly(conf: cfg.ConfigOpts, version: str) -> None:
    """Have oslo.log set up; replace handlers that color without request, as before its 6.1."""
    log.setup(conf, "iat-nova", version)
    if conf.log_config_append or getattr(conf, "log_color", False):
        return
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, logging.StreamHandler) and type(handler) is ColorHandler:
            plain = logging.StreamHandler(handler.stream)
            plain.setFormatter(handler.formatter)
            root.removeHandler(handler)
            root.addHandler(plain)
