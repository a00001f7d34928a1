"""Choose the unit of the accelerator that runs each statement: load, compute or store."""

from __future__ import annotations

from minitvm import accel, lowering, schedule, tir
from minitvm.base import LoweringError

FREE = ("vta", "vdla")  # prefixes of instructions that have no unit yet
COPY = "dma_copy2d"


def assign_units(s: tir.Stmt) -> tir.Stmt:
    """Choose the unit that runs each instruction.

        vta.dma_copy2d(A_buf, A[k])             ld.dma_copy2d(A_buf, A[k])
        vta.gemm(C_buf, A_buf, B_buf)     ->    ex.gemm(C_buf, A_buf, B_buf)
        vta.dma_copy2d(C, C_buf)                st.dma_copy2d(C, C_buf)

    The load unit loads INP and WGT, the compute unit loads ACC. All virtual threads become
    "cthread": each does all of its work with its own tokens, whereas "vthread"s share work.
    Raises LoweringError for a statement that no unit can run.
    """

    def on_stmt(s: tir.Stmt) -> tir.Stmt:
        match s:
            case tir.Store():
                raise _single(s)
            case tir.For(var, _, _, "bind", thread) if not schedule.is_virtual(thread):
                what, fix = f"loop {var.name!r} bound to {thread!r}", "te.thread_axis('cthread')"
                raise LoweringError(what, "the accelerator has only virtual threads", fix)
            case tir.For(var, extent, body, "bind", thread) if thread.startswith("vthread"):
                return tir.For(var, extent, body, "bind", "cthread")
            case tir.Evaluate(tir.Call(name, args, dtype)):
                _refuse_pointers(s, args)
                prefix, _, rest = name.partition(".")
                if prefix not in FREE:
                    return _checked(s, prefix)
                return tir.Evaluate(tir.Call(f"{_runs(s, rest)}.{rest}", args, dtype))
            case _:
                return s

    return tir.rewrite(s, on_stmt)


def check_stores(s: tir.Stmt) -> tir.Stmt:
    """Check that each store is under a pragma that turns it into an instruction.

    At this point each buffer still belongs to one stage, so an error names the right stage.
    """
    match s:
        case tir.Pragma("alu" | "skip_alu"):
            pass
        case tir.Store():
            raise _single(s)
        case _:
            for part in tir.inner(s):
                check_stores(part)
    return s


def _refuse_pointers(s: tir.Stmt, args: tuple[tir.Expr, ...]) -> None:
    """Raise LoweringError if an instruction works on a pointer."""
    if any(isinstance(a, tir.Pointer) for a in args):
        why = "an instruction works on an array with a shape and strides, not on an address"
        raise LoweringError(tir.text(s), why, "tir.view(b) in place of a pointer to b")


def _single(s: tir.Store) -> LoweringError:
    """Return the error for a store of one number, for which the accelerator has no instruction."""
    return LoweringError(
        tir.text(s),
        "the accelerator has no instruction that stores a single number",
        f"s[{s.buffer.name}].pragma(axis, 'dma_copy') for a copy to or from a buffer of the "
        "accelerator, pragma(axis, 'alu') for arithmetic in acc_buffer, tensorize for a product; "
        "or compute it outside, in numpy or by target llvm",
    )


def _checked(s: tir.Stmt, prefix: str) -> tir.Stmt:
    """Return `s` if it already names its unit; else raise LoweringError."""
    if prefix in lowering.UNITS:
        return s
    why = "no unit of the accelerator has such an instruction"
    fix = "an intrinsic that consists of its instructions, such as env.gemm"
    raise LoweringError(tir.text(s), why, fix)


def _runs(s: tir.Stmt, name: str) -> str:
    """Return the unit that runs an instruction; for a transfer, it depends on the destination."""
    if name != COPY:
        return lowering.COMPUTE
    to, source = operands(s)
    if lowering.memory_of(to.buffer) is None:
        return lowering.STORE
    if lowering.memory_of(source.buffer) is not None:
        why = f"{to.buffer.name} and {source.buffer.name} are both in memories of the accelerator"
        raise LoweringError(tir.text(s), why, "pragma 'alu' for a copy within acc_buffer")
    return lowering.COMPUTE if lowering.memory_of(to.buffer) is accel.Memory.ACC else lowering.LOAD


def operands(s: tir.Stmt) -> list[tir.Load]:
    """Return the first element of each view in an instruction; [] for other statements."""
    if not isinstance(s, tir.Evaluate) or not isinstance(s.value, tir.Call):
        return []
    return [a.first for a in s.value.args if isinstance(a, tir.Pointer | tir.View)]
