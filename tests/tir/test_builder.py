"""Loop IR written in Python: the builder, declared buffers, and calls."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm.base import ExprError, VerifyError, dtype
from minitvm.tir import (
    Buffer,
    Evaluate,
    Load,
    PrimFunc,
    Stmt,
    Var,
    call_extern,
    call_intrin,
    call_packed,
    clear_functions,
    const,
    decl_buffer,
    hardware_intrinsic,
    interpret,
    ir_builder,
    register_func,
    registered,
    rewrite_expr,
    text,
    verify,
)


@pytest.fixture(autouse=True)
def no_functions_are_left() -> Any:
    yield
    clear_functions()


def says(act: Callable[[], Any], kind: type[Exception] = ExprError) -> str:
    with pytest.raises(kind) as caught:
        act()
    return str(caught.value)


def run(body: Stmt, *arrays: Any, out: Buffer, params: tuple[Buffer, ...]) -> None:
    f = PrimFunc("f", params, body, (out,))
    verify(f)
    interpret(f, *arrays)


# --- the builder ---------------------------------------------------------------------------------


def test_loops_stores_and_branches_read_as_they_were_written() -> None:
    A, B = decl_buffer((8, 4), name="A"), decl_buffer((8, 4), name="B")
    ib = ir_builder.create()
    a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
    with ib.for_range(0, 8, name="i", kind="parallel") as i:
        t = ib.allocate("float32", (1,), name="t", scope="local")
        t[0] = 0.0
        with ib.for_range(1, 4, name="j") as j:
            with ib.if_scope(j < 3):
                t[0] = t[0] + a[i, j]
            with ib.else_scope():
                b[i, j] = t[0]
        ib.scope_attr(None, "auto_unroll_max_step", 4)
        ib.emit(call_extern("int32", "done", 1))
    assert text(ib.get()) == (
        "for i in parallel(8):\n"
        '  t = allocate((1,), "float32", "local")\n'
        "  t[0] = 0.0\n"
        "  for j in range(3):\n"
        "    if j + 1 < 3:\n"
        "      t[0] = t[0] + A[i, j + 1]\n"
        "    else:\n"
        "      B[i, j + 1] = t[0]\n"
        "  # pragma auto_unroll_max_step = 4\n"
        "  extern.done(1)"
    )


def test_what_is_built_runs() -> None:
    A, B = decl_buffer((5,), name="A"), decl_buffer((5,), name="B")
    ib = ir_builder.create()
    a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
    with ib.for_range(0, 5) as i:
        b[i] = a[4 - i] + 1.0
    x, y = np.arange(5, dtype="float32"), np.zeros(5, "float32")
    run(ib.get(), x, y, out=B, params=(A, B))
    assert y.tolist() == [5, 4, 3, 2, 1]


def test_a_single_index_counts_row_by_row() -> None:
    A = decl_buffer((8, 4), name="A")
    ib = ir_builder.create()
    with ib.for_range(0, 8, name="i") as i, ib.for_range(0, 4, name="j") as j:
        ib.buffer_ptr(A)[i * 4 + j] = 1.0
    assert text(ib.get()).endswith("A[i, j] = 1.0")


def test_tvm_words_for_loop_kinds_are_known() -> None:
    ib = ir_builder.create()
    b = ib.buffer_ptr(decl_buffer((8,), name="b"))
    with ib.for_range(0, 4, kind="unrolled") as i, ib.for_range(0, 2, "j", kind="vectorized") as j:
        b[i * 2 + j] = 0.0
    assert text(ib.get()) == "for i in unroll(4):\n  for j in vectorize(2):\n    b[i*2 + j] = 0.0"


def test_a_literal_takes_the_type_of_the_buffer() -> None:
    b = decl_buffer((1,), "int8", name="b")
    assert text(b.vstore(0, 3)) == "b[0] = int8(3)"


def test_elements_of_declared_buffers_are_expressions() -> None:
    b = decl_buffer((4, 4), name="b")
    assert text(b[1, 2] + b.vload((0, 0))) == "b[1, 2] + b[0, 0]"


# --- calls ---------------------------------------------------------------------------------------


def test_calls_show_what_kind_of_function_they_run() -> None:
    b = decl_buffer((4, 4), name="b")
    calls = [
        call_extern("int32", "f", b, 1),
        call_packed("g", b),
        hardware_intrinsic("h", b.access_ptr("r"), b.access_ptr("w", offset=3)),
        call_intrin("float32", "tir.exp", const(1.0)),
    ]
    assert [text(c) for c in calls] == [
        "extern.f(access_ptr.rw(b[0, 0]), 1)",
        "packed.g(view(b[0, 0], 4, 4, 4, 1))",
        "h(access_ptr.r(b[0, 0]), access_ptr.w(b[0, 0], 3))",
        "exp(1.0)",
    ]


def test_the_interpreter_runs_registered_functions_on_arrays() -> None:
    A, B = decl_buffer((2, 3), name="A"), decl_buffer((6,), name="B")

    def fill(a: Any, row: Any, n: int) -> None:
        row[:n] = a[1, 2] + a.sum()

    register_func("fill", fill)
    body = Evaluate(call_packed("fill", A, B.access_ptr("w", offset=2), 3))
    x, y = np.ones((2, 3), "float32"), np.zeros(6, "float32")
    run(body, x, y, out=B, params=(A, B))
    assert y.tolist() == [0, 0, 7, 7, 7, 0]


def test_what_a_function_writes_counts_as_written() -> None:
    A = decl_buffer((2,), name="A")
    ib = ir_builder.create()
    t = ib.allocate("float32", (2,), name="t")
    ib.emit(call_packed("ones", t.buffer))
    ib.buffer_ptr(A)[1] = t[0]

    @register_func("ones")
    def ones(a: Any) -> None:
        a[...] = 1

    x = np.zeros(2, "float32")
    run(ib.get(), x, out=A, params=(A,))
    assert registered("ones") is ones
    assert x.tolist() == [0, 1]


def test_a_function_may_return_a_number() -> None:
    A = decl_buffer((1,), name="A")
    register_func("half", lambda x: x / 2)
    x = np.zeros(1, "float32")
    body = A.vstore(0, call_extern("float32", "half", const(3.0)))
    run(body, x, out=A, params=(A,))
    assert x[0] == 1.5


# --- refusals ------------------------------------------------------------------------------------


def _open_block() -> None:
    ib = ir_builder.create()
    with ib.for_range(0, 2):
        ib.get()


REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "kind": (
        lambda: ir_builder.create().for_range(0, 2, "i", kind="fast").__enter__(),
        "for_range(i, kind='fast'): no such loop\n"
        "  try: one of serial, parallel, vectorized, unrolled",
    ),
    "else": (
        lambda: ir_builder.create().else_scope().__enter__(),
        "ib.else_scope(): there is no if_scope before it",
    ),
    "get": (
        _open_block,
        "ib.get(): a `with` block is still open\n  try: call it after the block",
    ),
    "type": (
        lambda: decl_buffer((4,), "int32", name="b").vstore(0, const(1.0)),
        "a float32 is stored in b: its elements are int32\n  try: x.astype('int32')",
    ),
    "rank": (
        lambda: decl_buffer((4, 4, 4), name="b")[1, 2],
        "b with 2 indices: b has 3 dimension(s)",
    ),
    "strides": (
        lambda: decl_buffer((4, 4), name="b", strides=[1]),
        "decl_buffer(b): 2 dimensions but 1 strides",
    ),
    "data": (
        lambda: decl_buffer((4,), name="b", data=Var("p")),
        "decl_buffer(b, data=...): the operation that uses the buffer provides its memory\n"
        "  try: omit data",
    ),
    "offset": (
        lambda: decl_buffer((4,), name="b", elem_offset=3),
        "decl_buffer(b, elem_offset=...): not a variable\n  try: te.var()",
    ),
    "vload": (
        lambda: decl_buffer((4,), name="b").vload(0, "float32x4"),
        "vload of float32x4 from b: its elements are float32, and each load reads one element\n"
        "  try: load single elements in a vectorized loop",
    ),
    "mode": (
        lambda: decl_buffer((4,), name="b").access_ptr("x"),  # pyright: ignore[reportArgumentType]
        'access_ptr(\'x\') of b: no such mode\n  try: "r", "w" or "rw"',
    ),
    "unregistered": (
        lambda: registered("f"),
        "call of 'f': no Python function of that name is registered\n"
        "  try: tir.register_func('f', f)",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_mistakes_are_refused_with_a_reason(case: str) -> None:
    act, message = REFUSALS[case]
    assert says(act) == message


def test_a_name_is_registered_once() -> None:
    register_func("f", print)
    assert says(lambda: register_func("f", len)) == (
        "register_func('f'): that name is taken\n  try: override=True, or another name"
    )
    assert register_func("f", len, override=True) is len


CELL = """
def scale(a):
    a *= {}
register_func("scale", scale)
register_func("shift", lambda a: a + {})
"""


def test_a_cell_that_registers_functions_runs_twice() -> None:
    for _ in range(2):
        names = {"register_func": register_func, "__name__": "__main__"}
        exec(CELL.format(2, 1), names)
    assert registered("scale") is names["scale"]


def test_an_edited_function_replaces_the_one_of_its_name() -> None:
    names = {"register_func": register_func, "__name__": "__main__"}
    exec(CELL.format(2, 1), names)
    with pytest.raises(ExprError, match=r"register_func.'shift'.: that name is taken"):
        exec(CELL.format(3, 2), names)  # nothing tells an edited lambda from another one
    assert registered("scale") is names["scale"]


def test_the_interpreter_says_which_function_it_lacks() -> None:
    A = Buffer("A", (1,), dtype("float32"))
    f = PrimFunc("f", (A,), Evaluate(hardware_intrinsic("gemm", A)), (A,))
    assert says(lambda: interpret(f, np.zeros(1, "float32")), VerifyError) == (
        "f: gemm(...): no Python function of that name is registered\n"
        "  try: tir.register_func('gemm', f)"
    )


def test_a_view_stays_inside_its_buffer() -> None:
    A = Buffer("A", (2, 4), dtype("float32"))
    register_func("f", len)

    def second_row(e: Any) -> Any:
        return Load(A, (1, 0), A.dtype) if isinstance(e, Load) else e

    f = PrimFunc("f", (A,), Evaluate(rewrite_expr(call_packed("f", A), second_row)), (A,))
    assert says(lambda: interpret(f, np.zeros((2, 4), "float32")), VerifyError) == (
        "a view of shape [2, 4] with strides [4, 1]: it spans 8 elements, but the memory has only 4"
    )
