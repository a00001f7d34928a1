"""Accesses of memory in kernels for numba.cuda; the generated source imports them.

On a GPU they are intrinsics: loads and stores without numba's test for negative indices, copies of
16 bytes, and asynchronous copies from global to shared memory (inline PTX). In numba's own
simulator (NUMBA_ENABLE_CUDASIM=1) they are the Python functions below.
The intrinsics were compiled, but not run on a device.
"""

from __future__ import annotations

import os
from typing import Any, cast

ADDRESS_BYTES = 16  # what cp16 promises about the addresses of both ends


def ld(a: Any, i: Any) -> Any:
    """Return a[i]."""
    return a[i]


def st(a: Any, i: Any, value: Any) -> None:
    """Store `value` in a[i]."""
    a[i] = value


def cp16(to: Any, i: Any, source: Any, j: Any) -> None:
    """Copy 16 bytes from source[j] to to[i]; both are at multiples of 16 bytes."""
    for n in range(ADDRESS_BYTES // to.itemsize):
        to[i + n] = source[j + n]


def cp_async16(to: Any, i: Any, source: Any, j: Any, inside: Any) -> None:
    """Copy as cp16 does, but do not wait; copy zeros if not `inside`. `to` is in shared memory."""
    for n in range(ADDRESS_BYTES // to.itemsize):
        to[i + n] = source[j + n] if inside else 0


def cp_async4(to: Any, i: Any, source: Any, j: Any, inside: Any) -> None:
    """Copy source[j], of 4 bytes, to to[i], but do not wait; copy a zero if not `inside`."""
    to[i] = source[j] if inside else 0


def cp_async_wait() -> None:
    """Wait until all asynchronous copies of this thread have arrived."""


def _intrinsics() -> dict[str, Any]:
    """Return the intrinsics; numba ships no types for what they are made of."""
    from llvmlite import ir
    from numba.cuda import extending, types, typing  # pyright: ignore

    intrinsic: Any = extending.intrinsic
    none, boolean = cast("Any", types).none, cast("Any", types).boolean
    signature = cast("Any", typing).signature

    def address(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
        data = context.make_array(kind)(context, builder, value=array).data
        return builder.gep(data, [index], inbounds=True)

    def sixteen(builder: Any, pointer: Any) -> Any:
        vector = ir.VectorType(ir.IntType(32), ADDRESS_BYTES // 4)
        return builder.bitcast(pointer, vector.as_pointer(pointer.type.addrspace))

    def assembly(builder: Any, text: str, constraints: str, *args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [a.type for a in args])
        code = ir.InlineAsm(kind, text, constraints, side_effect=True)
        return builder.call(code, args)

    def number(builder: Any, pointer: Any, space: int, bits: int) -> Any:
        """Return a pointer as a number in an address space: 1 is global memory, 3 is shared."""
        at = ir.IntType(8).as_pointer(pointer.type.addrspace)
        there = builder.bitcast(pointer, at)
        if pointer.type.addrspace != space:
            there = builder.addrspacecast(there, ir.IntType(8).as_pointer(space))
        return builder.ptrtoint(there, ir.IntType(bits))

    @intrinsic
    def load(_: Any, a: Any, i: Any) -> Any:
        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.load(address(context, builder, sig.args[0], args[0], args[1]))

        return signature(a.dtype, a, i), code

    @intrinsic
    def store(_: Any, a: Any, i: Any, value: Any) -> Any:
        del value

        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            builder.store(args[2], address(context, builder, sig.args[0], args[0], args[1]))
            return context.get_dummy_value()

        return signature(none, a, i, a.dtype), code

    @intrinsic
    def copy16(_: Any, to: Any, i: Any, source: Any, j: Any) -> Any:
        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            ends = [
                sixteen(builder, address(context, builder, sig.args[n], args[n], args[n + 1]))
                for n in (0, 2)
            ]
            builder.store(builder.load(ends[1], align=ADDRESS_BYTES), ends[0], align=ADDRESS_BYTES)
            return context.get_dummy_value()

        return signature(none, to, i, source, j), code

    def asynchronous(size: int, cache: str) -> Any:
        """Return an intrinsic that copies `size` bytes; PTX ISA, section cp.async."""
        text = f"cp.async.{cache}.shared.global [$0], [$1], {size}, $2;"

        @intrinsic
        def copy(_: Any, to: Any, i: Any, source: Any, j: Any, inside: Any) -> Any:
            def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                ends = [
                    address(context, builder, sig.args[n], args[n], args[n + 1]) for n in (0, 2)
                ]
                there = context.cast(builder, args[4], sig.args[4], boolean)
                word = ir.IntType(32)
                read = builder.select(there, ir.Constant(word, size), ir.Constant(word, 0))
                places = number(builder, ends[0], 3, 32), number(builder, ends[1], 1, 64)
                assembly(builder, text, "r,l,r,~{memory}", *places, read)
                return context.get_dummy_value()

            return signature(none, to, i, source, j, inside), code

        return copy

    @intrinsic
    def wait(_: Any) -> Any:
        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            del sig, args
            assembly(builder, "cp.async.wait_all;", "~{memory}")
            return context.get_dummy_value()

        return signature(none), code

    return {
        **{"ld": load, "st": store, "cp16": copy16, "cp_async_wait": wait},
        "cp_async16": asynchronous(16, "cg"),
        "cp_async4": asynchronous(4, "ca"),
    }


if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") != "1":
    globals().update(_intrinsics())
