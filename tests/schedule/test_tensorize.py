"""Loops handed to a tensor intrinsic: what they become, what they compute, what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm as tvm
from minitvm import te, tir, topi
from minitvm.base import ExprError, LoweringError, ScheduleError
from minitvm.tensor import Tensor, TensorIntrin

TARGETS = ("interpreter", "python", "llvm")
GEMM = topi.gemm_intrin(4, 4, 4)


@pytest.fixture(autouse=True)
def no_functions_are_left() -> Any:
    yield
    tir.clear_functions()


def says(act: Callable[[], Any], kind: type[Exception] = LoweringError) -> str:
    with pytest.raises(kind) as caught:
        act()
    return str(caught.value)


def matmul(n: Any = 8, m: int = 12, depth: int = 8) -> tuple[list[Tensor], te.Schedule]:
    """C = A @ B"""
    A, B = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return [A, B, C], te.create_schedule(C.op)


def tiled(
    order: str = "ijk", intrin: TensorIntrin = GEMM, **sizes: Any
) -> tuple[list[Tensor], te.Schedule]:
    """The product in tiles of 4 x 4 x 4, the loops over tiles in the given order."""
    args, s = matmul(**sizes)
    C = args[2]
    io, jo, ko, ii, ji, ki = s[C].tile(*s[C].op.axis, *s[C].op.reduce_axis, 4, 4, 4)
    s[C].reorder(*({"i": io, "j": jo, "k": ko}[c] for c in order), ii, ji, ki)
    s[C].tensorize(ii, intrin)
    return args, s


def check(args: list[Tensor], s: te.Schedule, target: str, n: int = 8) -> None:
    """The schedule computes A @ B."""
    rng = np.random.default_rng(0)
    shapes = [[d if isinstance(d, int) else n for d in t.shape] for t in args]
    a, b = (rng.integers(-4, 5, shape).astype("float32") for shape in shapes[:2])
    c = np.full(shapes[2], np.nan, "float32")
    if target == "interpreter":
        tir.interpret(tvm.lower(s, args, until="nest"), a, b, c)
        tir.interpret(tvm.lower(s, args), a, b, c, flat=True)
    else:
        tvm.build(s, args, target)(a, b, c)
    np.testing.assert_array_equal(c, a @ b)


def opaque(**how: Any) -> TensorIntrin:
    """z[i, j] = sum(x[i, k] * y[k, j]) on 4 x 4 x 4, as instructions that take pointers."""
    x, y = te.placeholder((4, 4), name="x"), te.placeholder((4, 4), name="y")
    k = te.reduce_axis((0, 4), name="k")
    z = te.compute((4, 4), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), name="z")

    def instructions(ins: Any, outs: Any) -> Any:
        into, add = outs[0].access_ptr("w"), outs[0].access_ptr("rw")
        pointers = [b.access_ptr("r") for b in ins]
        steps = [b.strides[0] for b in (*ins, *outs) if b.strides]
        return (
            te.hardware_intrinsic("gemm4x4", *pointers, into, *steps),
            te.hardware_intrinsic("fill_zero", into, *steps[2:]),
            te.hardware_intrinsic("fuse_gemm4x4_add", *pointers, add, *steps),
        )

    strides = how.pop("strides", None)
    binds = {
        t: tir.decl_buffer(t.shape, t.dtype, t.name, strides=[te.var(f"s{t.name}"), 1], **how)
        for t in ((x, y, z) if strides else ())
    }
    return te.decl_tensor_intrinsic(
        z.op, instructions, binds, name="gemm4x4", default_buffer_params=how
    )


# --- loops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["ijk", "ikj", "kij"])
def test_a_reduction_that_goes_on_outside_is_reset_then_updated(
    order: str, golden: Callable[[str], None]
) -> None:
    args, s = tiled(order, opaque(strides=True))
    golden(str(tvm.lower(s, args, until="nest")))


def test_the_statement_of_an_intrinsic_stands_in_place_of_the_loops(
    golden: Callable[[str], None],
) -> None:
    args, s = tiled(n=4, m=8, depth=4)
    golden(str(tvm.lower(s, args, until="nest")))


def test_the_lecture_example_lowers_to_its_instructions(golden: Callable[[str], None]) -> None:
    args, s = matmul()
    A, B, C = args
    CL = s.cache_write(C, "local")
    AL, BL = s.cache_read(A, "local", [CL]), s.cache_read(B, "local", [CL])
    yo, xo, _, _ = s[C].tile(*s[C].op.axis, 4, 4)
    s[CL].compute_at(s[C], xo)
    (y, x), (k,) = s[CL].op.axis, s[CL].op.reduce_axis
    ko, ki = s[CL].split(k, 4)
    s[CL].reorder(ko, y, x, ki)
    for cached in (AL, BL):
        s[cached].compute_at(s[CL], ko)
    s[CL].tensorize(y, opaque())
    assert yo.extent == 2
    golden(str(tvm.lower(s, args, until="nest")))


def test_without_a_reset_the_first_iteration_begins() -> None:
    begin = te.decl_tensor_intrin(
        GEMM.op, lambda i, o: (GEMM_CALLS["body"], None, GEMM_CALLS["update"]), name="g"
    )
    args, s = tiled("ijk", begin)
    assert str(tvm.lower(s, args, until="nest")).endswith(
        "      for k_outer in range(2):\n"
        "        if k_outer == 0:\n"
        "          body(1)\n"
        "        else:\n"
        "          update(1)"
    )


GEMM_CALLS = {name: te.hardware_intrinsic(name, 1) for name in ("body", "update")}


def without_body() -> TensorIntrin:
    """Instructions that reset and update."""
    whole = opaque(strides=True)
    parts = None, whole.reset, whole.update
    return te.decl_tensor_intrin(whole.op, lambda i, o: parts, whole.buffers, name="gemm4x4")


@pytest.mark.parametrize("depth", [4, 8])
def test_without_a_body_all_results_are_reset_before_the_first_update(depth: int) -> None:
    text = str(tvm.lower(*reversed(tiled("kij", without_body(), depth=depth)), until="nest"))
    reset, update = text.index("fill_zero"), text.index("fuse_gemm4x4_add")
    assert text.index("for i_outer_init") < reset < text.index("for i_outer in") < update
    assert ("for k_outer" in text) == (depth == 8)


def test_without_a_body_and_reduce_loops_each_result_is_reset_then_updated() -> None:
    args, s = matmul(depth=4)
    io, jo, ii, ji = s[args[2]].tile(*s[args[2]].op.axis, 4, 4)
    s[args[2]].reorder(io, jo, ii, ji, *s[args[2]].op.reduce_axis)
    s[args[2]].tensorize(ii, without_body())
    text = str(tvm.lower(s, args, until="nest"))
    assert text.index("for j_outer in") < text.index("fill_zero") < text.index("fuse_gemm4x4_add")
    assert "_init" not in text


def test_pragmas_and_loops_outside_stay_as_they_are() -> None:
    args, s = tiled()
    C = args[2]
    s[C].parallel(s[C].leaf_iter_vars[0])
    assert "for i_outer in parallel(2):" in str(tvm.lower(s, args, until="nest"))


# --- meaning -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("order", ["ijk", "jki", "kij"])
def test_all_targets_agree_with_numpy(target: str, order: str) -> None:
    check(*tiled(order), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("depth", [4, 8])
@pytest.mark.parametrize("has_body", [False, True])
def test_instructions_run_as_registered_functions(target: str, depth: int, has_body: bool) -> None:
    def add(x: Any, y: Any, z: Any, sx: int, sy: int, sz: int) -> None:
        a, b = (np.stack([m[i * s : i * s + 4] for i in range(4)]) for m, s in ((x, sx), (y, sy)))
        for i in range(4):
            z[i * sz : i * sz + 4] += (a @ b)[i]

    def zero(z: Any, sz: int) -> None:
        for i in range(4):
            z[i * sz : i * sz + 4] = 0

    def whole(x: Any, y: Any, z: Any, sx: int, sy: int, sz: int) -> None:
        zero(z, sz)
        add(x, y, z, sx, sy, sz)

    for name, f in (("gemm4x4", whole), ("fuse_gemm4x4_add", add), ("fill_zero", zero)):
        tir.register_func(name, f)
    intrin = opaque(strides=True) if has_body else without_body()
    check(*tiled("kij", intrin, depth=depth), target)


@pytest.mark.parametrize("target", TARGETS)
def test_operands_may_be_cached_packed_and_swapped(target: str) -> None:
    args, s = matmul()
    A, B, C = args
    CL = s.cache_write(C, "local")
    BL = s.cache_read(B, "global", [CL])
    s[BL].transform_layout(lambda k, j: (j // 4, k, j % 4))
    _, jo, _, _ = s[C].tile(*s[C].op.axis, 4, 4)
    s[CL].compute_at(s[C], jo)
    (i, j), (k,) = s[CL].op.axis, s[CL].op.reduce_axis
    ko, ki = s[CL].split(k, 4)
    s[CL].reorder(ko, i, j, ki)
    s[CL].tensorize(i, GEMM)
    check([A, B, C], s, target)


@pytest.mark.parametrize("target", TARGETS)
def test_the_size_of_an_outer_loop_may_be_symbolic(target: str) -> None:
    args, s = matmul(n=te.size_var("n"), m=4, depth=4)
    C = args[2]
    row = topi.gemm_intrin(1, 4, 4)
    s[C].tensorize(s[C].op.axis[1], _one_row(row))
    check(args, s, target, n=3)


def _one_row(row: TensorIntrin) -> TensorIntrin:
    """The intrinsic `row` without its leading axis: z[j] = sum(x[k] * y[k, j])."""
    x, y = te.placeholder((4,), name="x"), te.placeholder((4, 4), name="y")
    k = te.reduce_axis((0, 4), name="k")
    z = te.compute((4,), lambda j: te.sum(x[k] * y[k, j], axis=k), name="z")

    def statement(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b, c = map(ib.buffer_ptr, (*ins, *outs))
        with ib.for_range(0, 4, name="j") as j:
            c[j] = 0.0
            with ib.for_range(0, 4, name="r") as r:
                c[j] = c[j] + a[r] * b[r, j]
        return ib.get()

    assert row.op.shape == (1, 4)
    return te.decl_tensor_intrin(z.op, statement, name="row")


@given(st.data())
def test_random_tiles_orders_and_caches_compute_the_product(data: st.DataObject) -> None:
    m, n, k = (data.draw(st.sampled_from([1, 2, 4])) for _ in range(3))
    counts = [data.draw(st.integers(1, 3)) for _ in range(3)]
    args, s = matmul(m * counts[0], n * counts[1], k * counts[2])
    C = T = args[2]
    if data.draw(st.booleans()):
        T = s.cache_write(C, data.draw(st.sampled_from(["local", "global"])))
        if data.draw(st.booleans()):
            _, jo, _, _ = s[C].tile(*s[C].op.axis, m, n)
            s[T].compute_at(s[C], jo)
    axes = (*s[T].op.axis, *s[T].op.reduce_axis)
    pairs = [s[T].split(a, f) for a, f in zip(axes, (m, n, k), strict=True)]
    outer = data.draw(st.permutations([o for o, _ in pairs]))
    s[T].reorder(*outer, *data.draw(st.permutations([i for _, i in pairs])))
    s[T].tensorize(s[T].leaf_iter_vars[3], topi.gemm_intrin(m, n, k))
    check(args, s, data.draw(st.sampled_from(TARGETS)))


def test_an_elementwise_intrinsic_needs_no_reset() -> None:
    A = te.placeholder((3, 8), name="A")
    B = te.compute((3, 8), lambda i, j: te.max(A[i, j], 0.0), name="B")
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: te.max(x[i], 0.0), name="y")

    def statement(ins: Any, outs: Any) -> Any:
        return te.hardware_intrinsic("relu", *ins, *outs)

    s = te.create_schedule(B.op)
    _, inner = s[B].split(s[B].op.axis[1], 4)
    s[B].tensorize(inner, te.decl_tensor_intrin(y.op, statement, name="relu"))
    assert str(tvm.lower(s, [A, B], until="nest")) == (
        "def main(A: float32[3, 8], B: float32[3, 8]):\n"
        "  for i in range(3):\n"
        "    for j_outer in range(2):\n"
        "      relu(access_ptr.rw(A[i, j_outer*4]), access_ptr.rw(B[i, j_outer*4]))"
    )


# --- the step ------------------------------------------------------------------------------------


def test_the_step_is_written_down_by_the_name_of_the_intrinsic() -> None:
    (_, _, C), s = tiled()
    assert s.python().splitlines()[-1] == "s[C].tensorize(i_inner, gemm_4x4x4)"
    assert te.Schedule.from_json(s.to_json(), C.op, [GEMM]).steps == s.steps


def test_it_can_be_undone() -> None:
    args, s = tiled()
    s.undo()
    assert "for k_inner in range(4):" in str(tvm.lower(s, args, until="nest"))


def test_an_unknown_intrinsic_is_refused() -> None:
    (_, _, C), s = tiled()
    assert says(lambda: te.Schedule.from_json(s.to_json(), C.op), ScheduleError) == (
        "tensorize of 'i.inner' in C: no intrinsic 'gemm_4x4x4' is known here\n"
        "  try: Schedule.from_json(text, ops, intrins=[...])"
    )


STEPS: dict[str, tuple[Callable[[te.Schedule, Any], Any], str]] = {
    "no intrinsic": (
        lambda s, C: s[C].tensorize(s[C].leaf_iter_vars[4], "gemm"),
        "tensorize with 'gemm': not a tensor intrinsic\n"
        "  try: te.decl_tensor_intrin(y.op, fcompute)",
    ),
    "twice": (
        lambda s, C: s[C].tensorize(s[C].leaf_iter_vars[4], GEMM),
        "tensorize of 'j.inner' in C: 'i.inner' is tensorized already\n"
        "  try: one intrinsic covers all inner loops",
    ),
    "same name": (
        lambda s, C: s[C].tensorize(s[C].leaf_iter_vars[4], topi.gemm_intrin(4, 4, 4)),
        "tensorize with gemm_4x4x4: another intrinsic of that name is in use\n"
        "  try: choose another name: te.decl_tensor_intrin(..., name=...)",
    ),
    "split": (
        lambda s, C: s[C].split(s[C].leaf_iter_vars[3], 2),
        "split of 'i.inner' in C: 'i.inner' is tensorized\n"
        "  try: split and fuse first, then tensorize the loop that remains",
    ),
}


@pytest.mark.parametrize("case", STEPS)
def test_an_illegal_step_says_why(case: str) -> None:
    (_, _, C), s = tiled()
    act, message = STEPS[case]
    assert says(lambda: act(s, C), ScheduleError) == message


def test_marked_loops_cannot_be_inside() -> None:
    (_, _, C), s = matmul()
    i, j = s[C].op.axis
    s[C].vectorize(j)
    assert says(lambda: s[C].tensorize(i, GEMM), ScheduleError) == (
        "tensorize of 'i' in C: 'j' inside it is marked vectorize\n"
        "  try: the intrinsic replaces those loops: mark loops outside of it"
    )


# --- what is no match ----------------------------------------------------------------------------


def lowered(s: te.Schedule, args: list[Tensor]) -> str:
    return says(lambda: tvm.lower(s, args))


def whole(
    f: Callable[..., Any], shape: tuple[int, ...] = (4, 4), intrin: TensorIntrin = GEMM
) -> str:
    """Why a compute over `shape` is not tensorized as a whole."""
    A, B = te.placeholder((4, 4), name="A"), te.placeholder((4, 4), name="B")
    k = te.reduce_axis((0, 4), name="k")
    if len(shape) == 2:
        C = te.compute(shape, lambda i, j: f(A, B, k, i, j), name="C")
    else:
        C = te.compute(shape, lambda b, i, j: f(A, B, k, b, i, j), name="C")
    s = te.create_schedule(C.op)
    s[C].tensorize(s[C].op.axis[0], intrin)
    args = [t for t in (A, B) if t in C.op.input_tensors]
    return lowered(s, [*args, C])


def test_formulas_are_shown_where_they_differ() -> None:
    found = whole(lambda A, B, k, i, j: te.sum(A[i, k] * B[j, k], axis=k))
    assert found == (
        "tensorize of 'i' in C with gemm_4x4x4: the formulas differ\n"
        "  C is sum of A[i, k] * B[j, k]\n"
        "  gemm_4x4x4 is sum of x[i, k] * y[k, j]\n"
        "  they differ at B[j, k] and y[k, j]\n"
        "  try: the order of loops and of indices, and the types, must be those of the intrinsic"
    )


@pytest.mark.parametrize(
    ("f", "where"),
    [
        (lambda A, B, k, i, j: te.sum(A[i, k] + B[k, j], axis=k),
         "A[i, k] + B[k, j] and x[i, k] * y[k, j]"),
        (lambda A, B, k, i, j: te.max(A[i, k] * B[k, j], axis=k), "max(x0, y0) and x0 + y0"),
        (lambda A, B, k, i, j: te.sum((A[i, k] * B[k, j]).astype("float64"), axis=k),
         "float64(A[i, k] * B[k, j]) and x[i, k] * y[k, j]"),
        (lambda A, B, k, i, j: te.sum(A[i, k] * 2.0, axis=k), "2.0 and y[k, j]"),
    ],
)  # fmt: skip
def test_the_first_difference_is_named(f: Any, where: str) -> None:
    assert f"  they differ at {where}\n" in whole(f).replace("[()]", "")


def test_a_formula_is_no_reduction() -> None:
    assert whole(lambda A, B, k, i, j: A[i, j] + B[i, j]) == (
        "tensorize of 'i' in C with gemm_4x4x4: the intrinsic has 1 reduce axes, C has 0\n"
        "  try: use another intrinsic"
    )


def test_a_condition_of_the_reduction_is_no_part_of_the_intrinsic() -> None:
    assert whole(lambda A, B, k, i, j: te.sum(A[i, k] * B[k, j], axis=k, where=i < k)) == (
        "tensorize of 'i' in C with gemm_4x4x4: its reduction has where= or init=, and no "
        "intrinsic has these"
    )


def test_extents_must_agree() -> None:
    args, s = matmul()
    s[args[2]].tensorize(s[args[2]].op.axis[0], GEMM)
    assert lowered(s, args) == (
        "tensorize of 'i' in C with gemm_4x4x4: the loops inside run over 8 values of 'i', "
        "the intrinsic over 4 of 'i'\n  try: split i by 4 and move the inner part inside"
    )


def test_leading_axes_stay_outside() -> None:
    found = whole(lambda A, B, k, b, i, j: te.sum(A[i, k] * B[k, j], axis=k), shape=(2, 4, 4))
    assert found == (
        "tensorize of 'b' in C with gemm_4x4x4: the loops inside run over 2 values of 'b', "
        "the intrinsic over 1\n  try: reorder b to the outside"
    )


def test_a_guard_inside_is_refused() -> None:
    args, s = tiled(n=10)
    assert lowered(s, args) == (
        "tensorize of 'i.inner' in C with gemm_4x4x4: the guard i_outer*4 + i_inner < 10 depends "
        "on loop i.inner inside it, but an intrinsic has no guard and computes all its elements\n"
        "  try: use split sizes that divide the extents, or pad the tensor in another stage"
    )


def test_a_reduction_outside_needs_an_update() -> None:
    once = te.decl_tensor_intrin(GEMM.op, lambda i, o: GEMM_CALLS["body"], name="once")
    args, s = tiled(intrin=once)
    assert lowered(s, args) == (
        "tensorize of 'i.inner' in C with once: the reduction continues outside, over k.outer, "
        "and the intrinsic has no update\n"
        "  try: declare the intrinsic with an fcompute that returns (body, reset, update)"
    )


def test_stages_are_not_computed_inside() -> None:
    args, s = matmul(4, 4, 4)
    A, _, C = args
    copy = s.cache_read(A, "local", [C])
    s[copy].compute_at(s[C], s[C].op.axis[1])
    s[C].tensorize(s[C].op.axis[0], GEMM)
    assert lowered(s, args) == (
        "tensorize of 'i' in C: A.local is computed in loop 'j', which the intrinsic replaces\n"
        "  try: compute it at a loop outside of 'i'"
    )


def test_loops_marked_later_are_found() -> None:
    args, s = tiled()
    s[args[2]].unroll(s[args[2]].leaf_iter_vars[4])
    assert lowered(s, args) == (
        "tensorize of 'i.inner' in C with gemm_4x4x4: loop 'j.inner' inside it is marked unroll\n"
        "  try: the intrinsic replaces those loops: mark loops outside of it"
    )


def test_a_pointer_needs_memory_that_lies_as_declared() -> None:
    args, s = tiled(intrin=opaque())
    assert lowered(s, args) == (
        "tensorize of 'i.inner' in C with gemm4x4: a call takes the address of x, which is "
        "declared with strides (4, 1); the part of A that it stands for has strides (8, 1)\n"
        "  try: decl_buffer(..., strides=[te.var(), 1]); or a cache of A of this size"
    )


def test_an_offset_factor_must_divide() -> None:
    args, s = tiled(intrin=opaque(strides=True, offset_factor=16), m=12)
    assert lowered(s, args) == (
        "tensorize of 'i.inner' in C with gemm4x4: x begins at element i_outer*32 + k_outer*4 of "
        "A, which is not known to be a multiple of its offset_factor 16\n"
        "  try: tile sizes and row lengths of A that are multiples of 16, or a smaller "
        "offset_factor"
    )


def test_a_scope_must_be_that_of_the_memory() -> None:
    args, s = tiled(intrin=opaque(strides=True, scope="local"))
    assert lowered(s, args) == (
        "tensorize of 'i.inner' in C with gemm4x4: x is declared in local, A is in global\n"
        "  try: set_scope or a cache in 'local'"
    )


def test_a_variable_learns_one_stride() -> None:
    step = te.var("step")
    x, y = GEMM.inputs
    binds = {t: tir.decl_buffer((4, 4), name=t.name, strides=[step, 1]) for t in (x, y)}
    call = te.hardware_intrinsic("gemm", step)
    once = te.decl_tensor_intrin(GEMM.op, lambda i, o: call, binds, name="once")
    args, s = tiled(intrin=once, depth=4)
    assert lowered(s, args) == (
        "tensorize of 'i.inner' in C with once: step of y: it would be 12 in B, but elsewhere 4\n"
        "  try: declare a variable for each buffer"
    )


def test_a_part_must_lie_in_even_strides() -> None:
    args, s = matmul()
    _, B, C = args
    packed = s.cache_read(B, "global", [C])
    s[packed].transform_layout(lambda k, j: (j // 3, k, j % 3))
    _, _, _, inner, _, _ = s[C].tile(*s[C].op.axis, *s[C].op.reduce_axis, 4, 4, 4)
    s[C].tensorize(inner, opaque(strides=True))
    assert lowered(s, args) == (
        "tensorize of 'i.inner' in C with gemm4x4: the part of B.global that y stands for has "
        "no constant strides\n  try: use another transform_layout of B.global, or none"
    )


def test_threads_do_not_share_a_reduction() -> None:
    args, s = tiled("kij")
    C = args[2]
    s[C].bind(s[C].leaf_iter_vars[0], te.thread_axis("threadIdx.x"))
    assert lowered(s, args) == (
        "tensorize of 'i.inner' in C with gemm_4x4x4: reduce loop 'k.outer' outside it is bound "
        "to threads, and the intrinsic does not combine their results\n"
        "  try: rfactor first, or bind data loops"
    )


def test_virtual_threads_and_double_buffers_move_pointers(golden: Callable[[str], None]) -> None:
    args, s = matmul()
    A, B, C = args
    CL = s.cache_write(C, "local")
    AL, BL = s.cache_read(A, "local", [CL]), s.cache_read(B, "local", [CL])
    yo, xo, yi, xi = s[C].tile(*s[C].op.axis, 4, 4)
    s[C].reorder(xo, yo, yi, xi)
    s[CL].compute_at(s[C], yo)
    (y, x), (k,) = s[CL].op.axis, s[CL].op.reduce_axis
    ko, ki = s[CL].split(k, 4)
    s[CL].reorder(ko, y, x, ki)
    for cached in (AL, BL):
        s[cached].compute_at(s[CL], ko)
    s[CL].tensorize(y, opaque())
    s[C].bind(yo, te.thread_axis("vthread"))
    golden(str(tvm.lower(s, args)))


# --- declarations that make no sense -------------------------------------------------------------

W = te.placeholder((8,), name="w")
HALF = te.compute((4,), lambda i: W[i * 2], name="h")
LONG = te.compute((te.size_var("n"),), lambda i: W[0], name="l")
ROW = te.compute((8,), lambda i: W[i] * 2.0, name="r")
TWICE = te.compute((4,), lambda i: HALF[i] * 2.0, name="t")


def _store(ins: Any, outs: Any) -> Any:
    return outs[0].vstore(0, 1.0)


def _sum(ins: Any, outs: Any) -> Any:
    j = te.reduce_axis((0, 4), name="j")
    return outs[0].vstore((0, 0), te.sum(ins[0].vload((0, j)), axis=j))


DECLARATIONS: dict[str, tuple[Callable[[], Any], str]] = {
    "placeholder": (
        lambda: te.decl_tensor_intrin(W.op, _store, name="f"),
        "tensor intrinsic f of placeholder w: not a te.compute\n  try: pass y.op",
    ),
    "in part": (
        lambda: te.decl_tensor_intrin(HALF.op, _store, name="f"),
        "tensor intrinsic f: the formula does not read all of w: dimension 0 has 8 elements, and "
        "0 .. 6 are read\n  try: an input that is only as large as what is read",
    ),
    "symbolic": (
        lambda: te.decl_tensor_intrin(LONG.op, _store, name="f"),
        "tensor intrinsic f: its shape is n\n  try: constant extents",
    ),
    "two stages": (
        lambda: te.decl_tensor_intrin(TWICE.op, _store, name="f"),
        "tensor intrinsic f: its input h is computed\n  try: one formula over placeholders",
    ),
    "parts": (
        lambda: te.decl_tensor_intrin(GEMM.op, lambda i, o: (), name="f"),
        "tensor intrinsic f: fcompute returns 0 parts\n  try: body, or (body, reset, update)",
    ),
    "nothing": (
        lambda: te.decl_tensor_intrin(GEMM.op, lambda i, o: None, name="f"),
        "tensor intrinsic f: fcompute returns None instead of the statement that computes "
        "the formula\n  try: return ib.get(); or return body, reset, update",
    ),
    "no update": (
        lambda: te.decl_tensor_intrin(GEMM.op, lambda i, o: (None, GEMM.reset, None), name="f"),
        "tensor intrinsic f: fcompute returns None instead of the statement that computes "
        "the formula\n  try: return ib.get(); or return body, reset, update",
    ),
    "no body": (
        lambda: te.decl_tensor_intrin(
            ROW.op, lambda i, o: (None, o[0].vstore(0, 0.0), o[0].vstore(0, 1.0)), name="f"
        ),
        "tensor intrinsic f: body is None, but the formula is no reduction\n  try: return the body",
    ),
    "a sum": (
        lambda: te.decl_tensor_intrin(GEMM.op, _sum, name="f"),
        "tensor intrinsic f: sum(x[0, j], axis=[j]): te.sum can be used only in the formula of a "
        "te.compute, and this is a statement\n"
        "  try: an ib.for_range loop that adds one term per iteration",
    ),
    "buffer": (
        lambda: te.decl_tensor_intrin(
            GEMM.op, _store, {GEMM.inputs[0]: tir.decl_buffer((2, 2), name="x")}, name="f"
        ),
        "tensor intrinsic f: buffer x is float32[2, 2], but x is float32[4, 4]",
    ),
    "input": (
        lambda: te.decl_tensor_intrin(GEMM.op, lambda i, o: i[0].vstore((0, 0), 1.0), name="f"),
        "tensor intrinsic f: body: x[0, 0] = 1.0: 'x' is an input: PrimFunc.outputs "
        "does not list it",
    ),
    "scalars": (
        lambda: te.decl_tensor_intrin(GEMM.op, _store, name="f", scalar_params=[1]),
        "tensor intrinsic f: scalar parameters are not supported\n  try: an input of shape (1,)",
    ),
}


@pytest.mark.parametrize("case", DECLARATIONS)
def test_a_declaration_without_meaning_is_refused(case: str) -> None:
    act, message = DECLARATIONS[case]
    assert says(act, ExprError) == message


# --- splits without a guard ----------------------------------------------------------------------


def test_a_split_that_divides_needs_no_guard() -> None:
    args, s = matmul()
    C = args[2]
    s[C].split(s[C].op.axis[0], 4, disable_predication=True)
    assert s.python().endswith("split(i, factor=4, disable_predication=True)")
    check(args, s, "interpreter")


def test_a_split_that_does_not_divide_keeps_its_guard() -> None:
    args, s = matmul()
    C = args[2]
    split = s[C].split
    assert says(lambda: split(s[C].op.axis[0], 3, disable_predication=True), ScheduleError) == (
        "split of 'i' in C: 3 * 3 iterations are not 8: without a "
        "guard, the extra iterations would write out of bounds\n"
        "  try: a size that divides the extent, or keep the guard"
    )
    check(args, s, "interpreter")


def test_where_a_stage_is_attached_lowering_decides() -> None:
    args, s = matmul(8, 12, 8)
    C = args[2]
    CL = s.cache_write(C, "local")
    s[CL].split(s[CL].op.axis[0], 3, disable_predication=True)
    assert lowered(s, args) == (
        "split of 'i.c' in C.local, disable_predication=True: it makes 9 iterations of 8: without "
        "a guard, the extra iterations would write elsewhere\n"
        "  try: a size that divides, or leave the guard in"
    )
    io, _ = s[C].split(s[C].op.axis[0], 1)
    s[CL].compute_at(s[C], io)
    check(args, s, "interpreter")
