"""report: loops, accesses, regions and memory of each statement of a program."""

from collections.abc import Callable

import minitvm as tvm
from minitvm import te, topi
from minitvm.lowering import LoopReport, StatementReport, report


def text(r: StatementReport) -> str:
    """A report, one fact a line."""
    lines = [r.text, f"  times {r.times}"]
    lines += [f"  if {c}" for c in r.conditions]
    lines += [f"  {'write' if a.write else 'read'} {a.buffer}[{', '.join(a.indices)}]"
              for a in r.accesses]  # fmt: skip
    lines += [f"  {a.buffer}{list(a.shape)} {a.dtype} {a.scope} in {a.loops} loops"
              for a in r.allocations]  # fmt: skip
    for n in r.loops:
        pragmas = "".join(f" {key}={value}" for key, value in n.pragmas.items())
        touched = " ".join(f"{b}{list(e)}" for b, e in n.touched.items())
        lines.append(f"  {n.kind} {n.var} {n.extent}{pragmas}: {touched}")
    return "\n".join(lines)


def matmul() -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    A, B = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return A, B, C


def test_a_plain_product() -> None:
    A, B, C = matmul()
    init, update = report(tvm.lower(te.create_schedule(C.op), [A, B, C], until="nest"))
    assert (
        text(init)
        == """\
C[i, j] = 0.0
  times 4096
  write C[i, j]
  serial i 64: C[64, 64]
  serial j 64: C[1, 64]"""
    )
    assert (
        text(update)
        == """\
C[i, j] = C[i, j] + A[i, k] * B[k, j]
  times 262144
  read C[i, j]
  read A[i, k]
  read B[k, j]
  write C[i, j]
  serial i 64: C[64, 64] A[64, 64] B[64, 64]
  serial j 64: C[1, 64] A[1, 64] B[64, 64]
  serial k 64: C[1, 1] A[1, 64] B[64, 1]"""
    )


def test_a_tiled_product_with_annotations_and_pragmas() -> None:
    A, B, C = matmul()
    s = te.create_schedule(C.op)
    io, jo, ii, ji = s[C].tile(*C.op.axis, 8, 16)
    ko, ki = s[C].split(C.op.reduce_axis[0], 4)
    s[C].reorder(io, jo, ko, ki, ii, ji)
    s[C].parallel(io)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[C].pragma(ko, "auto_unroll_max_step", 64)
    update = report(tvm.lower(s, [A, B, C], until="nest"))[-1]
    assert (
        text(update).split("write", 1)[1]
        == """ C[i_outer*8 + i_inner, j_outer*16 + j_inner]
  parallel i_outer 8: C[64, 64] A[64, 64] B[64, 64]
  serial j_outer 4: C[8, 64] A[8, 64] B[64, 64]
  serial k_outer 16 auto_unroll_max_step=64: C[8, 16] A[8, 64] B[64, 16]
  serial k_inner 4 auto_unroll_max_step=64: C[8, 16] A[8, 4] B[4, 16]
  unroll i_inner 8 auto_unroll_max_step=64: C[8, 16] A[8, 1] B[1, 16]
  vectorize j_inner 16 auto_unroll_max_step=64: C[1, 16] A[1, 1] B[1, 16]"""
    )


def test_a_product_in_a_local_tile_and_tiles_that_do_not_divide() -> None:
    A, B, C = matmul()
    s = te.create_schedule(C.op)
    L = s.cache_write(C, "local")
    _, jo, _, _ = s[C].tile(*C.op.axis, 8, 24)
    s[L].compute_at(s[C], jo)
    *_, update, back = report(tvm.lower(s, [A, B, C], until="nest"))
    assert (
        text(update)
        == """\
C_local[i_c, j_c] = C_local[i_c, j_c] + A[i_outer*8 + i_c, k] * B[k, j_outer*24 + j_c]
  times 262144
  if j_outer*24 + j_c < 64
  read C_local[i_c, j_c]
  read A[i_outer*8 + i_c, k]
  read B[k, j_outer*24 + j_c]
  write C_local[i_c, j_c]
  C_local[8, 24] float32 local in 2 loops
  serial i_outer 8: C_local[8, 24] A[64, 64] B[64, 64]
  serial j_outer 3: C_local[8, 24] A[8, 64] B[64, 64]
  serial i_c 8: C_local[8, 24] A[8, 64] B[64, 24]
  serial j_c 24: C_local[1, 24] A[1, 64] B[64, 24]
  serial k 64: C_local[1, 1] A[1, 64] B[64, 1]"""
    )
    assert back.conditions == ("j_outer*24 + j_inner < 64",)
    assert back.times == 64 * 64
    assert back.loops[0].touched == {"C_local": (8, 24), "C": (64, 64)}


def test_a_convolution_touches_its_halo() -> None:
    X, W = te.placeholder((16, 16), name="X"), te.placeholder((3, 3), name="W")
    p, q = te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 3), name="q")
    Y = te.compute((14, 14), lambda y, x: te.sum(X[y + p, x + q] * W[p, q], axis=[p, q]), name="Y")
    s = te.create_schedule(Y.op)
    yo, xo, yi, xi = s[Y].tile(*Y.op.axis, 7, 2)
    s[Y].reorder(yo, xo, *Y.op.reduce_axis, yi, xi)
    update = report(tvm.lower(s, [X, W, Y], until="nest"))[-1]
    assert [(n.var, n.touched["X"], n.touched["W"]) for n in update.loops] == [
        ("y_outer", (16, 16), (3, 3)),
        ("x_outer", (9, 16), (3, 3)),
        ("p", (9, 4), (3, 3)),
        ("q", (7, 4), (1, 3)),
        ("y_inner", (7, 2), (1, 1)),
        ("x_inner", (1, 2), (1, 1)),
    ]


def test_a_buffer_read_in_several_places_has_one_region() -> None:
    A = te.placeholder((10,), name="A")
    B = te.compute((8,), lambda i: A[i] + A[i + 2], name="B")
    (r,) = report(tvm.lower(te.create_schedule(B.op), [A, B], until="nest"))
    assert r.loops[0].touched == {"A": (10,), "B": (8,)}


def test_every_statement_of_a_softmax_is_reported(golden: Callable[[str], None]) -> None:
    x = te.placeholder((8, 32), name="x")
    y = topi.softmax(x)
    target = tvm.Target("llvm -num-cores=2").on(vector_bytes=64, vector_registers=32)
    s = topi.schedule(y, target)
    golden("\n".join(map(text, report(tvm.lower(s, [x, y], until="nest")))))


def test_a_flat_program_can_be_reported_too() -> None:
    A, B, C = matmul()
    update = report(tvm.lower(te.create_schedule(C.op), [A, B, C], until="flatten"))[-1]
    assert update.loops[1] == LoopReport(
        "j", 64, "serial", "", {}, {"C": (64,), "A": (64,), "B": (4096,)}
    )
