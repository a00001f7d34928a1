"""The environment, the function, and what is refused."""

import pickle
import threading
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, vta
from minitvm.accel import Finish, Load, Store, is_nop
from minitvm.vta import Config, Environment

from .programs import Layer, conv

ENV = vta.get_env()


def shifted(shape: tuple[int, ...] = (4, 1, 16), by: int = 8) -> tuple[te.Schedule, list[Any]]:
    """C = A >> by on the ALU."""
    A = te.placeholder(shape, name="A", dtype="int32")
    A_buf = te.compute(shape, A, name="A_buf")
    B = te.compute(shape, lambda *i: A_buf(*i) >> by, name="B")
    C = te.compute(shape, lambda *i: B(*i).astype("int8"), name="C")
    s = te.create_schedule(C.op)
    for t in (A_buf, B):
        s[t].set_scope(ENV.acc_scope)
    for t in (A_buf, C):
        s[t].pragma(s[t].op.axis[0], ENV.dma_copy)
    s[B].pragma(s[B].op.axis[0], ENV.alu)
    return s, [A, C]


def refusal(kind: type[Exception], do: Any) -> str:
    with pytest.raises(kind) as caught:
        do()
    return str(caught.value)


# --- environments ---------------------------------------------------------------------------------


def test_an_environment_says_what_machine_is_built_for() -> None:
    small = Config(name="small", acc_bytes=1 << 12)
    with Environment(small) as env:
        assert (vta.get_env().config, env.config) == (small, small)
        assert vta.build(*shifted()).config == small
    assert vta.get_env().config == vta.vta_pynq


def test_environments_nest() -> None:
    with Environment(vta.vdla_osdi18), Environment(vta.vdla8x8):
        assert vta.get_env().BATCH == 8
    assert vta.get_env().config.name == "vta_pynq"


def test_there_is_one_environment_and_one_intrinsic_for_a_machine() -> None:
    assert vta.get_env() is vta.get_env()
    assert vta.get_env().gemm is vta.get_env().gemm


def test_a_program_is_built_for_the_machine_that_it_was_lowered_for() -> None:
    layer = vta.Convolution(size=(4, 4), channels=(16, 16))
    lowered = vta.lower(*layer.scheduled(vta.Tiling(h=4, w=4)))
    with Environment(Config(name="narrow", block_out=8)):
        assert vta.build(lowered).config == vta.vta_pynq
        other = vta.lower(*layer.scheduled(vta.Tiling(h=4, w=4)))
    assert vta.build(other).config.name == "narrow"


def test_schedules_made_within_a_mock_are_those_of_the_mock() -> None:
    layer = vta.Convolution(size=(4, 4), channels=(16, 16))
    with ENV.mock:
        s, args = layer.scheduled(vta.Tiling(h=4, w=4))
        assert vta.get_env() is ENV.mock
    assert all(is_nop(n) for n in vta.build(s, args).program.instructions[:-1])
    assert not vta.get_env().skip


def test_each_thread_has_the_environments_that_it_has_entered() -> None:
    """One of two threads leaves while the other is inside."""
    env, inside, found = Environment(vta.vdla8x8), threading.Barrier(2), list[str]()

    def work(wait: bool) -> None:
        with env:
            inside.wait(10)
            if wait:
                inside.wait(10)
            found.append(vta.get_env().config.name)
        if not wait:
            inside.wait(10)
        found.append(vta.get_env().config.name)

    threads = [threading.Thread(target=work, args=(wait,)) for wait in (False, True)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(found) == ["vdla8x8", "vdla8x8", "vta_pynq", "vta_pynq"]


def test_an_environment_that_was_not_entered_last_cannot_be_left() -> None:
    with Environment(vta.vdla8x8):
        says = refusal(tvm.ArgumentError, ENV.__exit__)
        assert "it is not the innermost environment" in says
        assert vta.get_env().BATCH == 8
    assert "innermost" in refusal(tvm.ArgumentError, ENV.__exit__)


def test_an_environment_knows_the_depth_of_its_memories() -> None:
    assert [ENV.depth(scope) for scope in ENV.scopes] == [2048, 1024, 2048]


@pytest.mark.parametrize(
    ("do", "says"),
    [
        (lambda: Environment(16), "Environment: config=16: not a Config"),
        (lambda: ENV.depth("dram"), "depth('dram'): no such memory"),
        (lambda: tvm.target.Target("vta -mcpu=a"), "target 'vta -mcpu=a': vta takes no options"),
    ],
)
def test_what_is_no_machine_is_refused(do: Any, says: str) -> None:
    assert refusal(tvm.ArgumentError, do).startswith(says)


def test_a_mock_moves_and_computes_nothing() -> None:
    program = vta.build(*conv(Layer((6, 6), (32, 64)), (3, 6, 1, 1), env=ENV.mock)).program
    assert [n for n in program.instructions if not is_nop(n)] == [Finish()]


# --- functions ------------------------------------------------------------------------------------


def test_a_function_is_called_as_others_are() -> None:
    a = np.random.default_rng(0).integers(-(1 << 20), 1 << 20, (4, 1, 16)).astype("int32")
    c = np.zeros(a.shape, "int8")
    tvm.build(*shifted(), target="vta")(a, c)
    np.testing.assert_array_equal(c, (a >> 8).astype("int8"))


def test_a_shift_to_the_left_is_one_by_a_negative_number() -> None:
    A = te.placeholder((4, 1, 16), name="A", dtype="int32")
    s, (A, C) = shifted(by=3)
    assert "imm=3" in vta.build(s, [A, C]).source("vta")
    B_buf = te.compute((4, 1, 16), A, name="B_buf")
    B = te.compute((4, 1, 16), lambda *i: B_buf(*i) << 3, name="B")
    D = te.compute((4, 1, 16), lambda *i: B(*i).astype("int8"), name="D")
    s = te.create_schedule(D.op)
    for t in (B_buf, B):
        s[t].set_scope("acc_buffer")
    for t in (B_buf, D):
        s[t].pragma(s[t].op.axis[0], "dma_copy")
    s[B].pragma(s[B].op.axis[0], "alu")
    assert "shr u[0:1] outer=4 dst=1,0 imm=-3" in vta.build(s, [A, D]).source("vta")


def sums(dtype: str) -> tuple[te.Schedule, list[Any]]:
    """C = (A + B) >> 1, B widened while it is loaded if that is not int32."""
    shape = (6, 1, 16)
    A = te.placeholder(shape, name="A", dtype="int32")
    B = te.placeholder(shape, name="B", dtype=dtype)
    A_buf = te.compute(shape, A, name="A_buf")
    B_buf = te.compute(shape, lambda *i: B(*i).astype("int32"), name="B_buf")
    added = te.compute(shape, lambda *i: A_buf(*i) + B_buf(*i), name="added")
    half = te.compute(shape, lambda *i: added(*i) >> 1, name="half")
    C = te.compute(shape, lambda *i: half(*i).astype("int8"), name="C")
    s = te.create_schedule(C.op)
    for t in (A_buf, B_buf, added, half):
        s[t].set_scope(ENV.acc_scope)
    for t in (A_buf, B_buf, C):
        s[t].pragma(s[t].op.axis[0], ENV.dma_copy)
    for t in (added, half):
        s[t].pragma(s[t].op.axis[0], ENV.alu)
    return s, [A, B, C]


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_accumulators_are_loaded_from_int8_and_from_int32(dtype: str) -> None:
    rng, c = np.random.default_rng(0), np.zeros((6, 1, 16), "int8")
    a, b = (rng.integers(-128, 128, c.shape).astype(t) for t in ("int32", dtype))
    f = vta.build(*sums(dtype))
    f(a, b, c)
    np.testing.assert_array_equal(c, a + b >> 1)
    bytes_of_b = 6 * 16 * np.dtype(dtype).itemsize
    assert f.run().counters.acc_load_nbytes == 6 * 64 + bytes_of_b


def test_int8_in_the_accumulators_has_to_be_widened() -> None:
    B = te.placeholder((6, 1, 16), name="B", dtype="int8")
    B_buf = te.compute(B.shape, B, name="B_buf")
    C = te.compute(B.shape, B_buf, name="C")
    s = te.create_schedule(C.op)
    s[B_buf].set_scope(ENV.acc_scope)
    for t in (B_buf, C):
        s[t].pragma(s[t].op.axis[0], ENV.dma_copy)
    assert refusal(tvm.BuildError, lambda: vta.build(s, [B, C])) == (
        "B_buf in 'local.acc_buffer' is int8: the elements of ACC are int32\n"
        "  try: x.astype('int32')"
    )


def test_its_time_is_that_of_the_simulated_machine() -> None:
    f, a, c = vta.build(*shifted()), np.zeros((4, 1, 16), "int32"), np.zeros((4, 1, 16), "int8")
    times = f.time_evaluator(repeat=2)(a, c)
    assert times.cycles == f.run().cycles == vta.simulate(f).cycles
    assert times.results == (times.cycles / 100e6,) * 2
    assert str(times).startswith(f"{times.cycles} cycles, ")


def test_it_can_be_timed_on_a_slower_machine() -> None:
    f = vta.build(*shifted())
    slow = Config(name="slow", dma_latency=1000)
    assert f.run(slow).cycles > f.run().cycles
    assert f.run(slow).counters == f.run().counters


@pytest.mark.parametrize(
    "do",
    [
        lambda: vta.simulate(5),
        lambda: vta.verify("nop"),
        lambda: vta.verify(vta.build(*shifted()), 5),
        lambda: vta.build(*shifted()).run(5),
    ],
)
def test_what_is_no_program_or_no_machine_is_refused(do: Any) -> None:
    assert ": not a " in refusal(tvm.ArgumentError, do)


def test_simulating_with_inputs_gives_outputs() -> None:
    a = np.full((4, 1, 16), 512, "int32")
    outputs = vta.simulate(vta.build(*shifted()), inputs={"A": a}).outputs
    assert (outputs["C"] == 2).all()


def test_arguments_that_do_not_fit_are_named() -> None:
    f = vta.build(*shifted())
    assert refusal(tvm.ArgumentError, lambda: f(np.zeros(3, "int32"), np.zeros(3, "int8"))) == (
        "main: argument A: has 1 dimensions, not 3\n  try: reshape it"
    )


def test_a_matrix_that_is_not_packed_is_to_be_packed_and_not_reshaped() -> None:
    f = vta.build(*shifted())
    with pytest.raises(tvm.ArgumentError) as caught:
        f(np.zeros((2, 32), "int32"), np.zeros((4, 1, 16), "int8"))
    assert str(caught.value) == (
        "main: argument A: has shape (2, 32), not (4, 1, 16)\n"
        "  try: vta.pack(A, 1, 16); a reshape does not reorder the numbers"
    )


def test_of_two_arguments_of_one_name_the_right_one_is_to_be_packed() -> None:
    data, weight = (te.placeholder((4, 4, n, 16), "int8", "A") for n in (1, 16))
    result = vta.top.requantize(vta.top.dense(data, weight))
    f = vta.build(vta.top.schedule(result, vta.Tiling()), [data, weight, result])
    zeros = np.zeros((4, 4, 1, 16), "int8")
    with pytest.raises(tvm.ArgumentError, match=r"vta.pack\(A, 16, 16\)"):
        f(zeros, np.zeros((64, 64), "int8"), zeros)


def test_it_has_no_code_to_be_stored() -> None:
    says = refusal(tvm.BuildError, lambda: vta.build(*shifted()).export("f.bin"))
    assert says.startswith("export of main: functions of this target cannot be stored")
    says = refusal(tvm.BuildError, lambda: pickle.dumps(vta.build(*shifted())))
    assert says.startswith("pickle of main: functions of this target cannot be stored")


# --- schedules ------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["llvm", "numba", "python"])
def test_a_cpu_refuses_memories_of_the_accelerator(target: str) -> None:
    says = refusal(tvm.BuildError, lambda: tvm.build(*shifted(), target=target))
    assert says == (
        f"A_buf in 'local.acc_buffer' for target {target!r}: only the accelerator has this\n"
        '  try: target="vta"'
    )


def test_a_transfer_for_each_element_is_likely_slow() -> None:
    A = te.placeholder((64, 1, 16), name="A", dtype="int32")
    A_buf = te.compute(A.shape, A, name="A_buf")
    s = te.create_schedule(te.compute(A.shape, A_buf, name="C").op)
    s[A_buf].set_scope(ENV.acc_scope)
    assert str(s.warnings()) == "nothing looks slow"
    s[A_buf].pragma(A_buf.op.axis[2], ENV.dma_copy)
    assert str(s.warnings()) == (
        f"pragma dma_copy on loop {A_buf.op.axis[2].name} of A_buf: 64 transfers of 16 numbers: "
        "each costs dozens of cycles, however small\n"
        "  try: the pragma on the outermost axis of the copy"
    )


def test_the_loops_can_be_looked_at_for_any_target() -> None:
    text = str(tvm.lower(*shifted(), simple_mode=True))
    assert "# pragma dma_copy = 1" in text


def test_what_is_computed_outside_of_the_accelerator_is_refused() -> None:
    A = te.placeholder((4, 16), name="A", dtype="int8")
    B = te.compute((4, 16), lambda i, j: A[i, j] * 2, name="B")
    says = refusal(tvm.LoweringError, lambda: vta.build(te.create_schedule(B.op), [A, B]))
    assert says.startswith(
        "B[i*16 + j] = A[i*16 + j] * int8(2): the accelerator has no instruction"
    )


@pytest.mark.parametrize(
    "scope", ["local.acc_buffer", "acc_buffer", "vdla.acc_buffer", "vta.acc_buffer"]
)
def test_a_memory_goes_by_several_names(scope: str) -> None:
    s, (A, C) = shifted()
    s.cache_read(A, scope, [s.stages[1].op.output(0)])
    assert "local.acc_buffer" in str(tvm.lower(s, [A, C], simple_mode=True))


def test_a_loop_that_is_trimmed_runs_twice() -> None:
    A = te.placeholder((64, 1, 16), name="A", dtype="int32")
    A_buf = te.compute(A.shape, A, name="A_buf")
    C = te.compute(A.shape, lambda *i: A_buf(*i).astype("int8"), name="C")
    s = te.create_schedule(C.op)
    s[A_buf].set_scope(ENV.acc_scope)
    i = s[C].op.axis[0]
    s[A_buf].compute_at(s[C], i)
    s[A_buf].pragma(s[A_buf].op.axis[0], ENV.dma_copy)
    s[C].pragma(i, ENV.trim_loop)
    s[C].pragma(s[C].op.axis[1], ENV.dma_copy)
    program = vta.build(s, [A, C]).program
    moves = [n for n in program.instructions if isinstance(n, Load | Store) and n.x]
    assert len(moves) == 2 * 2


def stored_and_loaded() -> tuple[te.Schedule, list[Any]]:
    """For each of 4 elements of INP: load it, load an accumulator, store that."""
    env = vta.get_env()
    A = te.placeholder((4, 1, 16), name="A", dtype="int8")
    W = te.placeholder((1, 1, 16, 16), name="W", dtype="int8")
    k, kt = te.reduce_axis((0, 1), name="k"), te.reduce_axis((0, 16), name="kt")
    A_buf, W_buf = te.compute(A.shape, A, name="A_buf"), te.compute(W.shape, W, name="W_buf")
    D = te.compute(
        (4, 1, 16),
        lambda b, i, j: te.sum(
            A_buf[b + k, i, kt].astype("int32") * W_buf[k, 0, j, kt].astype("int32"), axis=[k, kt]
        ),
        name="D",
    )
    C = te.compute(D.shape, lambda *i: D(*i).astype("int8"), name="C")
    s = te.create_schedule(C.op)
    b = s[C].op.axis[0]
    s[D].set_scope(env.acc_scope)
    s[D].compute_at(s[C], b)
    s[D].tensorize(s[D].op.axis[1], env.gemm)
    for t, scope in ((A_buf, env.inp_scope), (W_buf, env.wgt_scope)):
        s[t].set_scope(scope)
        s[t].compute_at(s[C], b)
        s[t].pragma(s[t].op.axis[0], env.dma_copy)
    s[C].pragma(s[C].op.axis[1], env.dma_copy)
    return s, [A, W, C]


def test_a_load_after_a_store_is_refused_no_queue_joins_them() -> None:
    s, args = stored_and_loaded()
    says = refusal(tvm.LoweringError, lambda: tvm.lower(s, args, target="vta"))
    assert "no queue of tokens connects these two" in says
    assert "coproc_sync" in says


def test_with_coproc_sync_the_compute_unit_stands_between() -> None:
    s, args = stored_and_loaded()
    s[args[2]].pragma(s[args[2]].op.axis[1], ENV.coproc_sync)
    rng = np.random.default_rng(0)
    a, w = (rng.integers(-128, 128, p.shape).astype("int8") for p in args[:2])
    c = np.zeros((4, 1, 16), "int8")
    vta.build(s, args)(a, w, c)
    expected = a[:, 0].astype("int32") @ w[0, 0].T.astype("int32")
    np.testing.assert_array_equal(c[:, 0], expected.astype("int8"))
