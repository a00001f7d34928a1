"""accesses: what is recorded is what the interpreter does, and what one counts by hand."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import accesses, cachesim, te, tir
from minitvm.base import ArgumentError, LoweringError
from minitvm.tir import Buffer, PrimFunc, Store
from minitvm.tir.interp import _Compiler, interpret  # the hook: every access asks for its offset
from tests.fuzz.make import random_program
from tests.fuzz.schedules import random_schedule
from tests.seeds import seeds

CHUNK = 20  # cases per test
Log = list[tuple[str, int, bool]]


# --- the oracle: the interpreter, listening ------------------------------------------------------


def overheard(f: PrimFunc, args: list[Any], monkeypatch: pytest.MonkeyPatch) -> Log:
    """(buffer, element, is it a store?) of every access that the interpreter makes."""
    log: Log = []
    names = f.printer()
    stores: list[bool] = []
    offset, store = _Compiler.offset, _Compiler.store

    def heard_store(self: _Compiler, s: Store):
        stores.append(True)  # the first offset that a store asks for is its own
        return store(self, s)

    def heard_offset(self: _Compiler, b: Buffer, indices: Any):
        write = bool(stores and stores.pop())
        run = offset(self, b, indices)

        def heard(frame: Any) -> Any:
            at = run(frame)
            log.append((names.name(b), int(at), write))
            return at

        return heard

    with monkeypatch.context() as m:
        m.setattr(_Compiler, "store", heard_store)
        m.setattr(_Compiler, "offset", heard_offset)
        interpret(f, *args, flat=True)
    return log


def listed(trace: accesses.AccessTrace) -> Log:
    names = [trace.buffers[b].name for b in trace.buffer]
    return list(zip(names, trace.index.tolist(), trace.write.tolist(), strict=True))


@pytest.mark.parametrize("chunk", seeds(3, 50))
def test_property_a_trace_is_what_the_interpreter_does(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = 0
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        rng = np.random.default_rng(seed)
        program = random_program(rng)
        schedule = random_schedule(program.ops, rng)
        data = program.arrays(rng)
        try:
            trace = accesses.record(
                schedule, program.args, sizes=program.sizes, data=data, limit=50_000
            )
        except LoweringError:  # not what is looked at here
            continue
        except ArgumentError as e:
            if "the limit is 50000" not in str(e):  # too long for the interpreter
                raise
            continue
        shapes = [(program.shape(t), t.dtype.numpy) for t in program.outputs]
        outputs = [np.zeros(shape, dtype) for shape, dtype in shapes]
        sizes = [program.sizes[v] for v in program.scalars]
        args = [*map(np.asarray, data.values()), *outputs, *sizes]
        args += packed_before(tvm.lower(schedule, program.args, target="python"), args)
        assert listed(trace) == overheard(trace.program, args, monkeypatch), f"seed {seed}"
        assert_consistent(trace)
        done += 1
    assert done >= 0.8 * CHUNK


def packed_before(func: tir.PrimFunc, args: list[Any]) -> list[Any]:
    """The packed constants, which the recorded program takes as further arguments."""
    packed = [np.zeros(b.shape, b.dtype.numpy) for b in func.packed]
    if func.prepack is not None:
        fixed = [a for p, a in zip(func.params, args, strict=True) if func.is_constant(p)]
        tir.interpret(func.prepack, *fixed, *packed, flat=True)
    return packed


def assert_consistent(trace: accesses.AccessTrace) -> None:
    """Addresses lie in their buffers, buffers apart, counters make the index that is printed."""
    for k, b in enumerate(trace.buffers):
        mine = trace.buffer == k
        used = trace.address[mine]
        end = trace.buffers[k + 1].base if k + 1 < len(trace.buffers) else 1 << 60
        assert b.base % 4096 == 0
        assert used.size == 0 or b.base <= used.min() <= used.max() < end
        assert (used == b.base + trace.index[mine] * b.itemsize).all()
    for n in range(0, len(trace), max(1, len(trace) // 20)):
        site = trace.sites[trace.site[n]]
        assert tuple(trace.counters(n)) == site.names
        text = site.text[site.text.index("[") + 1 : -1]
        if "[" not in text and not any(c.isalpha() for c in strip(text, site.names)):
            assert eval(text, {}, trace.counters(n)) == trace.index[n]


def strip(text: str, names: tuple[str, ...]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, "")
    return text


# --- a matrix product ----------------------------------------------------------------------------


def matmul(n: Any, tile: int = 0) -> te.Schedule:
    """C = A @ B, tiled in all three directions if `tile` is given."""
    A, B = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    if tile:
        io, jo, ii, ji = s[C].tile(*C.op.axis, tile, tile)
        ko, ki = s[C].split(k, tile)
        s[C].reorder(io, jo, ko, ii, ki, ji)
        s[C].parallel(io)
        s[C].vectorize(ji)
    return s


def test_a_plain_product_reads_three_elements_and_writes_one_for_each_step() -> None:
    n = 16
    trace = accesses.record(matmul(n))
    loads, stores = int((~trace.write).sum()), int(trace.write.sum())
    assert (loads, stores, trace.flops) == (3 * n**3, n**3 + n**2, 2 * n**3)
    per_buffer = np.bincount(trace.buffer).tolist()
    assert per_buffer == [n**3, n**3, 2 * n**3 + n**2]


def test_the_first_steps_of_a_plain_product() -> None:
    trace = accesses.record(matmul(4))
    sites = [trace.sites[k].text for k in trace.site[:9]]
    assert sites[0] == "C[i*4 + j]"
    assert sites[1:5] == sites[5:9] == ["C[i*4 + j]", "A[i*4 + k]", "B[k*4 + j]", "C[i*4 + j]"]
    assert trace.index[:9].tolist() == [0, 0, 0, 0, 0, 0, 1, 4, 0]
    assert trace.write[:9].tolist() == [True, *[False] * 3, True, *[False] * 3, True]
    assert trace.counters(6) == {"i": 0, "j": 0, "k": 1}
    assert repr(trace) == "<272 accesses of A, B, C: 192 loads, 80 stores>"


def test_footprints_of_a_plain_product() -> None:
    n, line = 16, 64  # a row of 16 float32 is one line
    whole, i, j, k = accesses.footprints(accesses.record(matmul(n)), line)
    assert whole.lines == {"A": n, "B": n, "C": n}
    assert i.lines == {"A": 1, "B": n, "C": 1}
    assert j.bytes == {"A": 4 * n, "B": 4 * n, "C": 4}
    assert (k.loop, k.iterations, k.lines) == ("k", n**3, {"A": 1, "B": 1, "C": 1})
    assert str(k) == "k: 4096 iterations, lines: A 1, B 1, C 1"


def test_footprints_of_a_tile_are_those_of_its_blocks() -> None:
    trace = accesses.record(matmul(32, 16))
    found = {f.loop: f for f in accesses.footprints(trace)}
    assert found["k_outer"].lines == {"A": 16, "B": 16, "C": 16}
    assert found["k_outer"].iterations == 8


def test_footprints_are_counted_iteration_by_iteration() -> None:
    A = te.placeholder((10,), name="A")
    C = te.compute((7,), lambda i: A[i] + A[i + 3], name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 2)  # 4 iterations of 2, 2, 2, 1 elements
    trace = accesses.record(s)
    _, outer, inner = accesses.footprints(trace, 8)
    starts = [*trace.loops[0].starts.tolist(), len(trace)]
    parts = [slice(a, b) for a, b in pairwise(starts)]
    for name, b in (("A", 0), ("C", 1)):
        lines = [set((trace.address[p][trace.buffer[p] == b] // 8).tolist()) for p in parts]
        assert outer.lines[name] == sum(map(len, lines)) / 4
    assert outer.bytes == {"A": 4 * (4 + 4 + 4 + 2) / 4, "C": 4 * 7 / 4}
    assert inner.iterations == 8  # the guard of the last one holds not


def test_intensity_counts_operations_and_bytes() -> None:
    found = accesses.arithmetic_intensity(accesses.record(matmul(16)), cachesim.Cache.l1())
    assert found == accesses.Intensity(2 * 16**3, 3 * 1024, 3 * 1024, 4 * 1024)
    assert (found.ideal, found.actual) == (8192 / 3072, 2.0)


def test_tiles_miss_less() -> None:
    l1 = cachesim.Cache(4096, 64, 8)
    naive, tiled = (cachesim.simulate(l1, accesses.record(matmul(64, t))) for t in (0, 16))
    assert tiled.misses < 0.35 * naive.misses
    assert tiled.compulsory == naive.compulsory == 3 * 64 * 64 * 4 // 64


# --- what may be recorded ------------------------------------------------------------------------


def test_temporary_buffers_are_memory_too() -> None:
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s.cache_write(C, "local")
    trace = accesses.record(s)
    assert [(b.name, b.temporary, b.shape) for b in trace.buffers] == [
        ("A", False, (8,)),
        ("C", False, (8,)),
        ("C_local", True, (8,)),
    ]
    assert np.bincount(trace.buffer).tolist() == [8, 8, 16]


def test_symbolic_sizes_get_their_values() -> None:
    n = te.size_var("n")
    assert len(accesses.record(matmul(n), sizes={"n": 4})) == 272
    assert len(accesses.record(matmul(n), sizes={n: 4})) == 272
    assert len(accesses.record(matmul(n), data={"A": np.zeros((4, 4), "float32")})) == 272


def test_data_decide_what_an_index_read_from_them_reaches() -> None:
    A = te.placeholder((9,), name="A")
    I = te.placeholder((3,), "int32", name="I")  # noqa: E741
    C = te.compute((3,), lambda i: A[I[i]], name="C")
    s = te.create_schedule(C.op)
    trace = accesses.record(s, [A, I, C], data={I: np.array([5, 0, 8], "int32")})
    assert [n for name, n, _ in listed(trace) if name == "A"] == [5, 0, 8]


def test_loops_before_they_are_flattened_may_be_recorded() -> None:
    s = matmul(4)
    C = s.outputs[0].output(0)
    A, B = C.op.input_tensors
    for until in ("nest", "flatten"):
        trace = accesses.record(tvm.lower(s, [A, B, C], until=until))
        assert listed(trace) == listed(accesses.record(s))


def test_virtual_threads_run_in_turns() -> None:
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], nparts=2)
    s[C].bind(outer, te.thread_axis("vthread"))
    assert accesses.record(s).index[::2].tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_a_program_that_does_nothing_has_an_empty_trace() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] * 2.0, name="C")
    trace = accesses.record(te.create_schedule(C.op), sizes={"n": 0})
    assert (len(trace), trace.flops, len(accesses.footprints(trace))) == (0, 0, 2)
    assert accesses.arithmetic_intensity(trace).actual == 0
    assert cachesim.simulate(cachesim.Cache.l1(), trace).accesses == 0


def mistakes() -> list[tuple[Any, dict[str, Any], str]]:
    n = te.size_var("n")
    return [
        (matmul(1024), {}, "the accesses of main: at least 1074790400 stores, the limit is 50000"),
        (matmul(16), {"limit": 5000}, "the accesses of main: 21008 events, the limit is 5000"),
        (matmul(16), {"limit": -1}, "limit=-1: not an integer >= 0"),
        (matmul(n), {}, "sizes: 'n': its value is not given\n  try: sizes={'n': 64}"),
        (
            matmul(n),
            {"sizes": {"m": 4, "n": 4}},
            "sizes: 'm': no argument or size of the program has this name\n  try: one of",
        ),
        (matmul(n), {"sizes": {"n": -4}}, "sizes: n = -4: A cannot have the shape (-4, -4)"),
        (matmul(n), {"sizes": {"n": 4.0}}, "sizes: n = 4.0: not an integer"),
        (matmul(n), {"sizes": 64}, "sizes=64: not a dict"),
        (
            matmul(8),
            {"data": {"D": np.zeros(8)}},
            "data: 'D': no argument or size of the program has this name\n  try: one of",
        ),
        (matmul(8), {"data": {"A": np.zeros((8, 8))}}, "main: A: holds float64, not float32"),
        (matmul(8).outputs[0], {}, "lower(ComputeOp): not a schedule"),
    ]


@pytest.mark.parametrize("n", range(len(mistakes())))
def test_what_cannot_be_recorded_is_refused(n: int) -> None:
    what, arguments, message = mistakes()[n]
    with pytest.raises(ArgumentError) as e:
        accesses.record(what, **arguments)
    assert str(e.value).startswith(message)


def test_an_access_has_a_number() -> None:
    trace = accesses.record(matmul(4))
    assert trace.counters(-1) == {"i": 3, "j": 3, "k": 3}
    with pytest.raises(ArgumentError, match="access 272: there are 272"):
        trace.counters(272)


def test_a_line_holds_an_element() -> None:
    with pytest.raises(ArgumentError, match="line=2: shorter than an element of 4 bytes"):
        accesses.footprints(accesses.record(matmul(4)), 2)


def test_masked_data_are_refused() -> None:
    A = te.placeholder((3,), name="A")
    s = te.create_schedule(te.compute((3,), lambda i: A[i] + 1, name="C").op)
    masked = np.ma.array(np.ones(3, "float32"), mask=[0, 1, 0])
    with pytest.raises(ArgumentError, match="data: A of a masked array: its mask would be lost"):
        accesses.record(s, data={"A": masked})
