# SPDX-License-Identifier: Apache-2.0
"""What Tempest asks a plug-in: where its tests are, which options it has."""

from __future__ import annotations

import pathlib

from oslo_config import cfg
from tempest.test_discover import plugins

AVAILABLE = cfg.BoolOpt(
    "iat_nova",
    default=True,
    help="Whether nova-api has iat-nova's validators of extra specs.",
)


class IatNovaTempestPlugin(plugins.TempestPlugin):
    """Found by Tempest under ``tempest.test_plugins``."""

    def load_tests(self) -> tuple[str, str]:
        """Return the folder of the tests and the one above the package."""
        package = pathlib.Path(__file__).parent
        return str(package / "tests"), str(package.parent)

    def register_opts(self, conf: cfg.ConfigOpts) -> None:
        """Add our one option to Tempest's group."""
        conf.register_opt(AVAILABLE, group="service_available")

    def get_opt_lists(self) -> list[tuple[str, list[cfg.Opt]]]:
        """Return the same for the sample of the configuration."""
        return [("service_available", [AVAILABLE])]
