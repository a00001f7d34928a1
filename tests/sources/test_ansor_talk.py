"""The listings of the talk "Ansor: Generating High-Performance Tensor Programs"."""

from collections.abc import Callable
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import auto_scheduler, te
from minitvm.base import Target

# --- a dense layer with ReLU ----------------------------------------------------------------------

HALIDE = ("dense(o, b) += data(i, b) * weight(i, o)", "relu(o, b) = max(dense(o, b), 0.0)")
TVM = """
dense = compute(shape, lambda b, o: sum(data[b,i] * weight[o,i], i))
relu  = compute(shape, lambda b, o: max(dense[b,o], 0.0))
"""


def inputs() -> dict[str, Any]:
    """data[b, i] and weight[o, i] of 4 samples, 6 inputs and 5 outputs."""
    return {
        "data": te.placeholder((4, 6), name="data"),
        "weight": te.placeholder((5, 6), name="weight"),
        "i": te.reduce_axis((0, 6), name="i"),
        "shape": (4, 5),
        "compute": te.compute,
    }


def test_the_layer_in_the_notation_of_tvm(
    run: Callable[..., Any], golden: Callable[[str], None], numbers: Callable[..., np.ndarray]
) -> None:
    names = run(TVM, **inputs(), sum=te.sum, max=te.max)
    args = [names[name] for name in ("data", "weight", "relu")]
    s = te.create_schedule(names["relu"].op)
    golden(str(tvm.lower(s, args)))
    data, weight, out = numbers(4, 6), numbers(5, 6), np.full((4, 5), np.nan, "float32")
    tvm.build(s, args)(data, weight, out)
    np.testing.assert_array_equal(out, np.maximum(data @ weight.T, 0))


def test_the_sum_is_not_the_one_of_python(refusal: Callable[..., str]) -> None:
    assert refusal(TVM, **inputs()).startswith("TypeError: ")


def test_the_max_is_not_the_one_of_python(refusal: Callable[..., str]) -> None:
    assert refusal(TVM, **inputs(), sum=te.sum).startswith(
        "ExprError: an expression has no truth value while the program is being built"
    )


def test_the_layer_in_the_notation_of_halide(
    golden: Callable[[str], None], numbers: Callable[..., np.ndarray]
) -> None:
    data, weight = te.placeholder((6, 4), name="data"), te.placeholder((6, 5), name="weight")
    dense = te.define(HALIDE[0].replace("+=", "+=!"), data=data, weight=weight)
    relu = te.define(HALIDE[1], dense=dense)
    s = te.create_schedule(relu.op)
    golden(str(tvm.lower(s, [data, weight, relu])))
    x, w, out = numbers(6, 4), numbers(6, 5), np.full((5, 4), np.nan, "float32")
    tvm.build(s, [data, weight, relu])(x, w, out)
    np.testing.assert_array_equal(out, np.maximum(w.T @ x, 0))


def test_a_sum_from_zero_is_written_with_a_mark(refusal: Callable[..., str]) -> None:
    listing = "t.define(line, data=t.placeholder((6, 4)), weight=t.placeholder((6, 5)))"
    assert "not of the form name(i, j, ...) = expression, with =, +=!" in refusal(
        listing, line=HALIDE[0]
    )


# --- example input 1 and its programs -------------------------------------------------------------


def example(n: int = 512) -> SimpleNamespace:
    """C = A @ B, D = max(C, 0.0), nothing scheduled."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((n, n), lambda i, j: te.max(C[i, j], 0.0), name="D")
    return SimpleNamespace(A=A, B=B, C=C, D=D, s=te.create_schedule(D.op), args=[A, B, D])


def levels(stage: te.StageView, axis: te.Axis, sizes: list[int]) -> list[te.Axis]:
    """The loops that `axis` becomes, outermost first; sizes are those of all but the first."""
    loops = [axis]
    for n in range(len(sizes)):
        loops[-1:] = stage.split(loops[-1], factor=prod(sizes[n:]))
    return loops


def tiled(p: SimpleNamespace, i: list[int], j: list[int], k: list[int]) -> SimpleNamespace:
    """C in SSRSRS tiles, in order: sizes of i.1 i.2 i.3, of j.1 j.2 j.3 and of k.1."""
    c = p.s[p.C]
    i0, i1, i2, i3 = levels(c, p.C.op.axis[0], i)
    j0, j1, j2, j3 = levels(c, p.C.op.axis[1], j)
    k0, k1 = levels(c, p.C.op.reduce_axis[0], k)
    c.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    return SimpleNamespace(**vars(p), k1=k1, i2=i2, i3=i3, j3=j3)


def sketch_1(
    p: SimpleNamespace, i: list[int], j: list[int], k: list[int], fused: bool = False
) -> SimpleNamespace:
    """C tiled SSRSRS inside D's loop j.1, or i.0@j.0@i.1@j.1; sizes are those after i.0, j.0, k.0.

    The loops i.4 and j.4 of D cover what i.2 x i.3 and j.2 x j.3 of C do.
    """
    d, c = p.s[p.D], p.s[p.C]
    i0, i1, i4 = levels(d, p.D.op.axis[0], [i[0], prod(i[1:])])
    j0, j1, j4 = levels(d, p.D.op.axis[1], [j[0], prod(j[1:])])
    d.reorder(i0, j0, i1, j1, i4, j4)
    outer = d.fuse(i0, j0, i1, j1) if fused else j1
    c.compute_at(d, outer)
    i2, i3 = levels(c, p.C.op.axis[0], i[2:])
    j2, j3 = levels(c, p.C.op.axis[1], j[2:])
    k0, k1 = levels(c, p.C.op.reduce_axis[0], k)
    c.reorder(k0, i2, j2, k1, i3, j3)
    return SimpleNamespace(**vars(p), outer=outer, j4=j4, k1=k1, i3=i3, j3=j3)


def sampled_1(n: int = 512) -> SimpleNamespace:
    """Sampled program 1: tiles of 64 x 16, 256 of them in parallel when n is 512."""
    p = sketch_1(example(n), i=[2, 16, 4], j=[4, 1, 16], k=[16], fused=True)
    p.s[p.D].parallel(p.outer)
    p.s[p.D].vectorize(p.j4)
    p.s[p.C].unroll(p.k1)
    p.s[p.C].unroll(p.i3)
    p.s[p.C].vectorize(p.j3)
    return p


def sampled_2(n: int = 512) -> SimpleNamespace:
    """Sampled program 2: all of C in tiles of 32 x 4 for all of k, then all of D."""
    p = tiled(example(n), i=[1, n // 32, 32], j=[1, n // 4, 4], k=[n])
    p.s[p.C].parallel(p.i2)
    p.s[p.C].vectorize(p.j3)
    p.s[p.D].parallel(p.D.op.axis[0])
    return p


def check(p: SimpleNamespace, n: int, numbers: Callable[..., np.ndarray]) -> None:
    a, b, d = numbers(n, n), numbers(n, n), np.full((n, n), np.nan, "float32")
    tvm.build(p.s, p.args)(a, b, d)
    np.testing.assert_array_equal(d, np.maximum(a @ b, 0))


def test_the_naive_program_is_the_default_schedule(
    golden: Callable[[str], None], numbers: Callable[..., np.ndarray]
) -> None:
    p = example()
    golden(str(tvm.lower(p.s, p.args)))
    check(example(32), 32, numbers)


def test_sketch_1_with_all_its_loops(
    golden: Callable[[str], None], numbers: Callable[..., np.ndarray]
) -> None:
    p = sketch_1(example(64), i=[2, 4, 4], j=[4, 2, 4], k=[16])
    golden(str(tvm.lower(p.s, p.args, until="nest")))
    check(p, 64, numbers)


def test_sampled_program_1_is_a_schedule(
    golden: Callable[[str], None], numbers: Callable[..., np.ndarray]
) -> None:
    p = sampled_1()
    golden(str(tvm.lower(p.s, p.args, until="nest")))
    check(sampled_1(128), 128, numbers)


def test_sampled_program_2_is_a_schedule(
    golden: Callable[[str], None], numbers: Callable[..., np.ndarray]
) -> None:
    p = sampled_2()
    golden(str(tvm.lower(p.s, p.args, until="nest")))
    check(sampled_2(64), 64, numbers)


def test_the_inner_tile_of_k_has_a_size_of_its_own() -> None:
    tile_i1, tile_k1 = 512 // (16 * 32), 512  # of sampled program 2; the sketch prints one name
    assert sampled_2().s["C"].leaf_iter_vars[2].extent == tile_i1
    assert sampled_2().s["C"].leaf_iter_vars[7].extent == tile_k1


# --- the statements that the cost model scores ----------------------------------------------------


def test_the_two_statements_of_the_cost_model(
    golden: Callable[[str], None], numbers: Callable[..., np.ndarray]
) -> None:
    A = te.placeholder((10,), name="A")
    B = te.compute((10, 10), lambda i, j: A[i] * 2, name="B")
    C = te.compute((10,), lambda i: B[i, i] - 3, name="C")
    s = te.create_schedule(C.op)
    golden(str(tvm.lower(s, [A, C])))
    a, c = numbers(10), np.full(10, np.nan, "float32")
    tvm.build(s, [A, C])(a, c)
    np.testing.assert_array_equal(c, a * 2 - 3)


# --- the same, derived and printed by the auto-scheduler ------------------------------------------

SKETCH_1 = """
for i.0 in range(TILE_I0):
  for j.0 in range(TILE_J0):
    for i.1 in range(TILE_I1):
      for j.1 in range(TILE_J1):
        for k.0 in range(TILE_K0):
          for i.2 in range(TILE_I2):
            for j.2 in range(TILE_J2):
              for k.1 in range(TILE_K1):
                for i.3 in range(TILE_I3):
                  for j.3 in range(TILE_J3):
                    C[...] += A[...] * B[...]
        for i.4 in range(TILE_I2 * TILE_I3):
          for j.4 in range(TILE_J2 * TILE_J3):
            D[...] = max(C[...], 0.0)
"""  # the slide has k.1 in range(TILE_I1)
SAMPLED_1 = """
parallel i.0@j.0@i.1@j.1 in range(256):
  for k.0 in range(32):
    for i.2 in range(16):
      unroll k.1 in range(16):
        unroll i.3 in range(4):
          vectorize j.3 in range(16):
            C[...] += A[...] * B[...]
  for i.4 in range(64):
    vectorize j.4 in range(16):
      D[...] = max(C[...], 0.0)
"""
SAMPLED_2 = """
parallel i.2 in range(16):
  for j.2 in range(128):
    for k.1 in range(512):
      for i.3 in range(32):
        vectorize j.3 in range(4):
          C[...] += A[...] * B[...]
parallel i.4 in range(512):
  for j.4 in range(512):
    D[...] = max(C[...], 0.0)
"""


def derived_sketch(p: SimpleNamespace) -> auto_scheduler.State:
    """The sketch in which C is computed inside D's loops of level 2, as on the slide."""
    states = auto_scheduler.derived(p.s.state, Target("llvm -num-cores=2"))
    (found,) = [s for s in states if (s.rules, s.choices) == (("tile and fuse",), ("level 2",))]
    return found


def program_of(state: auto_scheduler.State, **sizes: tuple[int, ...]) -> auto_scheduler.LoopState:
    """The program in which the loops have these sizes."""
    row = [knob.options.index(sizes[knob.name.removeprefix("tile_")]) for knob in state.knobs]
    return auto_scheduler.loop_state.LoopState(state.program(row))


def annotated_1(p: SimpleNamespace) -> auto_scheduler.LoopState:
    n = p.A.shape[0]
    s0 = program_of(
        derived_sketch(p), i=(n // 128, 2, 16, 4), j=(n // 64, 4, 1, 16), k=(n // 16, 16)
    )
    *outer, _, j4 = s0["D"].iters
    s0.parallel("D", s0.fuse("D", outer))
    s0.vectorize("D", j4)
    _, _, _, k1, i3, j3 = s0["C"].iters
    s0.unroll("C", k1)
    s0.unroll("C", i3)
    s0.vectorize("C", j3)
    return s0


def annotated_2(p: SimpleNamespace) -> auto_scheduler.LoopState:
    n = p.A.shape[0]
    s0 = program_of(derived_sketch(p), i=(1, 1, n // 32, 32), j=(1, 1, n // 4, 4), k=(1, n))
    s0.parallel("C", s0["C"].iters[1])
    s0.vectorize("C", s0["C"].iters[-1])
    s0.parallel("D", s0["D"].iters[-2])
    return s0


def test_sketch_1_is_derived_and_printed_as_on_the_slide() -> None:
    assert str(derived_sketch(example())) == SKETCH_1.strip()


@pytest.mark.parametrize(
    ("annotated", "listing", "n"), [(annotated_1, SAMPLED_1, 128), (annotated_2, SAMPLED_2, 64)]
)
def test_a_sampled_program_is_printed_as_on_the_slide_and_correct(
    annotated: Callable[[SimpleNamespace], auto_scheduler.LoopState],
    listing: str,
    n: int,
    numbers: Callable[..., np.ndarray],
) -> None:
    assert str(annotated(example())) == listing.strip()
    p = example(n)
    s, args = auto_scheduler.ComputeDAG(p.args).apply_steps_from_state(annotated(p))
    check(SimpleNamespace(s=s, args=args), n, numbers)
