"""Accesses of memory in kernels for numba.cuda; the generated source imports them.

On a GPU they are intrinsics: loads and stores without numba's test for negative indices, and copies
of 16 bytes. In numba's own simulator (NUMBA_ENABLE_CUDASIM=1) they are the Python functions below.
The intrinsics were compiled, but not run on a device.
"""

from __future__ import annotations

import os
from typing import Any, cast

ADDRESS_BYTES = 16  # what cp4 promises about the addresses of both ends


def ld(a: Any, i: Any) -> Any:
    """Return a[i]."""
    return a[i]


def st(a: Any, i: Any, value: Any) -> None:
    """Store `value` in a[i]."""
    a[i] = value


def cp4(to: Any, i: Any, source: Any, j: Any) -> None:
    """Copy source[j : j + 4] to to[i : i + 4]; i and j are multiples of 4."""
    for n in range(4):
        to[i + n] = source[j + n]


def _intrinsics() -> dict[str, Any]:
    """Return the intrinsics; numba ships no types for what they are made of."""
    from llvmlite import ir
    from numba.cuda import extending, types, typing  # pyright: ignore

    intrinsic: Any = extending.intrinsic
    none, signature = cast("Any", types).none, cast("Any", typing).signature

    def address(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
        data = context.make_array(kind)(context, builder, value=array).data
        return builder.gep(data, [index], inbounds=True)

    def four(builder: Any, pointer: Any) -> Any:
        vector = ir.VectorType(pointer.type.pointee, 4)
        return builder.bitcast(pointer, vector.as_pointer(pointer.type.addrspace))

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
    def copy4(_: Any, to: Any, i: Any, source: Any, j: Any) -> Any:
        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            ends = [
                four(builder, address(context, builder, sig.args[n], args[n], args[n + 1]))
                for n in (0, 2)
            ]
            builder.store(builder.load(ends[1], align=ADDRESS_BYTES), ends[0], align=ADDRESS_BYTES)
            return context.get_dummy_value()

        return signature(none, to, i, source, j), code

    return {"ld": load, "st": store, "cp4": copy4}


if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") != "1":
    globals().update(_intrinsics())
