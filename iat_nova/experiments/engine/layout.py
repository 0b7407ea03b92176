# SPDX-License-Identifier: Apache-2.0
"""The engine's state as Python sees it: names and numbers of ``state.h``, and arrays for C."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine.recipe import FOLDER

_KINDS = {"i8": np.int8, "i32": np.int32, "i64": np.int64, "f64": np.float64}
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def source(name: str) -> str:
    """Return the text of a C file without comments."""
    return _COMMENT.sub("", (FOLDER / name).read_text(encoding="utf-8"))


def _numbers(text: str) -> Iterator[tuple[str, int | float]]:
    """Yield the numbers that a C file names by ``enum`` and ``#define``."""
    known: dict[str, int | float] = {}

    def value(written: str) -> int | float:
        first, _, shift = written.partition("<<")
        if shift:
            return int(value(first)) << int(value(shift))
        first = first.strip()
        return known[first] if first in known else float(first) if "." in first else int(first, 0)

    for enum, name, number in re.findall(
        r"enum \{(.*?)\}|#define (\w+) +([-\d.]+) *$", text, re.DOTALL | re.MULTILINE
    ):
        following = 0
        for one in filter(str.strip, enum.split(",")):
            key, _, given = one.partition("=")
            known[key.strip()] = following = int(value(given)) if given else following
            yield key.strip(), following
            following += 1
        if name:
            known[name] = value(number)
            yield name, known[name]


def numbers(name: str) -> Mapping[str, int | float]:
    """Return the named numbers of a C file, by name."""
    return dict(_numbers(source(name)))


_STRUCTS: Mapping[str, str] = {
    name: body
    for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", source("state.h"), re.DOTALL)
}
_NUMBERS = numbers("state.h")


def number(name: str) -> int:
    """Return a whole number of ``state.h``."""
    return int(_NUMBERS[name])


class Columns:
    """A row of numbers in ``state.h``: the position of each number is an attribute of its name."""

    def __init__(self, struct: str) -> None:
        kinds, self.names = zip(*_members(struct), strict=True)
        (self._kind,) = {_KINDS[kind] for kind in kinds}
        self._positions = {name: position for position, name in enumerate(self.names)}

    def __getattr__(self, name: str) -> int:
        try:
            return self._positions[name]
        except KeyError:
            raise AttributeError(name) from None

    def __len__(self) -> int:
        return len(self.names)


def _members(struct: str) -> Iterator[tuple[str, str]]:
    """Yield type and name of each member; the type of a pointer ends with ``*``."""
    for kind, names in re.findall(r"(\w+) ([\w*, ]+);", _STRUCTS[struct]):
        for name in names.split(","):
            yield kind + "*" * name.count("*"), name.strip(" *")


@functools.cache
def columns(struct: str) -> Columns:
    """Return the columns of a row of numbers."""
    return Columns(struct)


@functools.cache
def _structure(struct: str) -> type[ctypes.Structure]:
    """Return the type of a struct of pointers and lengths."""
    fields = [
        (name, ctypes.c_void_p if kind.endswith("*") else ctypes.c_int64)
        for kind, name in _members(struct)
    ]
    return type(struct, (ctypes.Structure,), {"_fields_": fields})


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Arrays that the engine works on, named as in the struct with the name of the class."""

    @functools.cached_property
    def _native(self) -> ctypes.Structure:
        made = _structure(type(self).__name__)()
        lengths: Iterator[int] = iter(())
        for kind, name in _members(type(self).__name__):
            if not kind.endswith("*"):
                setattr(made, name, next(lengths))
                continue
            value = getattr(self, name)
            if isinstance(value, Block):
                setattr(made, name, value.address)
                continue
            lengths = itertools.chain(_checked(name, value, kind[:-1]))
            setattr(made, name, value.ctypes.data)
        return made

    @property
    def address(self) -> int:
        """The address of the struct, which lives as long as this object."""
        return ctypes.addressof(self._native)


def _checked(name: str, array: npt.NDArray[np.generic], kind: str) -> tuple[int, ...]:
    """Return the shape of an array whose form is as in ``state.h``. Raises `TypeError` if not."""
    wanted = _KINDS[kind] if kind in _KINDS else columns(kind)._kind
    fits = kind in _KINDS or array.shape[-1] == len(columns(kind))
    if array.dtype != wanted or not array.flags.c_contiguous or not fits:
        raise TypeError(f"{name}: {array.dtype} {array.shape} is not an array of {kind}")
    return array.shape
