"""The listings of the talk "TVM: An End-to-End Optimizing Compiler for Deep Learning".

Those of the matrix product are the lecture's, see test_lecture.py.
"""

import json
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir

# --- symbolic sizes -------------------------------------------------------------------------------

SYMBOLIC = """
m, n, h = t.var('m'), t.var('n'), t.var('h')
A = t.placeholder((m, h), name='A')
B = t.placeholder((n, h), name='B')
k = t.reduce_axis((0, h), name='k')
C = t.compute((m, n), lambda y, x:
              t.sum(A[k, y] * B[k, x], axis=k))
"""


def test_the_symbolic_product_reads_beyond_its_matrices(refusal: Callable[..., str]) -> None:
    assert refusal(SYMBOLIC).startswith(
        "ExprError: compute compute: A[k, y] may leave A: index 0 is k, "
        "dimension 0 of A is 0 .. m - 1"
    )


def test_with_k_first_in_both_shapes_it_computes(
    run: Callable[..., Any], golden: Callable[[str], None], numbers: Callable[..., np.ndarray]
) -> None:
    names = run(SYMBOLIC.replace("(m, h)", "(h, m)").replace("(n, h)", "(h, n)"))
    args = [names[name] for name in "ABC"]
    s = te.create_schedule(names["C"].op)
    golden(str(tvm.lower(s, args)))
    a, b, c = numbers(7, 3), numbers(7, 5), np.full((3, 5), np.nan, "float32")
    tvm.build(s, args)(a, b, c)
    np.testing.assert_array_equal(c, a.T @ b)


# --- nested parallelism with cooperation ----------------------------------------------------------


def test_the_tile_in_shared_memory_is_too_small_for_its_index(refusal: Callable[..., str]) -> None:
    listing = """
AS = t.placeholder((2, 8), name="AS")
read = t.compute((2, 2, 4), lambda ty, tx, i: AS[ty, i*4+tx], name="read")
"""
    assert refusal(listing).startswith(
        "ExprError: compute read: AS[ty, i*4 + tx] may leave AS: index 1 is i*4 + tx, "
        "from 0 to 13, dimension 1 of AS is 0 .. 7"
    )


GROUPS = """
A = t.placeholder((1024, 1024), name="A")
read = t.compute((1024, 64, 2, 2, 4),
                 lambda k, by, ty, tx, i: A[k, by*64+ty*8+i*4+tx], name="read")
"""


def test_64_groups_of_64_are_more_than_1024(refusal: Callable[..., str]) -> None:
    assert "from 0 to 4053, dimension 1 of A is 0 .. 1023" in refusal(GROUPS)


def test_64_groups_of_16_whose_two_threads_take_turns_fit(run: Callable[..., Any]) -> None:
    run(GROUPS.replace("by*64", "by*16").replace("i*4+tx", "i*2+tx"))


# one thread (ty, tx) of group (0, 0), indices corrected; where it yields it waits for the others
KERNEL = """
def thread(ty, tx):
    CL = zeros((8, 8))
    for k in range(4):
        for i in range(4):
            AS[ty][i*2+tx] = A[k][ty*8+i*2+tx]
        for i in range(4):
            BS[ty][i*2+tx] = B[k][ty*8+i*2+tx]
    yield
    for yi in range(8):
        for xi in range(8):
            CL[yi][xi] += AS[ty][yi] * BS[tx][xi]
    for yi in range(8):
        for xi in range(8):
            C[ty*8+yi][tx*8+xi] = CL[yi][xi]
"""
BELOW, INSIDE = (
    f"{margin}yield\n"
    f"{margin}for yi in range(8):\n"
    f"{margin}    for xi in range(8):\n"
    f"{margin}        CL[yi][xi] += AS[ty][yi] * BS[tx][xi]\n"
    for margin in ("    ", "        ")
)
ONE_BARRIER = KERNEL.replace(BELOW, INSIDE)
TWO_BARRIERS = KERNEL.replace(BELOW, INSIDE + "        yield\n")


def group(kernel: str, run: Callable[..., Any], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What a group of 2 x 2 threads leaves in C: each runs to its next barrier, in turn."""
    c, shared = np.zeros((16, 16), "float32"), np.zeros((2, 2, 8), "float32")
    thread = run(kernel, A=a, B=b, C=c, AS=shared[0], BS=shared[1], zeros=np.zeros)["thread"]
    at_barrier = [thread(ty, tx) for ty in range(2) for tx in range(2)]
    while at_barrier:
        at_barrier = [t for t in at_barrier if next(t, "done") != "done"]
    return c


def test_products_below_the_loop_see_the_last_row_only(
    run: Callable[..., Any], numbers: Callable[..., np.ndarray]
) -> None:
    a, b = numbers(4, 16), numbers(4, 16)
    np.testing.assert_array_equal(group(KERNEL, run, a, b), np.outer(a[3], b[3]))


def test_with_one_barrier_a_thread_overwrites_what_another_reads(
    run: Callable[..., Any], numbers: Callable[..., np.ndarray]
) -> None:
    a, b = numbers(4, 16), numbers(4, 16)
    assert not np.array_equal(group(ONE_BARRIER, run, a, b), a.T @ b)


def test_with_a_barrier_before_and_after_the_products_the_group_is_right(
    run: Callable[..., Any], numbers: Callable[..., np.ndarray]
) -> None:
    a, b = numbers(4, 16), numbers(4, 16)
    np.testing.assert_array_equal(group(TWO_BARRIERS, run, a, b), a.T @ b)


def threads(n: int) -> tuple[list[te.Tensor], te.Schedule]:
    """The listing corrected: groups of 2 x 2 threads with 8 x 8 elements each."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda y, x: te.sum(A[k, y] * B[k, x], axis=k), name="C")
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, "local")
    AS, BS = s.cache_read(A, "shared", [CL]), s.cache_read(B, "shared", [CL])
    ty, tx = te.thread_axis("threadIdx.y"), te.thread_axis("threadIdx.x")
    by, bx, y, x = s[C].tile(*C.op.axis, 16, 16)
    (yo, yi), (xo, xi) = s[C].split(y, 8), s[C].split(x, 8)
    s[C].reorder(by, bx, yo, xo, yi, xi)
    s[C].bind(by, te.thread_axis("blockIdx.y"))
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(yo, ty)
    s[C].bind(xo, tx)
    s[CL].compute_at(s[C], xo)
    (yc, xc), (k,) = s[CL].op.axis, s[CL].op.reduce_axis
    s[CL].reorder(k, yc, xc)
    for shared in (AS, BS):  # 16 elements for 2 x 2 threads: 4 each
        s[shared].compute_at(s[CL], k)
        outer, rest = s[shared].split(s[shared].fuse(*s[shared].op.axis), nparts=2)
        s[shared].bind(outer, ty)
        s[shared].bind(s[shared].split(rest, 2)[1], tx)
    return [A, B, C], s


def test_threads_that_cooperate_compute_the_product(numbers: Callable[..., np.ndarray]) -> None:
    args, s = threads(32)
    a, b, c = numbers(32, 32), numbers(32, 32), np.full((32, 32), np.nan, "float32")
    tir.interpret(tvm.lower(s, args), a, b, c, flat=True)
    np.testing.assert_array_equal(c, a.T @ b)


def test_shared_tiles_hold_what_a_group_reads_of_one_k() -> None:
    _, s = threads(1024)
    assert [s.explain()[name].memory for name in ("A.shared", "B.shared")] == [
        "shared float32[1, 16]",
        "shared float32[1, 16]",
    ]


# --- latency hiding -------------------------------------------------------------------------------

INTERLEAVED = """
ex.push_dep_to(ld)
ex.push_dep_to(ld)
for k in range(128):
    ld.pop_dep_from(ex)
    ld.dma_copy2d(AL[0],AL[k][0:8])
    ld.push_dep_to(ex)

    ld.pop_dep_from(ex)
    ld.dma_copy2d(AL[1],AL[k][8:16])
    ld.push_dep_to(ex)

    ex.pop_dep_from(ld)
    ex.accumulate(AL[0], CL[0])
    ex.push_dep_to(ld)

    ex.pop_dep_from(ld)
    ex.accumulate(AL[1], CL[1])
    ex.push_dep_to(ld)
"""
LAST_POPS = "\nld.pop_dep_from(ex)\nld.pop_dep_from(ex)\n"
LAST_POPS_INSIDE = LAST_POPS.replace("\nld", "\n    ld")  # as one of the slides prints them


class Unit:
    """One of two units that run in the order of the listing; tokens wait in a queue each way."""

    def __init__(self, name: str, tokens: Counter[tuple[str, str]]) -> None:
        self.name, self.tokens = name, tokens

    def push_dep_to(self, other: "Unit") -> None:
        self.tokens[self.name, other.name] += 1

    def pop_dep_from(self, other: "Unit") -> None:
        if not self.tokens[other.name, self.name]:
            raise RuntimeError(f"{self.name} waits for {other.name} without end")
        self.tokens[other.name, self.name] -= 1

    def dma_copy2d(self, to: np.ndarray, source: np.ndarray) -> None:
        to[:] = source

    def accumulate(self, source: np.ndarray, to: np.ndarray) -> None:
        to += source


def pipeline() -> dict[str, Any]:
    """The names of the interleaved listing: two units, two copies of each buffer."""
    tokens: Counter[tuple[str, str]] = Counter()
    buffers = {"AL": np.zeros((2, 8), "float32"), "CL": np.zeros((2, 8), "float32")}
    return {"ld": Unit("ld", tokens), "ex": Unit("ex", tokens), **buffers, "tokens": tokens}


def from_a(listing: str) -> str:
    return listing.replace("AL[k]", "A[k]")


def test_what_is_loaded_comes_from_a_and_not_from_its_own_copy(
    refusal: Callable[..., str],
) -> None:
    assert refusal(INTERLEAVED + LAST_POPS, **pipeline()).startswith(
        "ValueError: could not broadcast"
    )


def test_waiting_for_the_end_inside_the_loop_never_ends(
    refusal: Callable[..., str], numbers: Callable[..., np.ndarray]
) -> None:
    listing = from_a(INTERLEAVED) + LAST_POPS_INSIDE
    assert refusal(listing, **pipeline(), A=numbers(128, 16)) == (
        "RuntimeError: ld waits for ex without end"
    )


def test_with_both_corrected_every_token_is_taken(
    run: Callable[..., Any], numbers: Callable[..., np.ndarray]
) -> None:
    a = numbers(128, 16)
    names = run(from_a(INTERLEAVED) + LAST_POPS, **pipeline(), A=a)
    np.testing.assert_array_equal(names["CL"].ravel(), a.sum(axis=0))
    assert not any(names["tokens"].values())


def test_virtual_threads_become_the_interleaved_program(
    golden: Callable[[str], None], numbers: Callable[..., np.ndarray]
) -> None:
    A, k = te.placeholder((128, 16), name="A"), te.reduce_axis((0, 128), name="k")
    C = te.compute((16,), lambda x: te.sum(A[k, x], axis=k), name="C")
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, "local")
    AL = s.cache_read(A, "local", [CL])
    tx, _ = s[C].split(C.op.axis[0], 8)
    s[C].bind(tx, te.thread_axis("vthread"))
    s[CL].compute_at(s[C], tx)
    s[CL].reorder(*s[CL].op.reduce_axis, *s[CL].op.axis)
    s[AL].compute_at(s[CL], s[CL].op.reduce_axis[0])
    golden(str(tvm.lower(s, [A, C])))
    a, c = numbers(128, 16), np.full(16, np.nan, "float32")
    tvm.build(s, [A, C])(a, c)
    np.testing.assert_array_equal(c, a.sum(axis=0))


# --- deployment -----------------------------------------------------------------------------------

RUN = """
module = runtime.create(graph, lib, t.cuda(0))
"""


def test_the_runtime_is_imported_under_another_name(refusal: Callable[..., str]) -> None:
    assert refusal(RUN, t=SimpleNamespace()) == "NameError: name 'runtime' is not defined"


# --- a network from end to end --------------------------------------------------------------------

IMPORT = """
graph, params = t.frontend.from_keras(keras_model)
target = t.target.cuda()
graph, lib, params = t.compiler.build(graph, target, params)
"""
EXECUTE = """
module = runtime.create(graph, lib, t.cuda(0))
module.set_input(**params)
module.run(data=data_array)
output = tvm.nd.empty(out_shape, ctx=t.cuda(0))
module.get_output(0, output)
"""


def keras_model(numbers: Callable[..., np.ndarray]) -> Any:
    """A model of one dense layer, as Keras stores it."""
    layers = [
        {"class_name": "InputLayer", "config": {"name": "data", "batch_shape": [None, 3]}},
        {"class_name": "Dense", "config": {"name": "fc", "use_bias": True, "activation": "relu"}},
    ]
    text = json.dumps({"class_name": "Sequential", "config": {"name": "net", "layers": layers}})
    weights = [numbers(3, 4), numbers(4)]
    return SimpleNamespace(to_json=lambda: text, get_weights=lambda: weights)


@pytest.mark.parametrize("target", ["t.target.Target('llvm')", "t.target.cuda('-sim')"])
def test_the_network_of_the_talk_runs(
    target: str, run: Callable[..., Any], numbers: Callable[..., np.ndarray]
) -> None:
    model, data = keras_model(numbers), numbers(1, 3)
    given = {"t": tvm, "tvm": tvm, "runtime": tvm.runtime, "keras_model": model}
    listing = (IMPORT + EXECUTE).replace("t.target.cuda()", target)
    listing = listing.replace("t.cuda(0)", "t.cpu(0)")
    names = run(listing, **given, data_array=data, out_shape=(1, 4))
    kernel, bias = model.get_weights()
    np.testing.assert_array_equal(names["output"], np.maximum(data @ kernel + bias, 0))


def test_without_a_gpu_the_network_of_the_talk_is_built_but_not_run(
    refusal: Callable[..., str], numbers: Callable[..., np.ndarray]
) -> None:
    model, data = keras_model(numbers), numbers(1, 3)
    given = {"t": tvm, "tvm": tvm, "runtime": tvm.runtime, "keras_model": model}
    listing = (IMPORT + EXECUTE).replace("t.cuda(0)", "t.cpu(0)")
    assert "this machine has no GPU" in refusal(listing, **given, data_array=data, out_shape=(1, 4))
