"""Questions about programs of the accelerator: instructions, products and transfers."""

from __future__ import annotations

from typing import Any

from minitvm import accel, te, vta

from ..item import Rng
from .question import Question, pick


def instructions(rng: Rng) -> Question:
    """Ask how often the units of the accelerator work for a product of two matrices."""
    rows, columns, depth = (int(n) for n in rng.integers(2, 7, 3))
    order = pick(rng, (("ko", "y", "xo"), ("y", "ko", "xo"), ("xo", "ko", "y")))
    s, args = _product(rows, columns, depth, order)
    function = vta.build(s, args)
    counters = function.run().counters
    units = [i for i in function.program.instructions if isinstance(i, accel.Gemm) and not i.reset]
    loads = order.index("ko") + 1
    text = "\n".join(line for line in str(vta.lower(s, args)).splitlines() if "_dep_" not in line)
    return Question(
        "Instructions of the accelerator",
        "A lowered program of the accelerator, printed without its tokens. An element of INP has"
        " 16 bytes, one of WGT 256, and one of OUT 16. The processor writes the loops out, but up"
        " to two loops directly around a `gemm` with nothing else in them become a part of the"
        " instruction.",
        text,
        ("How many `gemm` instructions does the compute unit get, those of `fill_zero` not"
         " counted?",
         "How many products of an element of INP and one of WGT do they compute?",
         "How many bytes does the load unit fetch into INP and WGT together?"),
        (str(len(units)), str(counters.gemm_counter),
         str(counters.inp_load_nbytes + counters.wgt_load_nbytes)),
        f"The loops outside of the instruction are {', '.join(order[:loads])}; INP gets"
        f" {counters.inp_load_nbytes} bytes, WGT {counters.wgt_load_nbytes}.",
        "notebook 08, section 5",
        5,
    )  # fmt: skip


def _product(
    rows: int, columns: int, depth: int, order: tuple[str, ...]
) -> tuple[te.Schedule, list[te.Tensor]]:
    """Return notebook 08's product; each step of `ko` fetches the operands that it needs."""
    env = vta.get_env()
    A = te.placeholder((rows, depth, 1, 16), name="A", dtype="int8")
    B = te.placeholder((columns, depth, 16, 16), name="B", dtype="int8")
    A_buf, B_buf = te.compute(A.shape, A, name="A_buf"), te.compute(B.shape, B, name="B_buf")
    ko, ki = te.reduce_axis((0, depth), name="ko"), te.reduce_axis((0, 16), name="ki")

    def product(y: te.Expr, xo: te.Expr, yi: te.Expr, xi: te.Expr) -> te.Expr:
        a, b = A_buf[y, ko, yi, ki].astype("int32"), B_buf[xo, ko, xi, ki].astype("int32")
        return te.sum(a * b, axis=[ko, ki])

    C_buf = te.compute((rows, columns, 1, 16), product, name="C_buf")
    C = te.compute(C_buf.shape, lambda *i: C_buf(*i).astype("int8"), name="C")
    s = te.create_schedule(C.op)
    y, xo, yi, xi = s[C_buf].op.axis
    loops: dict[str, Any] = {"y": y, "xo": xo, "ko": ko}
    s[C_buf].reorder(*(loops[name] for name in order), yi, xi, ki)
    s[C_buf].set_scope(env.acc_scope)
    s[C_buf].tensorize(yi, env.gemm)
    for copy, scope in ((A_buf, env.inp_scope), (B_buf, env.wgt_scope)):
        s[copy].set_scope(scope)
        s[copy].pragma(s[copy].op.axis[0], env.dma_copy)
        s[copy].compute_at(s[C_buf], ko)
    s[C].pragma(s[C].op.axis[0], env.dma_copy)
    return s, [A, B, C]
