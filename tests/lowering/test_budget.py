"""What passes write out is bounded, however schedules nest."""

import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import LoweringError
from minitvm.lowering import MAX_OPERATIONS, inject_virtual_thread, operations, partition
from minitvm.tir import Store, walk


def scaled(shape: tuple[int, ...]) -> tuple[te.Tensor, te.Tensor, te.Schedule]:
    """C = A * 2"""
    A = te.placeholder(shape, name="A")
    C = te.compute(shape, lambda *i: A(*i) * 2.0, name="C")
    return A, C, te.create_schedule(C.op)


def size(s: te.Schedule, args: list[te.Tensor], until: str) -> int:
    """The operations of the program once the pass `until` ran."""
    return operations(tvm.lower(s, args, until=until).body)


def test_virtual_threads_inside_each_other_become_loops_again() -> None:
    A, C, s = scaled((15,) * 5)
    for axis in C.op.axis:
        s[C].bind(axis, te.thread_axis("vthread"))
    body = tvm.lower(s, [A, C], until=inject_virtual_thread.__name__).body
    assert operations(body) <= MAX_OPERATIONS
    assert sum(isinstance(n, Store) for n in walk(body)) == 15  # the innermost is written out


@pytest.mark.parametrize("depth", [4, 12])
def test_a_nest_of_ragged_loops_is_split_while_it_stays_small(depth: int) -> None:
    A, C, s = scaled((3,) * depth)
    pairs = [s[C].split(axis, factor=2) for axis in C.op.axis]
    s[C].reorder(*(o for o, _ in pairs), *(i for _, i in pairs))
    before = size(s, [A, C], "flatten")
    after = size(s, [A, C], partition.__name__)
    assert before < after <= MAX_OPERATIONS


def chain(depth: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """Copies of tiles, each filled in a loop of the next one and double-buffered."""
    A = te.placeholder((2**depth * 2,), name="A")
    C = te.compute(A.shape, lambda i: A[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    stage, source = C, A
    loop, _ = s[C].split(C.op.axis[0], nparts=2)
    for _ in range(depth):
        copy = s.cache_read(source, "shared", [stage])
        s[copy].compute_at(s[stage], loop)
        s[copy].double_buffer()
        loop, _ = s[copy].split(copy.op.axis[0], nparts=2)
        stage = copy
    return s, [A, C]


def test_double_buffers_inside_each_other_are_refused_before_they_explode() -> None:
    s, args = chain(3)
    assert "% 2" in str(tvm.lower(s, args))
    s, args = chain(20)
    with pytest.raises(
        LoweringError, match=r"would be written twice, which makes .* operations"
    ) as e:
        tvm.lower(s, args)
    assert "double_buffer fewer of the stages" in str(e.value)


def test_an_intrinsic_in_unrolled_loops_counts_for_what_it_is() -> None:
    x, y = te.placeholder((4,), name="x"), te.placeholder((4,), name="y")
    z = te.compute((4,), lambda i: x[i] + y[i], name="z")
    xb, yb, zb = (
        tvm.tir.decl_buffer((4,), t.dtype, name=t.name, offset_factor=4) for t in (x, y, z)
    )

    def body(ins, outs):  # type: ignore[no-untyped-def]
        ib = tvm.tir.ir_builder.create()
        a, b, c = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 4, name="l") as lane:
            c[lane] = a[lane] + b[lane]
        return ib.get()

    intrin = te.decl_tensor_intrin(z.op, body, binds={x: xb, y: yb, z: zb})
    A, B = te.placeholder((64, 64, 4), name="A"), te.placeholder((64, 64, 4), name="B")
    C = te.compute((64, 64, 4), lambda i, j, v: A[i, j, v] + B[i, j, v], name="C")
    s = te.create_schedule(C.op)
    i, j, v = C.op.axis
    s[C].tensorize(v, intrin)
    s[C].unroll(i)
    s[C].unroll(j)
    assert size(s, [A, B, C], "unroll") <= 2 * MAX_OPERATIONS
