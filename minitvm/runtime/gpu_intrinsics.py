"""Intrinsics of numba-cuda for printed kernels: plain loads and stores, copies, tensor cores.

The inline PTX follows NVIDIA's PTX ISA, sections cp.async, ldmatrix and mma. The code was compiled
and its machine code read, but it was not run on a device. numba ships no types, hence `Any`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

ADDRESS_BYTES = 16  # what cp16 promises about the addresses of both ends
GLOBAL, SHARED = 1, 3  # address spaces
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.{0}.{0}.f32"
MMA_OPERANDS = "{$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13}"


@dataclass(frozen=True, slots=True)
class Kit:
    """What intrinsics are made of: modules, functions and types of llvmlite and numba."""

    ir: Any
    intrinsic: Any
    signature: Any
    none: Any
    boolean: Any

    def address(self, context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
        """Return the address of array[index]."""
        data = context.make_array(kind)(context, builder, value=array).data
        return builder.gep(data, [index], inbounds=True)

    def addresses(self, context: Any, builder: Any, sig: Any, args: Any, count: int) -> list[Any]:
        """Return the addresses that the first arguments name: array, index, array, index, ..."""
        pairs = range(0, 2 * count, 2)
        return [self.address(context, builder, sig.args[n], args[n], args[n + 1]) for n in pairs]

    def words(self, builder: Any, pointer: Any, count: int) -> list[Any]:
        """Return pointers to `count` adjacent words of 32 bits."""
        word = self.ir.IntType(32)
        first = builder.bitcast(pointer, word.as_pointer(pointer.type.addrspace))
        return [builder.gep(first, [self.ir.Constant(word, n)]) for n in range(count)]

    def number(self, builder: Any, pointer: Any, space: int) -> Any:
        """Return a pointer as a number in an address space, as inline PTX wants it."""
        byte = self.ir.IntType(8)
        byte_pointer = builder.bitcast(pointer, byte.as_pointer(pointer.type.addrspace))
        if pointer.type.addrspace != space:
            byte_pointer = builder.addrspacecast(byte_pointer, byte.as_pointer(space))
        return builder.ptrtoint(byte_pointer, self.ir.IntType(32 if space == SHARED else 64))

    def assembly(
        self, builder: Any, text: str, constraints: str, args: Sequence[Any], result: Any = None
    ) -> Any:
        """Return a call of inline PTX."""
        kind = self.ir.FunctionType(result or self.ir.VoidType(), [a.type for a in args])
        effect = result is None or "memory" in constraints
        return builder.call(self.ir.InlineAsm(kind, text, constraints, side_effect=effect), args)


def intrinsics() -> dict[str, Any]:
    """Return the intrinsics by name."""
    from llvmlite import ir
    from numba.cuda import extending, types, typing  # pyright: ignore

    kinds, make = cast("Any", types), cast("Any", extending).intrinsic
    kit = Kit(ir, make, cast("Any", typing).signature, kinds.none, kinds.boolean)
    return {**_accesses(kit), **_copies(kit), **_tensor_cores(kit)}


def _accesses(kit: Kit) -> dict[str, Any]:
    @kit.intrinsic
    def ld(_: Any, a: Any, i: Any) -> Any:
        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.load(*kit.addresses(context, builder, sig, args, 1))

        return kit.signature(a.dtype, a, i), code

    @kit.intrinsic
    def st(_: Any, a: Any, i: Any, value: Any) -> Any:
        del value

        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            builder.store(args[2], *kit.addresses(context, builder, sig, args, 1))
            return context.get_dummy_value()

        return kit.signature(kit.none, a, i, a.dtype), code

    @kit.intrinsic
    def cp16(_: Any, to: Any, i: Any, source: Any, j: Any) -> Any:
        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            vector = kit.ir.VectorType(kit.ir.IntType(32), ADDRESS_BYTES // 4)
            new, old = (
                builder.bitcast(p, vector.as_pointer(p.type.addrspace))
                for p in kit.addresses(context, builder, sig, args, 2)
            )
            builder.store(builder.load(old, align=ADDRESS_BYTES), new, align=ADDRESS_BYTES)
            return context.get_dummy_value()

        return kit.signature(kit.none, to, i, source, j), code

    return {"ld": ld, "st": st, "cp16": cp16}


def _copies(kit: Kit) -> dict[str, Any]:
    def asynchronous(size: int, cache: str) -> Any:
        """Return an intrinsic that copies `size` bytes."""
        text = f"cp.async.{cache}.shared.global [$0], [$1], {size}, $2;"

        @kit.intrinsic
        def copy(_: Any, to: Any, i: Any, source: Any, j: Any, inside: Any) -> Any:
            def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                new, old = kit.addresses(context, builder, sig, args, 2)
                word = kit.ir.IntType(32)
                sizes = kit.ir.Constant(word, size), kit.ir.Constant(word, 0)
                bytes_read = builder.select(
                    context.cast(builder, args[4], sig.args[4], kit.boolean), *sizes
                )
                addresses = kit.number(builder, new, SHARED), kit.number(builder, old, GLOBAL)
                kit.assembly(builder, text, "r,l,r,~{memory}", (*addresses, bytes_read))
                return context.get_dummy_value()

            return kit.signature(kit.none, to, i, source, j, inside), code

        return copy

    @kit.intrinsic
    def wait(_: Any) -> Any:
        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            del sig, args
            kit.assembly(builder, "cp.async.wait_all;", "~{memory}", ())
            return context.get_dummy_value()

        return kit.signature(kit.none), code

    copies = {"cp_async16": asynchronous(16, "cg"), "cp_async4": asynchronous(4, "ca")}
    return {**copies, "cp_async_wait": wait}


def _tensor_cores(kit: Kit) -> dict[str, Any]:
    word, single = kit.ir.IntType(32), kit.ir.FloatType()

    def loads(form: str, count: int) -> Any:
        """Return an intrinsic that loads `count` words; the lane's row begins at s[j]."""
        results = ",".join(f"${n}" for n in range(count))
        text = f"ldmatrix.sync.aligned.m8n8.{form}.shared.b16 {{{results}}}, [${count}];"
        constraints = ",".join(["=r"] * count) + ",r,~{memory}"

        @kit.intrinsic
        def ldmatrix(_: Any, to: Any, i: Any, s: Any, j: Any) -> Any:
            def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                new, row = kit.addresses(context, builder, sig, args, 2)
                address = kit.number(builder, row, SHARED)
                result = kit.ir.LiteralStructType([word] * count)
                registers = kit.assembly(builder, text, constraints, (address,), result)
                for n, to_word in enumerate(kit.words(builder, new, count)):
                    builder.store(builder.extract_value(registers, n), to_word)
                return context.get_dummy_value()

            return kit.signature(kit.none, to, i, s, j), code

        return ldmatrix

    def product(kind: str) -> Any:
        """Return an intrinsic for c[i : i+4] += a[j : j+8] * b[k : k+4], parts of three tiles."""
        constraints = ",".join(["=f"] * 4 + ["r"] * 6 + ["f"] * 4)

        @kit.intrinsic
        def mma(_: Any, c: Any, i: Any, a: Any, j: Any, b: Any, k: Any) -> Any:
            def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                sums, left, right = kit.addresses(context, builder, sig, args, 3)
                parts = [*kit.words(builder, left, 4), *kit.words(builder, right, 2)]
                pointers = [builder.gep(sums, [kit.ir.Constant(word, n)]) for n in range(4)]
                operands = [builder.load(p) for p in (*parts, *pointers)]
                text = f"{MMA.format(kind)} {MMA_OPERANDS};"
                result = kit.ir.LiteralStructType([single] * 4)
                registers = kit.assembly(builder, text, constraints, operands, result)
                for n, pointer in enumerate(pointers):
                    builder.store(builder.extract_value(registers, n), pointer)
                return context.get_dummy_value()

            return kit.signature(kit.none, c, i, a, j, b, k), code

        return mma

    return {
        "ldmatrix_a": loads("x4", 4),
        "ldmatrix_b": loads("x2.trans", 2),
        "mma_f16": product("f16"),
        "mma_bf16": product("bf16"),
    }
