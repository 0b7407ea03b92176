# SPDX-License-Identifier: Apache-2.0
"""The functions of `common.kernel_files`, with `HardwareError` for a file that cannot be read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from iat_nova.common import kernel_files
from iat_nova.hardware.api import HardwareError, unusable

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _refusing(read: Callable[Concatenate[Path, _P], _T]) -> Callable[Concatenate[Path, _P], _T]:
    @functools.wraps(read)
    def reading(path: Path, /, *others: _P.args, **options: _P.kwargs) -> _T:
        try:
            return read(path, *others, **options)
        except OSError as error:
            raise HardwareError(unusable(path, error)) from error

    return reading


exists = _refusing(kernel_files.exists)
names = _refusing(kernel_files.names)
text_of = _refusing(kernel_files.text_of)
number_of = _refusing(kernel_files.number_of)
status = _refusing(kernel_files.status)
target = _refusing(kernel_files.target)
