"""Formulas: what each constructor makes, and what is refused with which words."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm.base import DTYPES, ExprError
from minitvm.tensor import (
    ComputeOp,
    Tensor,
    comm_reducer,
    compute,
    max,
    min,
    min_value,
    placeholder,
    prod,
    reduce_axis,
    size_var,
    sum,
    var,
)
from minitvm.tir import all_of, if_then_else, intrinsic, text

A = placeholder((8, 4), name="A")
V = placeholder((8,), name="V")
I = placeholder((8,), "int32", name="I")  # noqa: E741  the index tensor of a gather
M = placeholder((8,), "bool", name="M")
S = placeholder((), name="S")
n = size_var("n")
r = reduce_axis((0, 4), name="r")
k = reduce_axis((0, 4), name="k")


def made(fcompute: Callable[..., Any], shape: Any = (8,)) -> Any:
    return compute(shape, fcompute, name="C")


def formula(fcompute: Callable[..., Any], shape: Any = (8,)) -> str:
    return text(made(fcompute, shape).op.body[0])


def refusal(act: Callable[[], Any]) -> str:
    with pytest.raises(ExprError) as caught:
        act()
    return str(caught.value)


# --- inputs and sizes ----------------------------------------------------------------------------


def test_a_placeholder_has_a_name_a_shape_and_a_type() -> None:
    assert (A.name, A.shape, A.dtype, A.ndim) == ("A", (8, 4), "float32", 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_makes_a_placeholder(dtype: str) -> None:
    assert placeholder((2,), dtype).dtype == dtype


def test_a_tensor_prints_as_type_and_shape() -> None:
    assert repr(placeholder((n, n * 2 + 1), name="P")) == "Tensor P: float32[n, n*2 + 1]"


def test_one_size_stands_for_a_shape_of_one_dimension() -> None:
    assert placeholder(8).shape == (8,)


def test_a_whole_float_is_a_size() -> None:
    assert placeholder((64 / 4, 4)).shape == (16, 4)


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((-1,), "placeholder P: dimension 0 is -1: sizes are not negative"),
        ((2, 2.5), "placeholder P: dimension 1 is 2.5: sizes are integers"),
        ("ab", "placeholder P: dimension 0 is 'ab': sizes are integers"),
    ],
)
def test_a_shape_that_is_no_shape_is_refused(shape: Any, says: str) -> None:
    assert refusal(lambda: placeholder(shape, name="P")) == says


def test_an_unknown_dtype_is_refused_with_the_known_ones() -> None:
    assert refusal(lambda: placeholder((8,), "float8")) == (
        "dtype 'float8': there is no such type\n"
        "  try: one of bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, "
        "float32, float64"
    )


def test_a_symbol_is_an_integer() -> None:
    assert refusal(lambda: var("n", "float32")) == (
        "var('n', 'float32'): a size is an int32 or int64\n  try: dtype=\"int32\""
    )


def test_a_size_is_known_not_to_be_negative() -> None:
    assert (size_var("n").low, var("n").low) == (0, -np.inf)


# --- axes ----------------------------------------------------------------------------------------


def test_axes_are_named_after_the_arguments_of_the_formula() -> None:
    assert [a.name for a in made(lambda y, x: A[y, x], (8, 4)).op.axis] == ["y", "x"]


def test_a_starred_argument_gives_numbered_axes() -> None:
    assert [a.name for a in made(lambda y, *i: A(y, *i) + 1.0, (8, 4)).op.axis] == ["y", "i0"]


def test_a_formula_of_no_axes_has_one_element() -> None:
    C = made(lambda: S() + 1.0, ())
    assert (C.shape, text(C.op.body[0])) == ((), "S[()] + 1.0")


def test_a_data_axis_runs_over_its_dimension() -> None:
    assert repr(made(lambda i: V[i]).op.axis[0]) == "data axis i in [0, 8)"


def test_a_reduce_axis_runs_over_its_pair() -> None:
    assert repr(reduce_axis((2, 5), name="r")) == "reduce axis r in [2, 5)"


def test_a_reduce_axis_may_be_symbolic() -> None:
    assert repr(reduce_axis((1, n), name="r")) == "reduce axis r in [1, n)"


def test_a_reduce_axis_may_be_empty() -> None:
    assert reduce_axis((3, 3)).extent == 0


def test_a_reduce_axis_that_ends_before_it_begins_is_refused() -> None:
    assert refusal(lambda: reduce_axis((5, 0))) == (
        "reduce_axis((5, 0)): its end is before its start\n  try: (0, 5)"
    )


def test_a_reduce_axis_takes_a_pair() -> None:
    assert refusal(lambda: reduce_axis(5)) == (
        'reduce_axis(5): it takes one pair (lo, hi)\n  try: reduce_axis((0, K), name="k")'
    )


def test_the_range_of_a_reduce_axis_is_one_argument() -> None:
    """A lecture has tvm.reduce_axis(0, h), name='k'), where a bracket is missing."""
    h: Any = var("h")
    assert refusal(lambda: reduce_axis(0, h, name="k")).startswith(
        "reduce_axis(0, h): it takes one pair (lo, hi)"
    )


def test_the_name_of_a_reduce_axis_may_come_second() -> None:
    assert reduce_axis((0, 4), "k").name == "k"


@pytest.mark.parametrize(
    ("fcompute", "shape", "says"),
    [
        (lambda i: V[i], (8, 8), "takes 1 axes, the shape has 2: one axis per dimension\n"
         "  try: lambda i, j: ..."),
        (lambda i, j: V[i], (8,), "takes 2 axes, the shape has 1: one axis per dimension\n"
         "  try: lambda i: ..."),
        (lambda: S() + 1.0, (8,), "takes 0 axes, the shape has 1: one axis per dimension\n"
         "  try: lambda i: ..."),
    ],
)  # fmt: skip
def test_a_formula_has_one_argument_for_each_dimension(
    fcompute: Callable[..., Any], shape: tuple[int, ...], says: str
) -> None:
    assert refusal(lambda: made(fcompute, shape)) == f"compute C: the formula {says}"


@pytest.mark.parametrize(
    ("fcompute", "what"), [(lambda i, j=0: V[i], "defaults"), (lambda i, *, j: V[i], "j")]
)
def test_arguments_of_a_formula_have_no_defaults(fcompute: Callable[..., Any], what: str) -> None:
    assert refusal(lambda: made(fcompute)) == (
        f"compute C: {what}: the arguments of a formula are axes, which have no defaults\n"
        "  try: close over the value instead"
    )


def test_a_formula_is_a_function() -> None:
    assert refusal(lambda: compute((8,), 5, name="C")) == (  # type: ignore[arg-type]
        "compute C: 5: not a function\n  try: lambda i: ..."
    )


# --- formulas ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fcompute", "says"),
    [
        (lambda i: V[i] + 1.0, "V[i] + 1.0"),
        (lambda i: A[i, 1] * A[i][2] + A(i, 3), "A[i, 1] * A[i, 2] + A[i, 3]"),
        (lambda i: V[7 - i], "V[7 - i]"),
        (lambda i: V[i // 2] - V[i % 2], "V[i // 2] - V[i % 2]"),
        (lambda i: -V[i], "V[i] * (-1.0)"),
        (lambda i: intrinsic("exp", V[i]), "exp(V[i])"),
        (lambda i: max(V[i], 0.0), "max(V[i], 0.0)"),
        (lambda i: min(V[i], V[0]), "min(V[i], V[0])"),
        (lambda i: if_then_else(i < 3, V[i], 0.0), "(V[i] if i < 3 else 0.0)"),
        (lambda i: i + n, "i + n"),
        (lambda i: 3, "3"),
    ],
)  # fmt: skip
def test_a_formula_is_what_was_written(fcompute: Callable[..., Any], says: str) -> None:
    assert formula(fcompute) == says


def test_a_tuple_of_formulas_makes_several_tensors() -> None:
    C = made(lambda i: (V[i], I[i]))
    assert [(t.name, t.dtype) for t in C] == [("C.v0", "float32"), ("C.v1", "int32")]


def test_several_outputs_are_one_operation() -> None:
    first, second = made(lambda i: (V[i], I[i]))
    assert first.op is second.op


def test_the_inputs_of_an_operation_are_listed_once() -> None:
    C = made(lambda i: V[i] + V[7 - i] * A[i, 0])
    assert C.op.input_tensors == (V, A)


def test_tensors_are_equal_if_they_are_the_same_output() -> None:
    C = made(lambda i: V[i])
    assert C.op.output(0) == C
    assert made(lambda i: V[i]) != C


def test_a_formula_may_use_a_symbolic_size() -> None:
    X = placeholder((n,), name="X")
    assert formula(lambda i: X[n - 1 - i], (n,)) == "X[n - i - 1]"


# --- reductions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fold", [sum, prod, max, min])
def test_a_reduction_knows_what_it_folds_over(fold: Callable[..., Any]) -> None:
    op = made(lambda i: fold(A[i, k], axis=k)).op
    assert isinstance(op, ComputeOp)
    assert op.reduction is not None
    assert (op.reduction.reducer.name, op.reduce_axis) == (fold.__name__, (k,))


def test_the_axis_of_a_reduction_may_be_positional() -> None:
    assert made(lambda i: max(A[i, k], k)).op.reduce_axis == (k,)


def test_a_reduction_may_fold_over_several_axes() -> None:
    C = made(lambda: sum(A[k, r], axis=[k, r]), ())
    assert [a.name for a in C.op.reduce_axis] == ["k", "r"]


def test_a_reduction_may_start_from_a_tensor_of_another_type() -> None:
    (init,) = sum(A[0, k], axis=k, init=I[0]).init
    assert text(init) == "float32(I[0])"


def test_max_of_a_data_axis_given_as_axis_is_refused() -> None:
    """Not the larger of the value and the axis' number."""
    assert refusal(lambda: made(lambda i: max(A[i, 0], axis=i))) == (
        "te.max: data axis i in [0, 8) is not a reduce axis\n  try: te.reduce_axis((0, K))"
    )


@pytest.mark.parametrize(
    ("fcompute", "says"),
    [
        (lambda i: sum(A[i, k], axis=i),
         "te.sum: data axis i in [0, 8) is not a reduce axis\n"
         "  try: te.reduce_axis((0, K))"),
        (lambda i: sum(A[i, k], axis=[]), "te.sum: there is no axis to reduce over\n"
         "  try: k = te.reduce_axis((0, K)), then te.sum(..., axis=k)"),
        (lambda i: sum(A[i, k], axis=[k, k]), "te.sum: the same axis is given twice"),
        (lambda i: sum(M[i], axis=k), "te.sum: values of type bool cannot be reduced\n"
         "  try: x.astype('int32') first"),
        (lambda i: sum(A[i, k], axis=k, init=(1, 2)),
         "te.sum: init has 2 values, but 1 are reduced\n  try: one for each"),
        (lambda i: max(V[i]), "te.max of one value: there is nothing to compare it with\n"
         "  try: te.max(a, b), or te.max(expr, axis=k)"),
    ],
)  # fmt: skip
def test_a_reduction_without_meaning_is_refused(fcompute: Callable[..., Any], says: str) -> None:
    assert refusal(lambda: made(fcompute)) == says


largest = comm_reducer(
    lambda x, y: (
        if_then_else(x[1] >= y[1], x[0], y[0]),
        if_then_else(x[1] >= y[1], x[1], y[1]),
    ),
    lambda at, value: (0, min_value(value)),
    name="argmax",
)


def test_a_reduction_of_ones_own_folds_tuples() -> None:
    at, value = made(lambda i: largest((k, A[i, k]), axis=k))
    assert [(t.name, t.dtype) for t in (at, value)] == [("C.v0", "int32"), ("C.v1", "float32")]


def test_a_reduction_of_ones_own_starts_from_its_identity() -> None:
    made_of = largest((k, A[0, k]), axis=k)
    types = tuple(e.dtype for e in made_of.sources)
    assert [text(e) for e in made_of.reducer.identity(types)] == ["0", "-inf"]


FORGOTTEN = (
    "compute C: axis 'k' is not in scope: it is a reduce axis that no reduction here runs over\n"
    "  try: add k to the axis list: te.sum(..., axis=[..., k])"
)
NESTED = (
    "compute C: a reduction inside a larger expression: "
    "a reduction is the whole body of a compute\n"
    "  try: give the reduction a compute of its own and read it in a second one"
)


@pytest.mark.parametrize("fcompute", [lambda i: sum(A[i, k], axis=r), lambda i: A[i, k]])
def test_a_forgotten_reduce_axis_is_refused(fcompute: Callable[..., Any]) -> None:
    assert refusal(lambda: made(fcompute)) == FORGOTTEN


@pytest.mark.parametrize(
    "fcompute",
    [
        lambda i: sum(A[i, k], axis=k) + 1.0,
        lambda i: sum(sum(A[i, k], axis=k), axis=r),
        lambda i: if_then_else(i < 3, sum(A[i, k], axis=k), 0.0),
    ],
)
def test_a_reduction_stands_alone(fcompute: Callable[..., Any]) -> None:
    assert refusal(lambda: made(fcompute)) == NESTED


@pytest.mark.parametrize(
    "fcompute",
    [
        lambda i: (sum(A[i, k], axis=k), V[i]),
        lambda i: (sum(A[i, k], axis=k), max(A[i, k], axis=k)),
    ],
)
def test_outputs_of_one_compute_are_of_one_kind(fcompute: Callable[..., Any]) -> None:
    assert refusal(lambda: made(fcompute)) == (
        "compute C: outputs of different kinds: all outputs of one compute are parts of the same "
        "reduction, or none is\n  try: one te.compute for each"
    )


def test_an_axis_of_another_compute_is_refused() -> None:
    (other,) = made(lambda j: V[j]).op.axis
    assert refusal(lambda: made(lambda i: V[other])) == (
        "compute C: axis 'j' is not in scope: it belongs to another compute\n"
        "  try: use the arguments of this lambda"
    )


# --- mistakes in formulas ------------------------------------------------------------------------

NO_TRUTH = (
    "an expression has no truth value while the program is being built: "
    "`if`, `and`, `or`, `not` and chained comparisons need one\n"
    "  try: te.if_then_else(cond, a, b), te.all(...), te.any(...) or tir.Not(...)"
)


@pytest.mark.parametrize(
    "fcompute",
    [
        lambda i: V[i] if i == 0 else V[i] * 2.0,
        lambda i: V[i] if i < 3 else V[i] * 2.0,
        lambda i: if_then_else(i > 0 and i < 3, V[i], 0.0),
        lambda i: if_then_else(0 < i < 3, V[i], 0.0),
        lambda i: if_then_else(not i < 3, V[i], 0.0),
    ],
    ids=["if ==", "if <", "and", "chained", "not"],
)
def test_python_conditions_in_a_formula_are_refused(fcompute: Callable[..., Any]) -> None:
    assert refusal(lambda: made(fcompute)) == NO_TRUTH


INDEX_IT = (
    "only expressions, axes, tensor elements and numbers can be combined\n"
    "  try: index a tensor, A[i, j], before using it"
)


@pytest.mark.parametrize(
    ("fcompute", "says"),
    [
        (lambda i: A, f"Tensor in a formula: {INDEX_IT}"),
        (lambda i: V[i] + I, f"Tensor in a formula: {INDEX_IT}"),
        (lambda i: np.zeros(3), "a numpy array in a formula: data is passed when the compiled "
         "function is called\n"
         '  try: A = te.placeholder(a.shape, "float32"), and A[i, j] in the formula'),
        (lambda i: V + 1.0, "an operator on V as a whole: a formula works on elements\n"
         "  try: te.compute(V.shape, lambda *i: V(*i) + ...), or topi"),
        (lambda i: list(V), "iterating over V: a tensor here is a formula, not data\n"
         "  try: te.sum(..., axis=k) to sum over a reduce axis k"),
        (lambda i: A[i], "A[i]: A has 2 dimension(s), 1 index(es) given"),
        (lambda i: A[i, 0, 0], "A[i, 0, 0]: A has 2 dimension(s), 3 index(es) given"),
        (lambda i: None, "compute C: the formula returns nothing\n  try: return an expression"),
        (lambda i: V[0.5], "an index of type float: indices are integers\n"
         "  try: x.astype('int32')"),
        (lambda i: V[V[i]], "an index of type float32: indices are integers\n"
         "  try: x.astype('int32')"),
        (lambda i: i / 2, "/ on integers: it does not say how to round\n  try: //, or cast first"),
        (lambda i: I[i] / 2, "div on int32: it is defined on floats\n"
         "  try: cast first, or // and %"),
        (lambda i: V[i] // 2.0, "floordiv on float32: it is defined on integers\n"
         "  try: te.floor(a / b)"),
        (lambda i: intrinsic("exp", I[i]), "exp of int32: it takes floats\n"
         "  try: x.astype('float32') first"),
        (lambda i: all_of(V[i]), "all of a float32: it takes conditions\n  try: compare: x > 0"),
    ],
)  # fmt: skip
def test_a_formula_without_meaning_is_refused(fcompute: Callable[..., Any], says: str) -> None:
    assert refusal(lambda: made(fcompute)) == says


# --- reads stay inside ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fcompute", "says"),
    [
        (lambda i: V[i + 1], "V[i + 1] may leave V: index 0 is i + 1, from 1 to 8, "
         "dimension 0 of V is 0 .. 7\n"
         "  try: te.if_then_else(te.all(i + 1 >= 0, i + 1 <= 7), V[i + 1], 0)"),
        (lambda i: V[i - 1] + V[i + 1], "V[i + 1] may leave V: index 0 is i + 1, from 1 to 8, "
         "dimension 0 of V is 0 .. 7\n"
         "  try: te.if_then_else(te.all(i + 1 >= 0, i + 1 <= 7), V[i + 1], 0)"),
        (lambda i: V[6 - i], "V[6 - i] may leave V: index 0 is 6 - i, from -1 to 6, "
         "dimension 0 of V is 0 .. 7\n"
         "  try: te.if_then_else(te.all(6 - i >= 0, 6 - i <= 7), V[6 - i], 0)"),
        (lambda i: A[0, i], "A[0, i] may leave A: index 1 is i, from 0 to 7, "
         "dimension 1 of A is 0 .. 3\n"
         "  try: te.if_then_else(te.all(i >= 0, i <= 3), A[0, i], 0)"),
        (lambda i: sum(V[i + k], axis=k), "V[i + k] may leave V: index 0 is i + k, from 0 to 10, "
         "dimension 0 of V is 0 .. 7\n"
         "  try: te.if_then_else(te.all(i + k >= 0, i + k <= 7), V[i + k], 0)"),
    ],
)  # fmt: skip
def test_a_read_that_may_leave_its_tensor_is_refused(
    fcompute: Callable[..., Any], says: str
) -> None:
    assert refusal(lambda: made(fcompute)) == f"compute C: {says}"


def test_a_read_that_may_leave_a_symbolic_tensor_is_refused() -> None:
    X = placeholder((n,), name="X")
    assert refusal(lambda: made(lambda i: X[i + 1], (n,))) == (
        "compute C: X[i + 1] may leave X: index 0 is i + 1, dimension 0 of X is 0 .. n - 1\n"
        "  try: te.if_then_else(te.all(i + 1 >= 0, i + 1 <= n - 1), X[i + 1], 0)"
    )


@pytest.mark.parametrize(
    "fcompute",
    [
        lambda i: if_then_else(i < 7, V[i + 1], 0.0),
        lambda i: if_then_else(all_of(i > 0, i < 9), V[i - 1], 0.0),
        lambda i: if_then_else(i == 0, 0.0, V[i]),
        lambda i: sum(V[i - k], axis=k, where=i >= k),
    ],
    ids=["if", "all", "else", "where"],
)
def test_a_condition_makes_a_read_safe(fcompute: Callable[..., Any]) -> None:
    assert isinstance(made(fcompute), Tensor)


def test_a_condition_protects_its_own_arm_only() -> None:
    assert "may leave V" in refusal(lambda: made(lambda i: if_then_else(i < 7, V[i + 1], V[i + 1])))


def test_where_does_not_protect_itself() -> None:
    assert "may leave V" in refusal(
        lambda: made(lambda i: sum(A[i, k], axis=k, where=V[i + k] > 0.0))
    )


def test_an_index_from_data_is_clipped() -> None:
    assert formula(lambda i: V[I[i]]) == "V[max(0, min(I[i], 7))]"


@pytest.mark.parametrize(
    ("f", "formula"),
    [
        (lambda a, b: a + b, "A[i0, i1] + B[0, i1]"),
        (lambda a, b: a - b, "A[i0, i1] - B[0, i1]"),
        (lambda a, b: a * b, "A[i0, i1]*B[0, i1]"),
        (lambda a, b: a / b, "A[i0, i1] / B[0, i1]"),
    ],
    ids=["add", "sub", "mul", "div"],
)
def test_an_operator_on_two_tensors_is_that_of_topi(f: Callable[..., Any], formula: str) -> None:
    whole = f(A, placeholder((1, 4), name="B"))
    assert whole.shape == (8, 4)
    assert whole.op.tag == "elementwise"
    assert text(whole.op.body[0]).replace(" * ", "*") == formula


def test_tensors_that_do_not_broadcast_are_refused() -> None:
    assert refusal(lambda: A + V) == "add of [8, 4] and [8]: the shapes do not broadcast"


@pytest.mark.parametrize("f", [lambda: A + 1, lambda: 1 + A, lambda: A * V[0], lambda: V - None])
def test_an_operator_on_a_tensor_and_anything_else_is_refused(f: Callable[[], Any]) -> None:
    assert "as a whole: a formula works on elements" in refusal(f)
