"""What newcomers write, and what they are told."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportUnknownLambdaType=false
# pyright: reportUnknownArgumentType=false

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.base import ExprError, TVMError
from minitvm.tir import text

A: Any = te.placeholder((8, 8), name="A")
V: Any = te.placeholder((8,), name="V")
P: Any = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="P")
X = te.compute((8, 8), lambda i, j: P[i, j] * 2.0, name="X")
Y = te.compute((8, 8), lambda i, j: X[i, j] - 3.0, name="Y")
a = np.ones((8, 8), "float32")


def scheduled() -> Any:
    return te.create_schedule(Y.op)


def vector(formula: Callable[[Any], Any]) -> Any:
    return te.compute((8,), formula, name="C")


def repeated(n: int, f: Callable[[Any], Any], x: Any) -> Any:
    for _ in range(n):
        x = f(x)
    return x


def balanced(terms: list[Any]) -> Any:
    """Return the sum of the terms, nested as little as possible."""
    half = len(terms) // 2
    return terms[0] if not half else balanced(terms[:half]) + balanced(terms[half:])


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    # deep and large formulas
    (lambda: vector(lambda i: repeated(500, te.exp, V[i])),
     "compute C: it nests 501 operations, and at most 150 can be compiled\n  try: te.sum("),
    (lambda: vector(lambda i: repeated(60, lambda x: x * x, V[i])),
     "compute C: it has 3458764513820540927 operations written out, and at most 20000"),
    (lambda: vector(lambda i: te.exp(balanced([te.exp(V[i] + float(d)) for d in range(1000)]))),
     "compute C: it has 25019 operations written out, and at most 20000"),
    # numpy
    (lambda: vector(lambda i: np.exp(V[i])),
     "numpy.exp of an expression: an expression has no value yet\n  try: te.exp"),
    (lambda: vector(lambda i: np.maximum(V[i], 0)),
     "numpy.maximum of an expression: an expression has no value yet\n  try: te.max(a, b)"),
    (lambda: vector(lambda i: np.arctan2(V[i], 1.0)),
     "numpy.arctan2 of an expression: an expression has no value yet\n  try: te.atan2"),
    (lambda: vector(lambda i: np.log1p(V[i])),
     "numpy.log1p of an expression: an expression has no value yet\n  try: te.log1p"),
    (lambda: vector(lambda i: np.sum(V[i])), "numpy.add.reduce of an expression"),
    (lambda: vector(lambda i: a[i, i]), "expected a numpy array, found an expression"),
    (lambda: vector(lambda i: a * V[i]), "a numpy array in a formula"),
    (lambda: vector(lambda i: [1, 2][i]), "expected a Python number, found an expression"),
    (lambda: vector(lambda i: V[int(i)]), "expected a Python number, found an expression"),
    (lambda: np.exp(A), "numpy.exp of A: a tensor here is a formula, not data"),
    (lambda: np.asarray(A), "a numpy array of A: a tensor here is a formula"),
    (lambda: A @ A, "@ on A: a formula works on elements\n  try: topi.matmul(A, B)"),
    (lambda: -A, "an operator on A as a whole"),
    (lambda: A[0] + 1, "A[0]: A has 2 dimension(s), 1 index(es) given"),
    # indices and reductions
    (lambda: vector(lambda i: V[-1]),
     "compute C: V[-1] may leave V: index 0 is -1, dimension 0 of V is 0 .. 7\n"
     "  try: an index from 0 to 7; negative indices do not wrap: V.shape[0] - 1 is the last"),
    (lambda: vector(lambda i: te.sum(V[i])), "te.sum: there is no axis to reduce over"),
    # arguments
    (lambda: tvm.build(scheduled(), A, Y), "put them in a list: [A, B, C]"),
    (lambda: tvm.lower(Y), "lower(Tensor): not a schedule"),
    (lambda: tvm.lower(scheduled(), [A, Y], name=3), "name=3: not a string"),
    (lambda: topi.relu(a), "topi.relu: x is ndarray: not a tensor"),
    (lambda: topi.matmul(A, topi.relu), "topi.matmul: b is function"),
    (lambda: topi.concatenate([]), "topi.concatenate([]): there is nothing"),
    (lambda: topi.schedule(scheduled()), "topi.schedule(Schedule): the argument must be a tensor"),
    (lambda: te.create_schedule(scheduled()), "create_schedule(Schedule): not an operation"),
    (lambda: tvm.build(scheduled(), [A, Y]).time_evaluator(a, a),
     "time_evaluator(ndarray, ...): it takes options only"),
    (lambda: topi.sum(A, axis="x"), "topi.sum: axis: 'x': not an integer"),
    (lambda: topi.reshape(A, 8.0), "topi.reshape: shape: 8.0: not an integer"),
    (lambda: topi.global_avg_pool2d(A), "topi.global_avg_pool2d of A: it has 2 dimensions, not 4"),
    (lambda: te.const([1]), "const([1]): not a number"),
    (lambda: scheduled().diff("x"), "step 'x': a step number is 1, 2, ..."),
    (lambda: scheduled().rfactor((), 0), "rfactor of nothing"),
    # names
    (lambda: scheduled()[X].vectorise(0), "s[X] has no 'vectorise'\n  try: s[X].vectorize"),
    (lambda: scheduled().tile(0), "s.tile: loops belong to a stage of the schedule\n  try: s[C]"),
    (lambda: te.placholder, "te has no 'placholder'\n  try: te.placeholder"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_a_mistake_is_explained(mistake: Callable[[], Any], says: str) -> None:
    with pytest.raises(TVMError) as told:
        mistake()
    assert says in str(told.value)


def test_numpy_scalars_take_part_in_formulas() -> None:
    C = vector(lambda i: np.float32(2) * V[i] + V[i] / np.float32(4))
    assert text(C.op.body[0]) == "2.0 * V[i] + V[i] / 4.0"


def test_numpy_integers_take_part_in_indices() -> None:
    C = vector(lambda i: V[np.int64(7) - i])
    assert text(C.op.body[0]) == "V[7 - i]"


def test_numpy_scalars_are_compared_with_expressions() -> None:
    C = vector(lambda i: te.if_then_else(np.float32(2) < V[i], V[i], 0))
    assert text(C.op.body[0].cond) == "2.0 < V[i]"


def test_formulas_nested_as_deeply_as_allowed_are_built() -> None:
    C = vector(lambda i: repeated(149, te.tanh, V[i]))
    out = np.empty(8, "float32")
    tvm.build(te.create_schedule(C.op), [V, C])(np.zeros(8, "float32"), out)
    assert not out.any()


def test_names_that_are_missing_are_attribute_errors() -> None:
    s = scheduled()
    assert [hasattr(x, "vectorise") for x in (s, s[X])] == [False, False]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy])
def test_a_schedule_and_its_views_are_copied(again: Callable[[Any], Any]) -> None:
    s = scheduled()
    assert (repr(again(s)), repr(again(s[X]))) == (repr(s), repr(s[X]))


def test_an_error_about_a_name_is_pickled() -> None:
    with pytest.raises(AttributeError) as told:
        scheduled().undoo()
    assert str(pickle.loads(pickle.dumps(told.value))) == "s has no 'undoo'\n  try: s.undo"


def test_a_producer_may_be_attached_before_its_reader() -> None:
    s = scheduled()
    s[P].compute_at(s[Y], s[Y].op.axis[0])
    assert repr(s).endswith("pending: P in Y.i waits for X")
    s[X].compute_at(s[Y], s[Y].op.axis[0])
    assert not s.state.pending
    tvm.lower(s, [A, Y])


def test_warnings_print_as_lines() -> None:
    s = scheduled()
    assert str(s.warnings()) == "nothing looks slow"
    s[Y].parallel(s[Y].op.axis[0])
    assert ": 64 stores in all: waking the threads takes longer" in repr(s.warnings())
    assert s.warnings()._repr_markdown_().startswith("- parallel loop i")


def test_statements_of_an_extern_are_not_nested_too_deeply() -> None:
    def body(ins: Any, outs: Any) -> Any:
        ib = tvm.tir.ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        y[0] = sum((x[0] for _ in range(1000)), x[0])
        return ib.get()

    with pytest.raises(ExprError, match=r"extern E: it nests 10.. operations"):
        te.extern((8,), [V], body, name="E")
