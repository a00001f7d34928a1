"""Constants: what depends on them alone is computed before the calls."""

import pickle

import numpy as np
import pytest

import minitvm as tvm
from minitvm import accesses, te, tir, viz
from minitvm.base import ArgumentError, BuildError, ExprError

TARGETS = ["llvm", "llvm -num-cores=2", "numba", "python"]


def product(constant=True, attrs=None):
    """A product with packed weights, and its arguments."""
    A = te.placeholder((4, 8), name="A")
    W = te.placeholder((8, 32), name="W", constant=constant)
    k = te.reduce_axis((0, 8), "k")
    C = te.compute(
        (4, 32), lambda i, j: te.sum(A[i, k] * W[k, j], axis=k), name="C", attrs=attrs and attrs(W)
    )
    s = te.create_schedule(C.op)
    s[W].transform_layout(lambda k, j: (j // 16, k, j % 16))
    return s, [A, W, C]


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    a, w = (rng.integers(-9, 10, n).astype("float32") for n in ((4, 8), (8, 32)))
    return a, w, np.zeros((4, 32), "float32")


def test_a_copy_of_a_constant_is_made_by_prepack():
    program = tvm.lower(*product(), until="nest")
    assert str(program) == (
        "def main_prepack(W: float32[8, 32], W_global: float32[2, 8, 16]):\n"
        "  for ax0 in range(8):\n"
        "    for ax1 in range(32):\n"
        "      W_global[ax1 // 16, ax0, ax1 % 16] = W[ax0, ax1]\n"
        "\n"
        "def main(A: float32[4, 8], W: float32[8, 32], C: float32[4, 32], *, "
        "W_global: float32[2, 8, 16]):\n"
        "  for i in range(4):\n"
        "    for j in range(32):\n"
        "      C[i, j] = 0.0\n"
        "      for k in range(8):\n"
        "        C[i, j] = C[i, j] + A[i, k] * W_global[j // 16, k, j % 16]"
    )
    assert str(program).startswith(str(program.prepack))


def test_tvm_lists_constants_in_an_attribute():
    s, args = product(constant=False, attrs=lambda W: {"layout_free_placeholders": [W]})
    assert tvm.lower(s, args).prepack is not None


def test_an_input_that_is_not_constant_has_no_layout_of_its_own():
    with pytest.raises(tvm.TVMError, match="W is an input"):
        product(constant=False)


@pytest.mark.parametrize("target", TARGETS)
def test_calls_pack_or_use_what_bind_has_packed(target):
    s, args = product()
    f = tvm.build(s, args, target)
    a, w, c = arrays()
    f(a, w, c)
    np.testing.assert_array_equal(c, a @ w)
    g = f.bind(W=w)
    other = arrays(1)[0]
    g(other, c)
    np.testing.assert_array_equal(c, other @ w)
    g.time_evaluator(number=1, repeat=1)(a, c)
    assert "W_global" in f.source("python")


def test_the_interpreter_packs():
    s, args = product()
    a, w, c = arrays()
    tir.interpret(tvm.lower(s, args, until="nest"), a, w, c)
    np.testing.assert_array_equal(c, a @ w)


@pytest.mark.parametrize("target", TARGETS[1:])
def test_stored_functions_keep_both_programs(target, tmp_path):
    s, args = product()
    f = tvm.build(s, args, target)
    f.export(tmp_path / "f.mtvm")
    a, w, c = arrays()
    for g in (tvm.load(tmp_path / "f.mtvm"), pickle.loads(pickle.dumps(f))):
        for call in (lambda g=g: g(a, w, c), lambda g=g: g.bind(W=w)(a, c)):
            c[:] = 0
            call()
            np.testing.assert_array_equal(c, a @ w)
    with pytest.raises(BuildError, match="its constants are bound"):
        f.bind(W=w).export(tmp_path / "g.mtvm")


def test_a_constant_that_the_main_program_reads_can_be_bound():
    A, W = te.placeholder((6,), name="A"), te.placeholder((6,), name="W", constant=True)
    C = te.compute((6,), lambda i: A[i] * W[i], name="C")
    f = tvm.build(te.create_schedule(C.op), [A, W, C])
    assert f.func.prepack is None
    c = np.zeros(6, "float32")
    f.bind(W=np.arange(6, dtype="float32"))(np.full(6, 2, "float32"), c)
    assert c.tolist() == [0, 2, 4, 6, 8, 10]


def chain():
    """W -> P -> Q, constant; C = A + Q."""
    A, W = te.placeholder((6,), name="A"), te.placeholder((6,), name="W", constant=True)
    P = te.compute((6,), lambda i: W[i] * 2.0, name="P")
    Q = te.compute((6,), lambda i: P[i] + W[5 - i], name="Q")
    C = te.compute((6,), lambda i: A[i] + Q[i], name="C")
    return te.create_schedule(C.op), A, W, P, Q, C


def packed(s, args):
    program = tvm.lower(s, args, until="nest")
    w = np.arange(6, dtype="float32")
    c = np.zeros(6, "float32")
    tir.interpret(program, np.ones(6, "float32"), w, c)
    np.testing.assert_array_equal(c, 1 + 2 * w + w[::-1])
    f = tvm.build(s, args)
    f.bind(W=w)(np.ones(6, "float32"), c)
    np.testing.assert_array_equal(c, 1 + 2 * w + w[::-1])
    return [b.name for b in program.packed]


def test_only_what_the_main_program_reads_becomes_a_parameter():
    s, A, W, _, _, C = chain()
    assert packed(s, [A, W, C]) == ["Q"]


def test_a_stage_in_a_loop_of_the_main_program_stays_there():
    s, A, W, _, Q, C = chain()
    s[Q].compute_at(s[C], C.op.axis[0])
    assert packed(s, [A, W, C]) == ["P"]


def test_a_stage_stays_with_its_producer_in_registers():
    s, A, W, P, _, C = chain()
    s[P].set_scope("local")
    assert packed(s, [A, W, C]) == []


def test_a_stage_that_reads_registers_stays_with_them_also_in_a_loop_of_a_constant_stage():
    W = te.placeholder((8,), name="W", constant=True)
    first = te.compute((8,), lambda i: W[i] + 1, name="First")
    second = te.compute((8,), lambda i: first[i] * 2, name="Second")
    third = te.compute((8,), lambda i: second[i] - 3, name="Third")
    A = te.placeholder((8,), name="A")
    out = te.compute((8,), lambda i: third[i] + A[i], name="Out")
    s = te.create_schedule(out.op)
    s[first].set_scope("shared")
    s[second].compute_at(s[third], third.op.axis[0])
    program = tvm.lower(s, [A, W, out])
    assert program.prepack is None  # all three are computed where First is
    w, a, result = np.arange(8, dtype="float32"), np.ones(8, "float32"), np.zeros(8, "float32")
    tvm.build(s, [A, W, out], target="python")(a, w, result)
    np.testing.assert_array_equal(result, (w + 1) * 2 - 3 + 1)


def test_an_inlined_stage_is_computed_where_it_is_read():
    s, A, W, P, Q, C = chain()
    s[P].compute_inline()
    assert packed(s, [A, W, C]) == ["Q"]
    s[Q].compute_inline()
    assert packed(s, [A, W, C]) == []


def test_a_strided_constant_has_room_for_the_gaps():
    s, A, W, _, Q, C = chain()
    s[Q].storage_align(Q.op.axis[0], 4, 2)
    assert packed(s, [A, W, C]) == ["Q"]


def test_an_output_is_computed_at_each_call():
    W = te.placeholder((6,), name="W", constant=True)
    C = te.compute((6,), lambda i: W[i] * 2.0, name="C")
    assert tvm.lower(te.create_schedule(C.op), [W, C]).prepack is None


def test_arrays_start_at_a_cache_line():
    for a in (tvm.nd.empty((3, 5)), tvm.nd.array([1.0, 2.0]), tvm.nd.empty(7, "int8")):
        assert a.ctypes.data % 64 == 0


def refused(call, error=ArgumentError):
    with pytest.raises(error) as raised:
        call()
    return str(raised.value)


def test_bind_wants_each_constant_once():
    s, args = product()
    f = tvm.build(s, args)
    a, w, _ = arrays()
    assert refused(f.bind) == ("bind of main: W missing\n  try: all constants are bound at once")
    assert refused(lambda: f.bind(A=a)) == (
        "bind of main: 'A' is not a constant of it\n  try: its constants: W"
    )
    assert refused(lambda: f.bind(W=w).bind(W=w)) == (
        "bind of main: its constants are bound already\n"
        "  try: bind the function that build returned"
    )
    assert "argument W: has shape (3, 32), not (8, 32)" in refused(lambda: f.bind(W=w[:3]))
    assert "has dtype float64" in refused(lambda: f.bind(W=w.astype("float64")))
    plain = tvm.build(*product_without_constants())
    assert refused(lambda: plain.bind(W=w)) == (
        'bind of main: it has no constants\n  try: te.placeholder(..., name="W", constant=True)'
    )


def product_without_constants():
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    return te.create_schedule(B.op), [A, B]


def test_constants_have_constant_sizes():
    n = te.var("n")
    assert "a constant cannot have symbolic sizes" in refused(
        lambda: te.placeholder((n,), name="W", constant=True), ExprError
    )
    A = te.placeholder((n,), name="A")
    assert "is not an input with constant sizes" in refused(
        lambda: te.compute((n,), lambda i: A[i], attrs={"layout_free_placeholders": [A]}),
        ExprError,
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("where", ["shape", "formula", "split", "region"])
def test_a_stage_with_a_symbolic_size_is_computed_at_each_call(where, target):
    n = te.var("n")
    W, X = te.placeholder((8,), name="W", constant=True), te.placeholder((n,), name="X")
    if where == "shape":
        B = te.compute((n,), lambda i: W[te.min(i, 7)] * 2.0, name="B")
    elif where == "formula":
        B = te.compute((8,), lambda i: W[i] * te.max(te.min(n, 2), 0).astype("float32"), name="B")
    else:
        B = te.compute((8,), lambda i: W[i] * 2.0, name="B")
    least = {"shape": lambda i: te.min(i, n - 1), "region": lambda i: te.max(0, te.min(i, 7))}
    at = least.get(where, lambda i: te.min(i, 7))
    C = te.compute((n,), lambda i: X[i] + B[at(i)], name="C")
    s = te.create_schedule(C.op)
    if where == "split":
        s[B].split(B.op.axis[0], nparts=n)
    assert tvm.lower(s, [W, X, C]).prepack is None
    w, x, c = np.arange(8.0, dtype="f"), np.ones(5, "f"), np.zeros(5, "f")
    tvm.build(s, [W, X, C], target).bind(W=w)(x, c)
    assert c.tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]


def test_explain_says_when_a_constant_is_packed():
    s, _ = product()
    assert (
        "W.global\n  where    before the calls, once: it depends on constants alone (read by C)\n"
    ) in str(s.explain())


def test_a_recording_leaves_out_what_happens_before_the_calls():
    s, args = product()
    trace = accesses.record(s, args)
    assert str(trace) == "<4224 accesses of A, W, C, W_global: 3072 loads, 1152 stores>"


def test_pictures_show_both_programs():
    s, args = product()
    assert "W_global: float32[2, 8, 16], packed once" in str(viz.NestPlayer(s))
    view = viz.TripleView(s, args)
    for code in ("python", "loops", "llvm"):
        view.event("code", code)
        (_, shown) = view.view["panels"]
        text = "\n".join(line["text"] for line in shown["lines"])
        assert text.index("main_prepack(") < text.index("main(")
        assert any(key.startswith("code:") for key in view.view["links"]["loop:ax0"])


def test_a_function_with_scalars_and_symbolic_sizes_binds_its_constants():
    n, step = te.var("n"), te.var("step")
    A, W = te.placeholder((n,), name="A"), te.placeholder((4,), name="W", constant=True)
    P = te.compute((4,), lambda i: W[i] * 2.0, name="P")
    C = te.compute((n,), lambda i: A[i] + P[i % 4] * (step * 1.0), name="C")
    f = tvm.build(te.create_schedule(C.op), [step, A, W, C])
    a, w, c = np.ones(6, "float32"), np.arange(4, dtype="float32"), np.zeros(6, "float32")
    f.bind(W=w)(3, a, c)
    assert c.tolist() == [1, 7, 13, 19, 1, 7]
    f(2, a, w, c)
    assert c.tolist() == [1, 5, 9, 13, 1, 5]
