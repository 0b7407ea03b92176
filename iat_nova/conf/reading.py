# SPDX-License-Identifier: Apache-2.0
"""Reading of the configuration files with oslo.config, and the checks of every value."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from oslo_config import cfg

from iat_nova.common import config_files
from iat_nova.common.readers import CONFIGURATION
from iat_nova.common.untrusted import shortened
from iat_nova.conf import GROUP, STATE_DIR, STATE_DIR_VARIABLE, ConfigError, Settings
from iat_nova.conf.options import COMPUTE_OPTS, IAT_OPTS, OS_VIF_OVS_OPTS
from iat_nova.model import pci_address
from iat_nova.model.message import message, verbatim


def read(named: Sequence[str | os.PathLike[str]], state_dir: str | None) -> Settings:
    """Read and check the configuration files: see `iat_nova.conf.load`. Raises `ConfigError`."""
    names = _files(named)
    conf = cfg.ConfigOpts()
    conf.register_opts(IAT_OPTS, group=GROUP)
    conf.register_opts(COMPUTE_OPTS, group="compute")
    conf.register_opts(OS_VIF_OVS_OPTS, group="os_vif_ovs")
    with parsed(conf, names):
        return _settings(conf, names, state_dir)


@contextlib.contextmanager
def parsed(conf: cfg.ConfigOpts, names: Sequence[str]) -> Iterator[None]:
    """Read configuration files for the registered options.

    Values are checked when read: read all values within this context. Raises `ConfigError`.
    """
    try:
        conf([], project="iat-nova", default_config_files=list(names), default_config_dirs=[])
        yield
    except cfg.ConfigFilesNotFoundError as error:
        said = message("config-absent", files=tuple(map(str, error.config_files)))
        raise ConfigError(said) from error
    except cfg.ConfigFilesPermissionDeniedError as error:
        said = message("config-denied", files=tuple(map(str, error.config_files)))
        raise ConfigError(said) from error
    except UnicodeDecodeError as error:
        raise ConfigError(message("config-no-text", error=str(error))) from error
    except RecursionError:
        raise ConfigError(message("config-circular", files=tuple(names))) from None
    except (cfg.ConfigFileParseError, cfg.ConfigFileValueError, cfg.Error) as error:
        text = shortened(_LOCATION.sub(r"\1", str(error)), _MOST_SHOWN)
        said = verbatim(text)
        if names and not any(name in text for name in names):
            said = message("config-refused", files=tuple(names), error=text)
        raise ConfigError(said) from error


def _files(named: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the files, each within its limits; oslo.config reports files that are missing."""
    try:
        names = config_files.expanded(named)
    except OSError as error:
        said = message("config-folder", folder=str(error.filename), error=error.strerror)
        raise ConfigError(said) from error
    for name in names:
        try:
            CONFIGURATION.read(name).decode()
        except (FileNotFoundError, PermissionError):
            continue
        except (OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError):
                said = message("config-refused", files=(name,), error=error.strerror)
            else:
                said = message("config-file-no-text", file=name, error=str(error))
            raise ConfigError(said) from error
    return names


_MOST_SHOWN = 500  # characters of what oslo.config says
# oslo.config shows the place of a value as the repr of an internal tuple; keep the file's name.
_LOCATION = re.compile(r"LocationInfo\(.*?detail='([^']*)'\)")


_MOST = 10**9  # seconds, hours or days of an option


def _ports(
    allowed: bool, option: str, ports: Sequence[str], others: Sequence[str] = ()
) -> tuple[str, ...]:
    """Check an option's root ports; no port may also be in the other option."""
    if ports and not allowed:
        raise ConfigError(message("option-needs-port-dca", option=option))
    for port in ports:
        if pci_address(port) != port:
            raise ConfigError(message("option-no-address", option=option, found=port))
        if port in others:
            raise ConfigError(message("option-port-twice", option=option, port=port))
    return tuple(ports)


def _check_number(option: str, found: float | None) -> None:
    """Raise `ConfigError` for NaN, and for numbers that no clock can wait for."""
    if found is not None and not found <= _MOST:
        raise ConfigError(message("option-too-large", option=option, found=str(found), most=_MOST))


def _values(conf: cfg.ConfigOpts, group: str, options: Iterable[cfg.Opt]) -> Any:
    """Return the values of options. An empty value means the default, as if it were not set.

    oslo.config gives None for an empty number. Raises `ConfigError`.
    """
    values = types.SimpleNamespace()
    for option in options:
        found = conf[group][option.dest]
        if found in (None, ""):
            found = option.default
        if isinstance(option, cfg.FloatOpt):
            _check_number(option.dest, found)
        setattr(values, option.dest, found)
    return values


def _settings(conf: cfg.ConfigOpts, read_files: Sequence[str], named: str | None) -> Settings:
    """Return the settings in `conf`. `named`: the state directory of the command line, or None."""
    unset = os.environ.get(STATE_DIR_VARIABLE) or STATE_DIR
    # As the option's default, so that a file may also name the default; $ is no reference here.
    conf.set_default("state_dir", unset.replace("$", "$$"), group=GROUP)
    iat = _values(conf, GROUP, IAT_OPTS)
    compute = _values(conf, "compute", COMPUTE_OPTS)
    os_vif = _values(conf, "os_vif_ovs", OS_VIF_OVS_OPTS)
    state_dir = pathlib.Path(named or conf[GROUP].state_dir or unset)
    if iat.hardware == "emulated" and not iat.emulated_scenario:
        raise ConfigError(message("emulated-without-scenario"))
    ovsdb = iat.ovsdb_connection or os_vif.ovsdb_connection
    # Options with another type, or made from several; all other options are unchanged.
    made: dict[str, Any] = {
        "policy_file": pathlib.Path(iat.policy_file) if iat.policy_file else None,
        "shadow_policy": pathlib.Path(iat.shadow_policy) if iat.shadow_policy else None,
        "dca_off_ports": _ports(iat.port_dca, "dca_off_ports", iat.dca_off_ports),
        "dca_ports": _ports(iat.port_dca, "dca_ports", iat.dca_ports, iat.dca_off_ports),
        "cha_slices": iat.cha_slices or None,
        "ovsdb_connection": None if ovsdb == "none" else ovsdb,
        "ovs_rundir": pathlib.Path(iat.ovs_rundir),
        "state_dir": state_dir,
        "spool_dir": pathlib.Path(iat.spool_dir) if iat.spool_dir else state_dir / "spool",
        "sysfs_root": pathlib.Path(iat.sysfs_root),
        "proc_root": pathlib.Path(iat.proc_root),
        "cpu_dedicated_set": compute.cpu_dedicated_set,
        "cpu_shared_set": compute.cpu_shared_set,
        "provider_config_location": pathlib.Path(compute.provider_config_location),
        "read_files": tuple(read_files),
    }
    names = {field.name for field in dataclasses.fields(Settings)} - made.keys()
    return Settings(**made, **{name: getattr(iat, name) for name in names})
