# SPDX-License-Identifier: Apache-2.0
"""What pbr before 7 is called by (Debian 13 has 6.1); pyproject.toml says all else."""

import setuptools

setuptools.setup(setup_requires=["pbr>=6.1.1"], pbr=True)
