"""Attention: what it computes and refuses, and which keys a step of decoding reads."""

from collections.abc import Callable

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.base import ExprError, ScheduleError
from minitvm.graph import OPERATORS

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


def compiled(op: str, arrays: list[np.ndarray], target: str = "llvm", **options) -> np.ndarray:
    inputs = [te.placeholder(x.shape, x.dtype.name, name=f"x{k}") for k, x in enumerate(arrays)]
    out = OPERATORS[op].formula(*inputs, **options)
    found = np.zeros(out.shape, str(out.dtype))
    tvm.build(topi.schedule(out, target), [*inputs, out], target)(*arrays, found)
    return found


def check(op: str, arrays: list[np.ndarray], target: str = "llvm", **options) -> None:
    wanted = OPERATORS[op].reference(*arrays, **options)
    np.testing.assert_allclose(compiled(op, arrays, target, **options), wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell -num-cores=1", "python"])
@pytest.mark.parametrize(
    ("queries", "keys", "depth", "values"),
    [(1, 21, 20, 20), (5, 7, 4, 3), (32, 64, 16, 64), (40, 33, 24, 36)],
)
def test_attention_is_that_of_numpy(target: str, queries, keys, depth, values) -> None:
    q, k, v = floats(1, 2, queries, depth), floats(1, 2, keys, depth), floats(1, 2, keys, values)
    check("attention", [q, k, v], target)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("target", ["llvm -num-cores=1", "llvm -num-cores=2", "python"])
def test_one_build_serves_any_number_of_queries_and_keys(target: str, causal: bool) -> None:
    n, m = te.var("n"), te.var("m")
    q, k, v = (
        te.placeholder((1, 2, rows, 8), name=x) for rows, x in ((n, "q"), (m, "k"), (m, "v"))
    )
    out = topi.attention(q, k, v, causal=causal)
    f = tvm.build(topi.schedule(out, target), [q, k, v, out], target)
    for queries, keys in ((1, 1), (1, 9), (3, 3), (17, 5), (16, 32), (40, 41)):
        arrays = [floats(1, 2, rows, 8) for rows in (queries, keys, keys)]
        found = np.full((1, 2, queries, 8), np.nan, "float32")
        f(*arrays, found)
        wanted = OPERATORS["attention"].reference(*arrays, causal=causal)
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("queries", [1, 6, 40])
def test_heads_of_queries_may_share_keys(queries: int) -> None:
    check("attention", [floats(2, 6, queries, 8), floats(2, 2, 18, 8), floats(2, 2, 18, 8)])


@pytest.mark.parametrize("length", [2, 16, 32, 64])
def test_the_last_block_of_causal_queries_sees_all_keys(length: int) -> None:
    arrays = [floats(1, 2, length, 8) for _ in range(3)]
    check("attention", arrays, causal=True)


@pytest.mark.parametrize(("queries", "offset"), [(70, 0), (70, -3), (9, 61), (1, 4), (1, -3)])
def test_a_causal_query_sees_the_keys_before_it(queries: int, offset: int) -> None:
    arrays = [floats(1, 2, queries, 8), floats(1, 2, 70, 8), floats(1, 2, 70, 8)]
    check("attention", arrays, causal=True, offset=offset)


@pytest.mark.parametrize("size", [2, 5, 32])
def test_a_causal_block_may_see_all_keys(size: int) -> None:
    check("attention", [floats(1, 2, size, 8) for _ in range(3)], causal=True)


@pytest.mark.parametrize("shape", [(1, 1, 1, 9), (40, 9), (2, 3, 40, 9)])
def test_a_mask_is_added_or_hides_keys(shape: tuple[int, ...]) -> None:
    operands = [floats(2, 3, 40, 8), floats(2, 3, 9, 8), floats(2, 3, 9, 8)]
    check("attention", [*operands, floats(*shape)])
    check("attention", [*operands, RNG.random(shape) < 0.5], softcap=2.0, scale=0.5)


@pytest.mark.parametrize("queries", [1, 40])
def test_a_query_that_sees_no_key_gets_zeros(queries: int) -> None:
    operands = [floats(1, 1, queries, 8), floats(1, 1, 9, 8), floats(1, 1, 9, 8)]
    hidden = np.zeros((queries, 9), np.bool_)
    assert not compiled("attention", [*operands, hidden]).any()


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_only_the_first_keys_of_a_cache_are_read(queries: int, causal: bool) -> None:
    q, k, v = floats(5, 4, queries, 8), floats(5, 2, 40, 8), floats(5, 2, 40, 8)
    lengths = np.array([3, 16, 17, 40, 99], "int32")
    for b, n in enumerate(lengths):  # what is not read may be anything
        k[b, :, n:] = v[b, :, n:] = np.nan if queries == 1 else 0
    found = compiled("cached_attention", [q, k, v, lengths], causal=causal)
    for b, n in enumerate(lengths):
        parts = [q[b : b + 1], k[b : b + 1, :, :n], v[b : b + 1, :, :n]]
        offset = min(int(n), 40) - queries
        wanted = OPERATORS["attention"].reference(*parts, causal=causal, offset=offset)
        np.testing.assert_allclose(found[b : b + 1], wanted, 1e-5, 1e-5)


def test_a_step_of_decoding_loops_over_the_keys_before_it(golden: Callable[[str], None]) -> None:
    shapes = (1, 1, 1, 16), (1, 1, 64, 16), (1, 1, 64, 16)
    inputs = [te.placeholder(s, name=n) for s, n in zip(shapes, "qkv", strict=True)]
    inputs.append(te.placeholder((1,), "int32", name="lengths"))
    out = topi.cached_attention(*inputs)
    target = "llvm -mcpu=skylake-avx512 -num-cores=1"
    golden(str(tvm.lower(topi.schedule(out, target), [*inputs, out], target=target)))


@pytest.mark.parametrize("rows", [1, 3])
def test_rows_of_a_cache_are_replaced(rows: int) -> None:
    arrays = [floats(4, 2, 8, 5), floats(4, 2, rows, 5), np.array([0, 5, 7, 9], "int32")]
    check("cache_update", arrays)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((1, 4, 2, 8), (1, 3, 5, 8), (1, 3, 5, 8)), "4 heads of queries cannot share 3 of keys"),
        (((1, 4, 2, 8), (1, 4, 5, 9), (1, 4, 5, 8)), "there are 9 elements in a key, not 8"),
        (((1, 4, 2, 8), (1, 4, 5, 8), (1, 4, 6, 8)), "there are 6 values, not 5"),
        (
            ((1, 4, 2, 8), *[(1, 4, 5, 8)] * 2, (3, 5)),
            "the mask [3, 5] does not broadcast to [1, 4",
        ),
        (((4, 2, 8), (4, 5, 8), (4, 5, 8)), "its operands are not floats of one type and 4 "),
    ],
)
def test_operands_that_do_not_fit_are_refused(shapes, message: str) -> None:
    with pytest.raises(ExprError) as caught:
        topi.attention(*(te.placeholder(s, name="x") for s in shapes))
    assert str(caught.value).startswith(f"topi.attention: {message}")


def test_there_is_no_default_schedule_for_a_gpu() -> None:
    q = te.placeholder((1, 4, 2, 8), name="q")
    with pytest.raises(ScheduleError) as caught:
        topi.schedule(topi.attention(q, q, q), "cuda -sim")
    assert str(caught.value) == (
        "topi.schedule of T_attention for a GPU: attention and recurrent layers have a default "
        'schedule for CPUs only\n  try: target="llvm", or batch_matmul and softmax'
    )
