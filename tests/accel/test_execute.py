"""What instructions do to numbers, against numpy."""

from collections.abc import Callable

import numpy as np
import pytest

from minitvm.accel import (
    Program,
    execute,
    in_order,
    parse,
    resolve,
    simulate,
    vdla8x8,
    vta_pynq,
)
from minitvm.base import ArgumentError

Fixture = Callable[..., Program]


def numbers(seed: int, *shape: int, low: int = -128, high: int = 128, dtype="int8") -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape, dtype)


def alu(lines: str, values: list[int], count: int = 1) -> list[int]:
    """The first lane of each output after loading accumulators and running `lines` on compute."""
    rows = len(values)
    uops = "\n".join(f"uop {n} {n}" for n in range(rows))
    body = "\n".join(f"ex  {line}" for line in lines.splitlines())
    program = parse(f"""
        area B acc {rows}
        area C out {rows}
        {uops}
        ex  uop[0] = uops[0] x={rows}
        ex  acc[0] = B[0] x={rows}
        {body}
        ex  nop   push st
        st  C[0] = acc[0] x={rows}   pop ex   push ex
        ex  nop   pop st
        ex  finish
        """)
    b = np.zeros((rows, 1, 16), np.int32)
    b[:, 0, :] = np.array(values, np.int64).astype(np.int32)[:, None]
    out = execute(program, vta_pynq, {"B": b})["C"]
    assert (out == out[:, :, :1]).all()
    return out[:count, 0, 0].tolist()


# --- gemm -----------------------------------------------------------------------------------------

GEMM = """
area A inp 3
area W wgt 2
area B acc 2
area C out 2
uop 0 0 1
uop 1 2 0
ld  inp[0] = A[0] x=3
ld  wgt[0] = W[0] x=2   push ex
ex  uop[0] = uops[0] x=2
ex  acc[0] = B[0] x=2
ex  gemm u[0:2]   pop ld
ex  shr u[0:2] imm={shift}   push st
st  C[0] = acc[0] x=2   pop ex   push ex
ex  nop   pop st
ex  finish
"""


def gemm(shift: int, a: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return execute(parse(GEMM.format(shift=shift)), vta_pynq, {"A": a, "W": w, "B": b})["C"]


@pytest.mark.parametrize("shift", [0, 8, 15])
def test_gemm_multiplies_by_the_transpose(shift: int) -> None:
    a, w = numbers(1, 3, 1, 16), numbers(2, 2, 16, 16)
    b = numbers(3, 2, 1, 16, low=-(1 << 20), high=1 << 20, dtype="int32")
    wide, weight = a.astype(np.int32), w.astype(np.int32)
    expected = b + np.stack([wide[0] @ weight[1].T, wide[2] @ weight[0].T])
    assert (gemm(shift, a, w, b) == (expected >> shift).astype(np.int8)).all()


def test_the_largest_product_fits() -> None:
    a, w = np.full((3, 1, 16), -128, np.int8), np.full((2, 16, 16), -128, np.int8)
    assert (gemm(12, a, w, np.zeros((2, 1, 16), np.int32)) == 262144 >> 12).all()


def test_gemm_wraps() -> None:
    a, w = np.ones((3, 1, 16), np.int8), np.ones((2, 16, 16), np.int8)
    b = np.full((2, 1, 16), (1 << 31) - 16, np.int32)
    assert (gemm(31 - 7, a, w, b) == -128).all()  # -2^31 >> 24


def test_a_tile_of_the_slides_machine_is_a_matrix_product() -> None:
    program = parse(
        """
        area A inp 1
        area W wgt 1
        area C out 1
        uop 0 0 0
        ld  inp[0] = A[0] x=1
        ld  wgt[0] = W[0] x=1   push ex
        ex  uop[0] = uops[0] x=1
        ex  reset u[0:1]
        ex  gemm u[0:1]   pop ld
        ex  shr u[0:1] imm=9   push st
        st  C[0] = acc[0] x=1   pop ex   push ex
        ex  nop   pop st
        ex  finish
        """,
        vdla8x8,
    )
    a, w = numbers(5, 1, 8, 8), numbers(6, 1, 8, 8)
    out = execute(program, vdla8x8, {"A": a, "W": w})["C"]
    assert (out[0] == (a[0].astype(np.int32) @ w[0].T.astype(np.int32) >> 9)).all()


# --- loops ----------------------------------------------------------------------------------------


def test_indices_are_base_plus_factors_times_counters() -> None:
    program = parse("""
        area B acc 13
        area C out 8
        uop 0 8
        uop 1 9
        ex  uop[0] = uops[0] x=2
        ex  acc[0] = B[0] x=13
        ex  add u[0:2] outer=2 inner=2 dst=4,2 src=2,1   push st
        st  C[0] = acc[0] x=8   pop ex   push ex
        ex  nop   pop st
        ex  finish
        """)
    b = np.zeros((13, 1, 16), np.int32)
    b[:, 0, 0] = values = [1, 2, 3, 4, 5, 6, 7, 8, 10, 20, 30, 40, 50]
    expected = values[:8]
    for i in range(2):
        for j in range(2):
            for u in range(2):
                expected[u + 4 * i + 2 * j] += values[8 + u + 2 * i + j]
    assert execute(program, vta_pynq, {"B": b})["C"][:, 0, 0].tolist() == expected


def test_micro_operations_run_one_after_the_other() -> None:
    assert alu("add u[0:1] outer=4 src=1,0", [1, 2, 3, 4]) == [2 + 2 + 3 + 4]


def test_a_chain_of_additions_sees_the_sums_before_it() -> None:
    # acc[1] += acc[0]; acc[2] += acc[1]; acc[3] += acc[2]
    program = parse("""
        area B acc 4
        area C out 4
        uop 1 0
        ex  uop[0] = uops[0] x=1
        ex  acc[0] = B[0] x=4
        ex  add u[0:1] outer=3 dst=1,0 src=1,0   push st
        st  C[0] = acc[0] x=4   pop ex   push ex
        ex  nop   pop st
        ex  finish
        """)
    b = np.broadcast_to(np.arange(1, 5, dtype=np.int32)[:, None, None], (4, 1, 16))
    assert execute(program, vta_pynq, {"B": b})["C"][:, 0, 0].tolist() == [1, 3, 6, 10]


@pytest.mark.parametrize("name", ["add", "max", "shr"])
@pytest.mark.parametrize("imm", ["", " imm=3"])
def test_any_micro_operations_of_the_alu_run_one_after_the_other(name: str, imm: str) -> None:
    rng = np.random.default_rng(len(name + imm))
    combine = {"add": lambda a, b: a + b, "max": max, "shr": lambda a, b: a >> b}[name]
    for _ in range(20):
        uops = rng.integers(0, 12, (int(rng.integers(1, 30)), 2))
        head = "area B acc 12\narea C out 12\n" + "".join(f"uop {d} {s}\n" for d, s in uops)
        program = parse(f"""{head}
            ex  uop[0] = uops[0] x={len(uops)}
            ex  acc[0] = B[0] x=12
            ex  {name} u[0:{len(uops)}]{imm}   push st
            st  C[0] = acc[0] x=12   pop ex   push ex
            ex  nop   pop st
            ex  finish""")
        b = rng.integers(0, 4, 12)
        expected = b.tolist()
        for d, s in uops:
            expected[d] = combine(expected[d], 3 if imm else expected[s])
        given = np.broadcast_to(b.astype(np.int32)[:, None, None], (12, 1, 16))
        found = execute(program, vta_pynq, {"B": given})["C"][:, 0, 0]
        assert found.tolist() == [(n + 128) % 256 - 128 for n in expected]  # the low 8 bits


def test_the_same_loops_run_other_uops_after_these_are_loaded() -> None:
    program = parse("""
        area B acc 2
        area C out 2
        uop 0 0
        uop 1 0
        ex  acc[0] = B[0] x=2
        ex  uop[0] = uops[0] x=1
        ex  add u[0:1] imm=10
        ex  uop[0] = uops[1] x=1
        ex  add u[0:1] imm=10   push st
        st  C[0] = acc[0] x=2   pop ex   push ex
        ex  nop   pop st
        ex  finish
        """)
    b = np.zeros((2, 1, 16), np.int32)
    assert execute(program, vta_pynq, {"B": b})["C"][:, 0, 0].tolist() == [10, 10]


def test_reset_clears_only_what_it_addresses() -> None:
    assert alu("reset u[1:3]", [5, 6, 7, 8], 4) == [5, 0, 0, 8]


# --- alu ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "value", "expected"),
    [
        ("add u[0:1] imm=1\nshr u[0:1] imm=24", (1 << 31) - 1, -128),  # -2^31 >> 24
        ("shr u[0:1] imm=8", -1, -1),
        ("shr u[0:1] imm=8", -257, -2),
        ("shr u[0:1] imm=-3", 5, 40),
        ("shr u[0:1] imm=16", 5 << 16, 5),
        ("shr u[0:1] imm=32", -5, -1),
        ("shr u[0:1] imm=-32", 5, 0),
        ("mul u[0:1] imm=-3", 7, -21),
        ("mul u[0:1]\nshr u[0:1] imm=25", 3 << 15, 32),  # 9 << 30 wraps to 1 << 30
        ("min u[0:1] imm=-7", -3, -7),
        ("max u[0:1] imm=-7", -300, -7),
        ("add u[0:1] imm=-32768\nadd u[0:1] imm=32767", 100, 99),
    ],
)
def test_alu_computes_in_32_bits(line: str, value: int, expected: int) -> None:
    assert alu(line, [value]) == [expected]


@pytest.mark.parametrize(("value", "stored"), [(128, -128), (300, 44), (-129, 127), (127, 127)])
def test_store_keeps_the_low_eight_bits(value: int, stored: int) -> None:
    assert alu("shr u[0:1] imm=0", [value]) == [stored]


def test_requantising_equals_numpy() -> None:
    values = numbers(4, 64, low=-(1 << 17), high=1 << 17, dtype="int32")
    lines = "shr u[0:64] imm=8\nmax u[0:64] imm=0\nmin u[0:64] imm=127"
    assert alu(lines, values.tolist(), 64) == np.clip(values >> 8, 0, 127).tolist()


def test_what_was_only_loaded_can_be_stored() -> None:
    assert alu("nop", [42]) == [42]


# --- transfers ------------------------------------------------------------------------------------


def moved(load: str, rows: int, kind: str = "acc") -> np.ndarray:
    """What `load` puts into accumulators that were 99 before, from 0, 1, 2, ... of that kind."""
    program = parse(f"""
        area B {kind} 15
        area N acc {rows}
        area C out {rows}
        ex  acc[0] = N[0] x={rows}
        ex  {load}   push st
        st  C[0] = acc[0] x={rows}   pop ex   push ex
        ex  nop   pop st
        ex  finish
        """)
    dtype = vta_pynq.dtype(program.area("B").memory)
    b = np.arange(15, dtype=dtype)[:, None, None] + np.zeros((1, 16), dtype)
    n = np.full((rows, 1, 16), 99, np.int32)
    return execute(program, vta_pynq, {"B": b, "N": n})["C"][:, 0, 0]


@pytest.mark.parametrize("kind", ["acc", "acc_8bit"])
@pytest.mark.parametrize(
    "pads", [(2, 0, 0, 0), (0, 0, 2, 0), (0, 2, 0, 0), (0, 0, 0, 2), (1, 1, 1, 1)]
)
def test_padding_equals_numpy_and_overwrites(pads: tuple[int, int, int, int], kind: str) -> None:
    expected = np.pad(np.arange(15).reshape(3, 5), (pads[:2], pads[2:]))
    pad = ",".join(map(str, pads))
    got = moved(f"{kind}[0] = B[0] y=3 x=5 stride=5 pad={pad}", expected.size, kind)
    assert got.tolist() == expected.reshape(-1).tolist()


@pytest.mark.parametrize("kind", ["acc", "acc_8bit"])
def test_a_strided_load_writes_only_its_elements(kind: str) -> None:
    got = moved(f"{kind}[1] = B[2] y=2 x=2 stride=5", 7, kind)
    assert got.tolist() == [99, 2, 3, 7, 8, 99, 99]


def test_accumulators_loaded_from_int8_have_32_bits() -> None:
    """3 * r >> 2 of all 256 numbers r: it leaves 8 bits on the way."""
    program = parse("""
        area R acc_8bit 16
        area C out 16
        uop 0 0
        ex  uop[0] = uops[0] x=1
        ex  acc_8bit[0] = R[0] x=16
        ex  mul u[0:1] outer=16 dst=1,0 imm=3
        ex  shr u[0:1] outer=16 dst=1,0 imm=2   push st
        st  C[0] = acc[0] x=16   pop ex   push ex
        ex  nop   pop st
        ex  finish
        """)
    r = np.arange(-128, 128, dtype=np.int8).reshape(16, 1, 16)
    out = execute(program, vta_pynq, {"R": r})["C"]
    assert (out == (3 * r.astype(np.int32) >> 2)).all()


def test_what_was_stored_can_be_loaded_into_the_accumulators_again() -> None:
    program = parse("""
        area B acc 2
        area M out 2
        area C out 2
        uop 0 2
        uop 1 3
        ex  uop[0] = uops[0] x=2
        ex  acc[0] = B[0] x=2   push st
        st  M[0] = acc[0] x=2   pop ex   push ex
        ex  nop   pop st
        ex  acc_8bit[2] = M[0] x=2
        ex  add u[0:2]   push st
        st  C[0] = acc[0] x=2   pop ex   push ex
        ex  nop   pop st
        ex  finish
        """)
    b = numbers(7, 2, 1, 16, low=-60, high=60, dtype="int32")
    assert (execute(program, vta_pynq, {"B": b})["C"] == 2 * b).all()


def test_a_load_of_nothing_moves_nothing() -> None:
    assert moved("acc[0] = B[0] x=0", 3).tolist() == [99, 99, 99]


def test_a_strided_store_writes_only_its_elements() -> None:
    program = parse("""
        area B acc 4
        area C out 3 3
        ex  acc[0] = B[0] x=4   push st
        st  C[0] = acc[0] y=2 x=2 stride=6   pop ex   push ex
        ex  nop   pop st
        ex  finish
        """)
    b = np.broadcast_to(np.arange(1, 5, dtype=np.int32)[:, None, None], (4, 1, 16))
    c = np.full((3, 3, 1, 16), 9, np.int8)
    out = execute(program, vta_pynq, {"B": b, "C": c})["C"][:, :, 0, 0]
    assert out.tolist() == [[1, 2, 9], [9, 9, 9], [3, 4, 9]]


def test_what_was_stored_can_be_loaded_again() -> None:
    program = parse("""
        area B acc 2
        area M out 2
        area W wgt 1
        area C out 2
        uop 0 0 0
        uop 1 1 0
        ex  uop[0] = uops[0] x=2
        ex  acc[0] = B[0] x=2   push st
        st  M[0] = acc[0] x=2   pop ex   push ex
        ex  nop   pop st   push ld
        ld  inp[0] = M[0] x=2   pop ex
        ld  wgt[0] = W[0] x=1   push ex
        ex  reset u[0:2]
        ex  gemm u[0:2]   pop ld   push st
        st  C[0] = acc[0] x=2   pop ex   push ex
        ex  nop   pop st
        ex  finish
        """)
    b = numbers(7, 2, 1, 16, low=-100, high=100, dtype="int32")
    out = execute(program, vta_pynq, {"B": b, "W": np.eye(16, dtype=np.int8)[None]})
    assert (out["C"] == b).all()
    assert (out["M"] == b).all()


# --- addresses ------------------------------------------------------------------------------------


def program_of(line: str) -> Program:
    return parse(f"""
        area A inp 4096
        area W wgt 2048
        area B acc 4096
        area C out 4096
        uop 0 0 0
        uop 2047 0 0
        uop 0 2047 0
        uop 0 0 1023
        ex  uop[0] = uops[0] x=4
        {line}
        ex  finish
        """)


@pytest.mark.parametrize(
    "line",
    [
        "ld  inp[0] = A[0] x=2048",
        "ld  inp[2047] = A[4095] x=1",
        "ld  inp[48] = A[0] y=48 x=38 stride=38 pad=1,1,1,1",
        "ld  wgt[0] = W[0] x=1024",
        "ex  acc[0] = B[0] x=2048",
        "ex  acc_8bit[0] = A[0] x=2048",
        "st  C[0] = acc[0] x=2048",
        "ex  uop[8188] = uops[0] x=4",
        "ex  reset u[1:2]",
        "ex  gemm u[0:4]",
        "ex  max u[0:1] outer=2048 src=1,0",
        "ex  max u[2:3] imm=3 src=1,1 outer=9",
    ],
)
def test_every_element_of_a_buffer_can_be_used(line: str) -> None:
    assert simulate(program_of(line)).blocked == ()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ld  inp[1] = A[0] x=2048", "INP[2048], but INP has 2048 elements"),
        ("ld  inp[49] = A[0] y=48 x=38 stride=38 pad=1,1,1,1", "INP[2048], but INP has 2048"),
        ("ld  wgt[0] = W[0] x=1025", "WGT[1024], but WGT has 1024 elements"),
        ("ex  acc[2048] = B[0] x=1", "ACC[2048]"),
        ("ex  acc_8bit[1] = A[0] x=2048", "ACC_8BIT[2048]"),
        ("st  C[0] = acc[1] x=2048", "OUT[2048]"),
        ("ex  uop[8190] = uops[0] x=4", "UOP[8193], but UOP has 8192"),
        ("ex  uop[0] = uops[1] x=4", "it loads uops up to 4, but the program has 4"),
        ("ex  reset u[1:2] outer=2 dst=1,0", "ACC[2048]"),
        ("ex  gemm u[2:3] inner=2 src=0,1", "INP[2048]"),
        ("ex  gemm u[3:4] inner=2 wgt=0,1", "WGT[1024]"),
        ("ex  max u[2:3] outer=2 src=1,0", "ACC[2048]"),
        ("ex  gemm u[3:5]", "it runs UOP[4], which no instruction has loaded"),
        ("ex  gemm u[8000:8193]", "UOP[8192]"),
        ("ld  inp[0] = A[4095] x=2", "is not inside an area\n  try: A: INP 0 to 4095; W: WGT 256"),
        ("ld  inp[0] = A[0] y=3 x=1 stride=65535", "row 1, INP elements 65535 to 65535 of DRAM"),
        ("st  DRAM[4294967295] = acc[0] x=1", "is not inside an area"),
    ],
)
def test_elements_that_do_not_exist_are_named(line: str, message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        simulate(program_of(line))
    assert "instruction 1" in str(error.value)
    assert message in str(error.value)


def test_loops_that_are_not_alike_need_memory_that_has_an_end() -> None:
    lines = [f"ex  gemm u[0:1] outer=16383 inner={n}" for n in range(200, 256)]
    head = "uop 0 0 0\nex  uop[0] = uops[0] x=1"
    few, many, same = (
        parse("\n".join([head, *some, "ex finish"]))
        for some in (lines[:4], lines, [lines[-1]] * 99)
    )
    assert len(resolve(few, vta_pynq)) == 6
    assert len(resolve(same, vta_pynq)) == 101
    with pytest.raises(
        ArgumentError, match="19905345 distinct micro-operations up to here; the limit is"
    ) as error:
        resolve(many, vta_pynq)
    assert "the limit is 16777216" in str(error.value)


def test_areas_may_not_overlap() -> None:
    program = parse("area A inp 4 at 0\narea B acc 1 at 0\nex finish")
    with pytest.raises(ArgumentError, match="they overlap in bytes 0 to 63 of DRAM"):
        simulate(program)


def test_dram_has_an_end() -> None:
    with pytest.raises(ArgumentError, match="it ends at byte 17179869184 of DRAM"):
        simulate(parse("area A inp 1073741824\nex finish"))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'A': no array is given"),
        ({"A": np.zeros((2, 16), np.int8)}, "expected int8 (2, 1, 16)"),
        ({"A": np.zeros((2, 1, 16))}, "not float64 (2, 1, 16)"),
        (
            {"A": np.zeros((2, 1, 16), np.int8), "X": 0},
            "the program has no area of that name\n  try: A",
        ),
    ],
)
def test_inputs_fit_their_areas(inputs: dict, message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        simulate(parse("area A inp 2\nex finish"), vta_pynq, inputs)
    assert message in str(error.value)


def test_inputs_stay_as_they_are() -> None:
    program = parse("""
        area C out 2
        uop 0 0
        ex  uop[0] = uops[0] x=1
        ex  reset u[0:1] inner=2 dst=0,1   push st
        st  C[0] = acc[0] x=2   pop ex   push ex
        ex  nop   pop st
        ex  finish""")
    c = np.ones((2, 1, 16), np.int8)
    assert (execute(program, vta_pynq, {"C": c})["C"] == 0).all()
    assert (c == 1).all()


# --- orders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_talks_stream_computes_the_same_in_every_order(talk: Fixture, threads: int) -> None:
    program = talk(4, threads, store=True)
    a, w = numbers(1, 4, threads, 1, 16), numbers(2, 1, 16, 16)
    expected = (a.astype(np.int32).sum(0) @ w[0].T.astype(np.int32) >> 8).astype(np.int8)
    for order in (None, *map(np.random.default_rng, range(8))):
        run = simulate(program, vta_pynq, {"A": a, "B": w}, order=order)
        assert (run.outputs["C"] == expected).all()


@pytest.mark.parametrize(
    "shape",
    [
        (6, 6, 32, 64, 3, 1, 1, 3, 2),
        (7, 7, 32, 64, 3, 2, 1, 2, 1),
        (5, 6, 32, 32, 1, 1, 0, 5, 2),
        (8, 8, 16, 48, 3, 2, 1, 4, 3),
    ],
)
def test_a_convolution_computes_the_same_in_every_order(conv, shape: tuple[int, ...]) -> None:
    layer = conv(*shape)
    program, inputs = layer.program(), layer.inputs(np.random.default_rng(0))
    expected = layer.reference(inputs["D"], inputs["W"])
    for order in (None, *map(np.random.default_rng, range(4))):
        assert (execute(program, vta_pynq, inputs, order)["O"] == expected).all()


def test_orders_differ_where_tokens_permit(talk: Fixture) -> None:
    program = talk(4, 2)
    drawn = {in_order(program, np.random.default_rng(seed)) for seed in range(20)}
    assert len(drawn) > 10
    assert all(sorted(order) == list(range(len(program.instructions))) for order in drawn)


def test_the_order_of_the_program_is_kept_where_tokens_permit(talk: Fixture) -> None:
    assert in_order(talk(3, 2)) == tuple(range(len(talk(3, 2).instructions)))
    late = parse("ld nop pop ex\nex nop push ld\nex finish")
    assert in_order(late) == (1, 0, 2)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 1, 2], "order[0]=0: it cannot run at this point; ready: instruction 1 (nop)"),
        ([1, 1, 0, 2], "order[1]=1: it cannot run at this point"),
        ([1, 0], "order of 2 instructions: instruction 2 (finish) is missing"),
        ([1, 0, 2, 3], "order[3]=3: it cannot run at this point; ready: none"),
    ],
)
def test_an_order_that_tokens_forbid_is_refused(order: list[int], message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        execute(parse("ld nop pop ex\nex nop push ld\nex finish"), vta_pynq, {}, order)
    assert message in str(error.value)


def test_the_host_sees_what_dram_holds_at_finish() -> None:
    program = parse("""
        area B acc 1
        area C out 1
        ex  acc[0] = B[0] x=1   push st
        st  C[0] = acc[0] x=1   pop ex
        ex  finish""")
    b = {"B": np.full((1, 1, 16), 5, np.int32)}
    assert (execute(program, vta_pynq, b, [0, 1, 2])["C"] == 5).all()
    assert (execute(program, vta_pynq, b, [0, 2, 1])["C"] == 0).all()
