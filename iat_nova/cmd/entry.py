# SPDX-License-Identifier: Apache-2.0
"""The installed programs: load the program's module, or name the missing package.

A program that cannot be loaded cannot report the reason. So this module imports only the standard
library, and modules that import nothing else.
"""

from __future__ import annotations

import gc
import importlib
import shutil
import signal
import sys

from iat_nova.common import extras

EXIT_FAILURE = 1
"""As for another failure of a start: during an upgrade the package is back at a later start."""

EXIT_INTERRUPTED = 128 + signal.SIGINT

PACKAGES = {  # module -> Debian's package, PyPI's package
    "cachesim": (None, "pycachesim"),
    "cattrs": ("python3-cattr", "cattrs"),
    "cliff": ("python3-cliff", "cliff"),
    "distributed": ("python3-distributed", "distributed"),
    "jinja2": ("python3-jinja2", "Jinja2"),
    "jsonschema": ("python3-jsonschema", "jsonschema"),
    "libvirt": ("python3-libvirt", "libvirt-python"),
    "matplotlib": ("python3-matplotlib", "matplotlib"),
    "numpy": ("python3-numpy", "numpy"),
    "oslo_config": ("python3-oslo.config", "oslo.config"),
    "oslo_log": ("python3-oslo.log", "oslo.log"),
    "ovs": ("python3-openvswitch", "ovs"),
    "ovsdbapp": ("python3-ovsdbapp", "ovsdbapp"),
    "prometheus_client": ("python3-prometheus-client", "prometheus-client"),
    "stevedore": ("python3-stevedore", "stevedore"),
    "yaml": ("python3-yaml", "PyYAML"),
}
"""Packages of all modules that the project requires, those of its extras too.

No name is guessed: on PyPI anybody may own the name of a module.
"""


def program() -> int:
    """Run iat-nova and return its exit status."""
    gc.set_threshold(50_000)  # what modules create stays: by default a tenth of the start is GC
    return _run("iat-nova", "iat_nova.cmd.main")


def agent() -> int:
    """Run iat-nova-agent and return its exit status."""
    return _run("iat-nova-agent", "iat_nova.cmd.agent")


def unloadable(error: ImportError) -> str:
    """Return the name of a module that cannot be loaded, and the command that installs it.

    If a module is installed and cannot be loaded, for example without a shared library, return the
    reason instead of a command.
    """
    if error.name is None:  # the text is a whole message
        return str(error)
    module = error.name.partition(".")[0]
    if not isinstance(error, ModuleNotFoundError):
        return f"the Python module {module} cannot be loaded: {error}"
    debian, pypi = PACKAGES.get(module, (None, None))
    if extras.of_distribution():
        command = f"apt-get install {debian}" if debian and shutil.which("apt-get") else None
    else:
        command = f"{sys.executable} -m pip install {pypi}" if pypi else None
    missing = error.name if command is None else module
    return f"the Python module {missing} is missing: {command or 'install the package that has it'}"


def _run(name: str, module: str) -> int:
    try:
        status: int = importlib.import_module(module).main()
    except ImportError as error:  # also of modules that are loaded when they are needed
        print(f"{name}: {unloadable(error)}", file=sys.stderr)
        return EXIT_FAILURE
    except KeyboardInterrupt:  # wherever it was, nobody asked for a traceback
        return EXIT_INTERRUPTED
    return status
