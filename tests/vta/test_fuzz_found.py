"""What random programs have found, each as small as it goes."""

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, vta
from minitvm.tensor import evaluate
from minitvm.vta import top

ENV = vta.get_env()


def stored(s: te.Schedule, t: te.Tensor) -> None:
    s[t].pragma(t.op.axis[0], ENV.dma_copy)
    s[t].pragma(t.op.axis[0], ENV.coproc_sync)


def multiplied(s: te.Schedule, product: te.Tensor) -> None:
    """On the matrix unit, with a load of both operands in each step."""
    s[product].set_scope(ENV.acc_scope)
    b, c, bi, ci = product.op.axis
    ko, ki = product.op.reduce_axis
    s[product].reorder(ko, c, b, bi, ci, ki)
    s[product].tensorize(bi, ENV.gemm)
    operands = product.op.input_tensors
    for operand, scope in zip(operands, (ENV.inp_scope, ENV.wgt_scope), strict=True):
        loaded = s.cache_read(operand, scope, [product.op])
        s[loaded].compute_at(s[product], ko)
        s[loaded].pragma(s[loaded].op.axis[0], ENV.dma_copy)


def check(s: te.Schedule, inputs: list[te.Tensor], outs: list[te.Tensor]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-50, 50, t.shape).astype(str(t.dtype)) for t in inputs]
    made = [np.zeros(t.shape, "int8") for t in outs]
    vta.build(s, [*inputs, *outs])(*arrays, *made)
    wanted = evaluate(outs, dict(zip(inputs, arrays, strict=True)))
    for got, want in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_what_is_loaded_as_accumulators_and_as_weights_lies_where_weights_may() -> None:
    data = te.placeholder((3, 1, 1, 16), "int8", "data")  # 48 bytes: no multiple of 256
    weight = te.placeholder((2, 1, 16, 16), "int8", "weight")
    wide = te.compute(weight.shape, lambda *i: weight(*i).astype("int32"), name="wide")
    copy = te.compute(weight.shape, lambda *i: wide(*i).astype("int8"), name="copy")
    product = top.dense(data, weight)
    out = te.compute(product.shape, lambda *i: product(*i).astype("int8"), name="out")
    s = te.create_schedule([copy.op, out.op])
    s[wide].set_scope(ENV.acc_scope)
    s[wide].pragma(wide.op.axis[0], ENV.dma_copy)
    stored(s, copy)
    stored(s, out)
    multiplied(s, product)
    check(s, [data, weight], [copy, out])


def test_what_is_stored_can_be_loaded_as_weights() -> None:
    data = te.placeholder((3, 1, 1, 16), "int8", "data")
    rows = te.placeholder((2, 1, 16, 16), "int32", "rows")
    wide = te.compute(rows.shape, rows, name="wide")
    weight = te.compute(rows.shape, lambda *i: wide(*i).astype("int8"), name="weight")
    product = top.dense(data, weight)
    out = te.compute(product.shape, lambda *i: product(*i).astype("int8"), name="out")
    s = te.create_schedule([weight.op, out.op])
    s[wide].set_scope(ENV.acc_scope)
    s[wide].pragma(wide.op.axis[0], ENV.dma_copy)
    stored(s, weight)
    stored(s, out)
    multiplied(s, product)
    check(s, [data, rows], [weight, out])


@pytest.mark.parametrize(
    "names", [("acc", "acc_"), ("uops", "DRAM"), ("my data", "1st"), ("a b", "a-b")]
)
def test_arguments_of_any_name_have_areas_of_their_own(names: tuple[str, str]) -> None:
    a, b = (te.placeholder((2, 1, 16), "int32", name) for name in names)
    a_buf, b_buf = te.compute(a.shape, a, name="a_buf"), te.compute(b.shape, b, name="b_buf")
    total = te.compute(a.shape, lambda *i: a_buf(*i) + b_buf(*i), name="total")
    out = te.compute(a.shape, lambda *i: total(*i).astype("int8"), name="out")
    s = te.create_schedule(out.op)
    for t in (a_buf, b_buf, total):
        s[t].set_scope(ENV.acc_scope)
        s[t].pragma(t.op.axis[0], ENV.alu if t is total else ENV.dma_copy)
    stored(s, out)
    check(s, [a, b], [out])


def shifted(by: int) -> tuple[te.Schedule, list[te.Tensor], te.Tensor]:
    a = te.placeholder((2, 1, 16), "int32", "a")
    a_buf = te.compute(a.shape, a, name="a_buf")
    moved = te.compute(a.shape, lambda *i: a_buf(*i) >> by, name="moved")
    out = te.compute(a.shape, lambda *i: moved(*i).astype("int8"), name="out")
    s = te.create_schedule(out.op)
    for t in (a_buf, moved):
        s[t].set_scope(ENV.acc_scope)
        s[t].pragma(t.op.axis[0], ENV.alu if t is moved else ENV.dma_copy)
    stored(s, out)
    return s, [a], out


@pytest.mark.parametrize("kind", ["cthread", "vthread"])
def test_virtual_threads_share_what_is_loaded_before_them(kind: str) -> None:
    data = te.placeholder((1, 4, 1, 16), "int8", "data")
    weight = te.placeholder((2, 4, 16, 16), "int8", "weight")
    product = top.dense(data, weight)
    out = te.compute(product.shape, lambda *i: product(*i).astype("int8"), name="out")
    s = te.create_schedule(out.op)
    for operand, scope in ((data, ENV.inp_scope), (weight, ENV.wgt_scope)):
        loaded = s.cache_read(operand, scope, [product.op])
        s[loaded].pragma(s[loaded].op.axis[0], ENV.dma_copy)
    b, c, _, _ = s[out].op.axis
    thread, inside = s[out].split(c, factor=1)
    s[out].reorder(thread, b)
    s[out].bind(thread, te.thread_axis(kind))
    s[out].pragma(inside, ENV.dma_copy)
    s[product].set_scope(ENV.acc_scope)
    s[product].compute_at(s[out], thread)
    b, c, bi, ci = s[product].op.axis
    ko, ki = s[product].op.reduce_axis
    s[product].reorder(ko, b, c, bi, ci, ki)
    s[product].tensorize(bi, ENV.gemm)
    check(s, [data, weight], [out])


@pytest.mark.parametrize("first", [0, 1])
def test_every_second_row_is_loaded_by_the_stride_of_a_transfer(first: int) -> None:
    a = te.placeholder((8, 3, 1, 16), "int32", "a")
    a_buf = te.compute((4, 3, 1, 16), lambda i, *x: a(i * 2 + first, *x), name="a_buf")
    out = te.compute(a_buf.shape, lambda *i: a_buf(*i).astype("int8"), name="out")
    s = te.create_schedule(out.op)
    s[a_buf].set_scope(ENV.acc_scope)
    s[a_buf].pragma(a_buf.op.axis[0], ENV.dma_copy)
    stored(s, out)
    check(s, [a], [out])
    assert f"a[{first * 3}] y=4 x=3 stride=6" in vta.build(s, [a, out]).source("vta")


@pytest.mark.parametrize("by", [0, 1, 31, 32, 40])
def test_a_shift_is_the_one_of_a_cpu(by: int) -> None:
    s, inputs, out = shifted(by)
    check(s, inputs, [out])


def test_a_shift_by_a_negative_number_is_refused() -> None:
    """A CPU shifts all bits out, the ALU shifts to the left."""
    s, inputs, out = shifted(-3)
    with pytest.raises(tvm.LoweringError, match="a shift by -3"):
        vta.build(s, [*inputs, out])
