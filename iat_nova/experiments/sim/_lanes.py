# SPDX-License-Identifier: Apache-2.0
"""Vector operations on `LANES` ways of a set at once, in which the caches spend most time.

The operations use LLVM's vectors, which every CPU has in some width. The compiler's own code for a
loop over a set is slow: the loop is short, and the code tests for four lengths before the first
step. Rows must be a multiple of `LANES` long and contiguous.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic as _numba_intrinsic

Generator = Callable[..., Any]
_intrinsic: Callable[[Generator], Generator] = _numba_intrinsic

LANES = 16
_LANE = ir.IntType(32)
_VECTOR = ir.VectorType(_LANE, LANES)


def _check(*rows: Any) -> None:
    """Refuse rows whose lanes are not contiguous in memory."""
    for row in rows:
        if row.dtype != types.int32 or row.ndim != 1 or row.layout != "C":
            raise TypingError(f"lanes of {row}: must be a contiguous row of 32-bit integers")


def _place(context: Any, builder: Any, row_type: Any, row: Any, start: Any) -> Any:
    """Return the address of the lanes of a row from `start` on."""
    data = context.make_array(row_type)(context, builder, row).data
    return builder.bitcast(builder.gep(data, [start]), _VECTOR.as_pointer())


def _load(context: Any, builder: Any, row_type: Any, row: Any, start: Any) -> Any:
    """Load the lanes of a row from `start` on."""
    return builder.load(_place(context, builder, row_type, row, start), align=4)


def _all(builder: Any, value: Any) -> Any:
    """Return a vector with the same value in every lane."""
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, _LANE(0))
    zeros = ir.Constant(_VECTOR, [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), zeros)


def _least(builder: Any, vector: Any) -> Any:
    """Return the smallest lane."""
    kind = ir.FunctionType(_LANE, [_VECTOR])
    name = f"llvm.vector.reduce.smin.v{LANES}i32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [vector])


@_intrinsic
def equal(typing: Any, row: Any, start: Any, keep: Any, wanted: Any) -> Any:
    """``equal(row, start, keep, wanted)``: a bit for each lane with ``lane & keep == wanted``."""
    _check(row)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, start, keep, wanted = arguments
        lanes = _load(context, builder, signature.args[0], row, start)
        kept = builder.and_(lanes, _all(builder, keep))
        same = builder.icmp_signed("==", kept, _all(builder, wanted))
        bits = builder.bitcast(same, ir.IntType(LANES))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(row, types.int64, types.int32, types.int32), generate


@_intrinsic
def first(typing: Any, bits: Any) -> Any:
    """``first(bits)``: the number of the lowest set bit; at least one bit must be set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.int64), generate


@_intrinsic
def least(typing: Any, row: Any, start: Any) -> Any:
    """``least(row, start)``: the smallest of the lanes."""
    _check(row)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _least(builder, _load(context, builder, signature.args[0], *arguments))

    return types.int32(row, types.int64), generate


@_intrinsic
def least_of_both(typing: Any, row: Any, other: Any, start: Any) -> Any:
    """``least_of_both(row, other, start)``: the smallest of ``row | other``, lane by lane."""
    _check(row, other)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, two, start = arguments
        lanes = _load(context, builder, signature.args[0], one, start)
        others = _load(context, builder, signature.args[1], two, start)
        return _least(builder, builder.or_(lanes, others))

    return types.int32(row, other, types.int64), generate


@_intrinsic
def lower(typing: Any, row: Any, other: Any, start: Any, amount: Any) -> Any:
    """``lower(row, other, start, amount)``: subtract from the lanes where `other` is 0."""
    _check(row, other)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, other, start, amount = arguments
        place = _place(context, builder, signature.args[0], row, start)
        others = _load(context, builder, signature.args[1], other, start)
        none = ir.Constant(_VECTOR, [0] * LANES)
        chosen = builder.icmp_signed("==", others, none)
        taken = builder.select(chosen, _all(builder, amount), none)
        builder.store(builder.sub(builder.load(place, align=4), taken), place, align=4)
        return context.get_dummy_value()

    return types.void(row, other, types.int64, types.int32), generate
