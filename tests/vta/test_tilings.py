"""The search for tilings: closed forms are exact, and its cycles are those of what is built."""

from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import driver, vta
from minitvm.accel import Config, Gemm, Load, Memory, Store, Unit, durations, simulate
from minitvm.vta import Best, Convolution, Dense, Layer, Tiling

from .layer_arrays import computed, expected, numbers

MACHINES = (vta.vta_pynq, vta.vdla_osdi18)
SMALL = Convolution(size=(14, 14), channels=(64, 64))
POINT = Convolution(size=(14, 14), channels=(16, 64), kernel=1, pad=0)  # sums of one product each
DENSE = Dense(batch=6, channels=(96, 128))


def uop_cycles(program: vta.Program, config: Config) -> int:
    """What loads of micro-operations take: the one part that closed forms leave out."""
    times = zip(program.instructions, durations(program, config), strict=True)
    return sum(cycles for i, cycles in times if isinstance(i, Load) and i.memory is Memory.UOP)


def spread(tilings: list[Tiling], n: int) -> list[Tiling]:
    return tilings[:: max(1, len(tilings) // n)]


# --- closed forms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "layer",
    [
        SMALL,
        Convolution(size=(7, 9), channels=(32, 48), stride=2),
        Convolution(size=(8, 8), channels=(48, 32), kernel=1, pad=0, bias=True, residual=True),
        Convolution(size=(8, 8), channels=(32, 32), residual=True, residual_dtype="int8"),
        Convolution(size=(8, 8), channels=(32, 32), bias=True, residual=True, residual_shift=3),
        Convolution(size=(4, 6), channels=(16, 32), kernel=1, pad=0),
        DENSE,
        Dense(channels=(128, 192), bias=True),
        Dense(batch=9, channels=(48, 32), residual=True, residual_dtype="int8"),
        Dense(batch=4, channels=(16, 64)),
    ],
    ids=str,
)
def test_closed_forms_are_what_the_units_are_busy_for(layer: Layer, threads: int) -> None:
    for tiling in spread(vta.legal_tilings(layer, threads=threads), 6):
        program, known = vta.program(layer, tiling), vta.cost(layer, tiling)
        run = simulate(program)
        assert run.busy[Unit.LOAD] == known.load
        assert run.busy[Unit.COMPUTE] == known.compute + uop_cycles(program, vta.vta_pynq)
        assert run.busy[Unit.STORE] == known.store


def test_closed_forms_are_those_of_any_machine() -> None:
    """A batch of 20 is 3 elements of 8 rows each, 40 channels are 5 of 8 columns."""
    layer, config = Dense(batch=20, channels=(40, 72), bias=True), vta.vdla8x8
    for tiling in vta.legal_tilings(layer, config):
        program, known = vta.program(layer, tiling, config), vta.cost(layer, tiling, config)
        busy = simulate(program, config).busy
        assert busy[Unit.LOAD] == known.load
        assert busy[Unit.COMPUTE] == known.compute + uop_cycles(program, config)
        assert busy[Unit.STORE] == known.store


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("layer", [SMALL, POINT, DENSE], ids=["convolution", "point", "dense"])
def test_no_tiling_is_faster_than_its_bound(layer: Layer, threads: int) -> None:
    for tiling in spread(vta.legal_tilings(layer, threads=threads), 10):
        run = simulate(vta.program(layer, tiling))
        assert run.cycles >= vta.cost(layer, tiling).bound


def test_sums_of_one_product_take_one_instruction_per_tile() -> None:
    tiling = Tiling(h=7, w=14, oc=2, oc_threads=2)  # 4 tiles, of 2 threads
    gemms = [i for i in vta.program(POINT, tiling).instructions if isinstance(i, Gemm)]
    assert [i.reset for i in gemms] == [True, True, False, False] * 2


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_listed_fits_and_what_is_not_does_not(threads: int) -> None:
    """Tiles of whole rows: by the list, and by trying."""
    layer, config = vta.RESNET18["C9"], vta.vdla_osdi18
    listed = vta.legal_tilings(layer, config, threads)
    assert len(listed) == len(set(listed))
    for oc in (1, 2, 4, 8):
        for ic in (1, 2, 4, 8):
            tiling = Tiling(h=7, w=14, oc=oc, ic=ic, oc_threads=threads)
            try:
                vta.program(layer, tiling, config)
                fits = True
            except tvm.LoweringError:
                fits = False
            assert fits == (tiling in listed), tiling


def test_of_dense_layers_too() -> None:
    """On a machine with 256 elements of INP and ACC and 128 of WGT."""
    config = replace(vta.vdla_osdi18, inp_bytes=4 << 10, acc_bytes=16 << 10)
    layer = Dense(batch=16, channels=(256, 512))
    listed = vta.legal_tilings(layer, config, 2)
    full: set[str] = set()
    for w, oc, ic in product((4, 16), (1, 8, 16), (1, 8, 16)):
        tiling = Tiling(w=w, oc=oc, ic=ic, oc_threads=2)
        try:
            vta.program(layer, tiling, config)
            fits = True
        except tvm.LoweringError as error:
            full |= {memory for memory in ("INP", "WGT", "ACC") if memory in str(error)}
            fits = False
        assert fits == (tiling in listed), tiling
    assert full == {"INP", "WGT", "ACC"}


def test_the_tiles_of_a_dense_layer_have_one_row() -> None:
    tilings = vta.legal_tilings(DENSE, threads=2)
    assert {(t.h, t.h_threads) for t in tilings} == {(1, 1)}
    assert {t.w for t in tilings} == {1, 2, 3, 6}


@pytest.mark.parametrize(
    "layer",
    [
        Convolution(size=(6, 6), channels=(16, 32), kernel=1, pad=1),
        Convolution(size=(6, 5), channels=(16, 16), kernel=3, pad=3),
        Convolution(size=(5, 5), channels=(16, 16), kernel=1, pad=2, stride=2),
    ],
    ids=str,
)
def test_tiles_may_be_padding_as_a_whole(layer: Convolution) -> None:
    arrays = numbers(layer)
    right = expected(layer, arrays)
    tilings = vta.legal_tilings(layer)
    assert Tiling(w=layer.out[1], oc=1) in tilings
    for tiling in [*spread(tilings, 8), Tiling(w=layer.out[1], oc=1)]:
        np.testing.assert_array_equal(computed(layer, tiling, arrays), right)
        busy = simulate(vta.program(layer, tiling)).busy
        assert busy[Unit.LOAD] == vta.cost(layer, tiling).load


def test_tiles_with_more_padding_than_a_transfer_adds_do_not_fit() -> None:
    """20 rows of zeros above: a tile of 4 rows is zeros as a whole, one of 24 has 20 before it."""
    layer = Convolution(size=(8, 8), channels=(16, 16), kernel=1, pad=20)
    heights = {tiling.h for tiling in vta.legal_tilings(layer)}
    assert 4 in heights
    assert 24 not in heights
    with pytest.raises(tvm.BuildError, match="20 rows or columns of zeros on one side"):
        vta.program(layer, Tiling(h=24, w=4))


BIG = Config(name="big", acc_bytes=1 << 24, inp_bytes=1 << 22, wgt_bytes=1 << 22, uop_bytes=1 << 20)


def test_on_a_machine_of_large_memories_there_are_instructions_for_all_that_fits() -> None:
    layer = Convolution(size=(56, 56), channels=(64, 512), kernel=1, pad=0)
    tilings = vta.legal_tilings(layer, BIG)
    largest = sorted(tilings, key=lambda t: t.oc * t.h * t.w)[-4:]
    assert largest[-1].oc * largest[-1].h * largest[-1].w > 1 << 15
    for tiling in largest:
        program = vta.program(layer, tiling, BIG)
        assert simulate(program, BIG).busy[Unit.LOAD] == vta.cost(layer, tiling, BIG).load


def test_what_has_no_address_does_not_fit() -> None:
    """56 x 56 x 32 accumulators are there, but the last ones have addresses of 17 bits."""
    layer = Convolution(size=(56, 56), channels=(64, 512), kernel=1, pad=0)
    tiling = Tiling(h=56, w=56, oc=32)
    assert tiling not in vta.legal_tilings(layer, BIG)
    with pytest.raises(tvm.LoweringError, match="big has 65536 that can be"):
        vta.program(layer, tiling, BIG)


# --- the model of time ----------------------------------------------------------------------------


def test_with_one_thread_the_time_is_the_sum_of_what_the_units_do() -> None:
    config = replace(vta.vta_pynq, token_latency=0)
    for tiling in spread(vta.legal_tilings(SMALL), 12):
        run = simulate(vta.program(SMALL, tiling), config)
        assert run.cycles == sum(run.busy.values())


def test_tokens_inserted_after_interleaving_are_safe_and_let_nothing_overlap() -> None:
    passes = [p for p in driver.TARGETS["vta"].passes if p.__name__ != "inject_coproc_sync"]
    sync = next(p for p in driver.TARGETS["vta"].passes if p.__name__ == "inject_coproc_sync")
    threads = [p.__name__ for p in passes].index("inject_virtual_thread")
    passes.insert(threads + 1, sync)
    s, args = SMALL.scheduled(Tiling(h=7, w=14, oc=2, ic=1, oc_threads=2))
    wrong = vta.build(vta.lower(s, args, passes=tuple(passes)))
    right = vta.build(s, args)
    assert vta.verify(wrong).ok
    serial = wrong.run(replace(vta.vta_pynq, token_latency=0))
    assert serial.cycles == sum(serial.busy.values())
    assert right.run().cycles < serial.cycles


# --- the search -----------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layer", [SMALL, DENSE], ids=["convolution", "dense"])
def test_the_cycles_of_the_best_are_those_of_what_is_built(layer: Layer, threads: int) -> None:
    best = vta.best_tiling(layer, threads=threads)
    assert vta.build(*layer.scheduled(best.tiling)).run().cycles == best.cycles


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "layer",
    [Convolution(size=(2, 4), channels=(32, 64)), Dense(batch=4, channels=(64, 64))],
    ids=["convolution", "dense"],
)
def test_the_best_is_the_best_of_all(layer: Layer, threads: int) -> None:
    tilings = vta.legal_tilings(layer, threads=threads)
    cycles = [simulate(vta.program(layer, tiling)).cycles for tiling in tilings]
    best = vta.best_tiling(layer, threads=threads)
    assert (best.cycles, best.proven, best.legal) == (min(cycles), True, len(tilings))


def test_no_more_are_simulated_than_asked_for() -> None:
    best = vta.best_tiling(vta.RESNET18["C3"], threads=2, most=2)
    assert (best.tried, best.proven) == (2, False)


def test_no_tiling_at_all_is_said() -> None:
    layer = Convolution(size=(1, 1), channels=(16, 16), kernel=1, pad=0)
    with pytest.raises(tvm.ScheduleError, match="no tiling fits"):
        vta.best_tiling(layer)


@pytest.mark.parametrize("most", [0, -1, "3"])
def test_numbers_of_simulations_that_are_no_counts_are_refused(most: object) -> None:
    with pytest.raises(tvm.ArgumentError, match="most="):
        vta.best_tiling(SMALL, most=most)  # type: ignore[arg-type]


# --- ResNet-18 ------------------------------------------------------------------------------------


@cache
def best(name: str, config: Config, threads: int) -> Best:
    """The best of three tilings; the benchmark searches to the end."""
    return vta.best_tiling(vta.RESNET18[name], config, threads, most=3)


def found(name: str, config: Config, threads: int) -> int:
    return best(name, config, threads).cycles


@pytest.mark.parametrize("config", MACHINES, ids=lambda c: c.name)
@pytest.mark.parametrize("name", vta.RESNET18)
def test_hiding_latency_improves_every_layer_and_none_exceeds_its_roofs(
    name: str, config: Config
) -> None:
    layer = vta.RESNET18[name]
    one, two = (vta.utilisation(layer, found(name, config, n), config) for n in (1, 2))
    assert one < two <= vta.roofs(layer, best(name, config, 2).tiling, config).lower


@pytest.mark.parametrize("config", MACHINES, ids=lambda c: c.name)
def test_the_network_gains_what_published_measurements_lead_to_expect(config: Config) -> None:
    """The best layer 0.70 -> 0.88 (Chen et al. 2018, section 6.4); the network by a model of it."""
    peak: list[float] = []
    network: list[float] = []
    for threads in (1, 2):
        cycles = {name: found(name, config, threads) for name in vta.RESNET18}
        peak.append(max(vta.utilisation(vta.RESNET18[n], c, config) for n, c in cycles.items()))
        work = sum(vta.TIMES[n] * layer.macs for n, layer in vta.RESNET18.items())
        total = sum(vta.TIMES[n] * c for n, c in cycles.items())
        network.append(work / config.macs_per_cycle / total)
    assert 0.65 <= peak[0] <= 0.85
    assert peak[1] >= 0.88
    assert 0.64 <= network[0] <= 0.74
    assert 0.84 <= network[1] <= 0.93


def moving(layer: Layer, tiling: Tiling, config: Config = vta.vta_pynq) -> dict[str, int]:
    """The cycles that transfers of data take in the program."""
    made = vta.program(layer, tiling, config)
    cycles = {"read": 0, "store": 0}
    for instruction, n in zip(made.instructions, durations(made, config), strict=True):
        if isinstance(instruction, Load) and instruction.memory is not Memory.UOP:
            cycles["read"] += n
        elif isinstance(instruction, Store):
            cycles["store"] += n
    return cycles


@pytest.mark.parametrize(
    ("layer", "tiling"),
    [
        (vta.RESNET18["C5"], Tiling(h=7, w=28, oc=8, ic=2)),
        (vta.RESNET18["C9"], Tiling(h=7, w=14, oc=4, ic=1, oc_threads=2)),
        (Dense(channels=(512, 1024)), Tiling(oc=8, ic=4, oc_threads=2)),
        (replace(SMALL, bias=True, residual=True), Tiling(h=2, w=2)),
    ],
)
def test_the_roof_of_the_bandwidth_counts_the_transfers_that_are_made(
    layer: Layer, tiling: Tiling
) -> None:
    roofs, cycles = vta.roofs(layer, tiling), moving(layer, tiling)
    peak = layer.macs / 256
    assert roofs.dram == pytest.approx(peak / max(cycles["read"], cycles["store"]))
    assert cycles["read"] == vta.cost(layer, tiling).read


def test_a_layer_that_reads_much_and_computes_little_is_limited_by_its_transfers() -> None:
    """C5 skips every second pixel, and its transfers do not; one row uses each weight once."""
    assert vta.roofs(vta.RESNET18["C5"], Tiling(h=7, w=28, oc=8, ic=2)).dram < 0.9
    row = vta.roofs(Dense(channels=(512, 1024)), Tiling(oc=8, ic=4))
    assert row.lower == row.dram < 8 / 256


def test_the_roof_of_the_compute_unit_counts_resets_and_the_alu() -> None:
    """C5 with 4 products for each accumulator: 1 reset and 3 ALU operations of 2 cycles besides."""
    roof = vta.roofs(vta.RESNET18["C5"], Tiling(h=7, w=28, oc=8, ic=2)).compute
    assert 0.98 * 4 / 11 < roof < 4 / 11


def test_no_dense_layer_exceeds_its_roofs() -> None:
    layer = Dense(batch=64, channels=(512, 1024))
    best = vta.best_tiling(layer, threads=2, most=3)
    used = vta.utilisation(layer, best.cycles)
    assert 0.5 < used <= vta.roofs(layer, best.tiling).lower


def test_utilisation_is_that_of_the_simulator() -> None:
    layer, tiling = vta.RESNET18["C12"], Tiling(h=7, w=7, oc=16, ic=1, oc_threads=2)
    run = simulate(vta.program(layer, tiling))
    assert vta.utilisation(layer, run.cycles) == pytest.approx(run.utilisation)


# --- what is refused ------------------------------------------------------------------------------


def test_a_kernel_that_does_not_fit_is_refused() -> None:
    with pytest.raises(tvm.ArgumentError, match="a kernel that fits"):
        Convolution(size=(2, 2), channels=(16, 16), kernel=5, pad=0)


def test_sizes_are_pairs() -> None:
    with pytest.raises(tvm.ArgumentError, match="size and channels must be pairs"):
        Convolution(size=14, channels=(16, 16))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"channels": 16}, "channels must be a pair"),
        ({"batch": 0}, "expected ints from 1 to"),
        ({"channels": (16, 0)}, "expected ints from 1 to"),
        ({"residual_dtype": "int16"}, "loaded from int8 or int32"),
    ],
)
def test_what_is_no_dense_layer_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(tvm.ArgumentError, match=says):
        replace(DENSE, **wrong)


@pytest.mark.parametrize(
    ("layer", "config", "what"),
    [("C2", vta.vta_pynq, "not a Layer"), (SMALL, "vta_pynq", "not a Config")],
)
def test_what_is_no_layer_or_no_machine_is_refused(layer: Any, config: Any, what: str) -> None:
    with pytest.raises(tvm.ArgumentError, match=what):
        vta.best_tiling(layer, config)
