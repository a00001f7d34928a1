"""The search for tilings: closed forms are exact, and its cycles are those of what is built."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import minitvm as tvm
from minitvm import lowering, vta
from minitvm.accel import Config, Load, Memory, Unit, durations, simulate
from minitvm.vta import Convolution, Tiling

MACHINES = (vta.vta_pynq, vta.vdla_osdi18)
SMALL = Convolution(size=(14, 14), channels=(64, 64))


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
    ],
    ids=str,
)
def test_closed_forms_are_what_the_units_are_busy_for(layer: Convolution, threads: int) -> None:
    for tiling in spread(vta.legal_tilings(layer, threads=threads), 6):
        program, known = vta.program(layer, tiling), vta.cost(layer, tiling)
        run = simulate(program)
        assert run.busy[Unit.LOAD] == known.load
        assert run.busy[Unit.COMPUTE] == known.compute + uop_cycles(program, vta.vta_pynq)
        assert run.busy[Unit.STORE] == known.store


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_no_tiling_is_faster_than_its_bound(threads: int) -> None:
    for tiling in spread(vta.legal_tilings(SMALL, threads=threads), 10):
        run = simulate(vta.program(SMALL, tiling))
        assert run.cycles >= vta.cost(SMALL, tiling).bound


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


# --- the model of time ----------------------------------------------------------------------------


def test_with_one_thread_the_time_is_the_sum_of_what_the_units_do() -> None:
    config = replace(vta.vta_pynq, token_latency=0)
    for tiling in spread(vta.legal_tilings(SMALL), 12):
        run = simulate(vta.program(SMALL, tiling), config)
        assert run.cycles == sum(run.busy.values())


def test_tokens_inserted_after_interleaving_are_safe_and_let_nothing_overlap() -> None:
    passes = [p for p in lowering.PASSES["vta"] if p.__name__ != "inject_coproc_sync"]
    sync = next(p for p in lowering.PASSES["vta"] if p.__name__ == "inject_coproc_sync")
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
def test_the_cycles_of_the_best_are_those_of_what_is_built(threads: int) -> None:
    best = vta.best_tiling(SMALL, threads=threads)
    assert vta.build(*SMALL.scheduled(best.tiling)).run().cycles == best.cycles


@pytest.mark.parametrize("threads", [1, 2])
def test_the_best_is_the_best_of_all(threads: int) -> None:
    layer = Convolution(size=(4, 4), channels=(32, 64))
    tilings = vta.legal_tilings(layer, threads=threads)
    cycles = [simulate(vta.program(layer, tiling)).cycles for tiling in tilings]
    best = vta.best_tiling(layer, threads=threads)
    assert (best.cycles, best.proven, best.legal) == (min(cycles), True, len(tilings))


def test_no_more_are_simulated_than_asked_for() -> None:
    best = vta.best_tiling(vta.RESNET18["C3"], threads=2, most=2)
    assert (best.tried, best.proven) == (2, False)


def test_no_tiling_at_all_is_said() -> None:
    layer = Convolution(size=(1, 1), channels=(16, 16), kernel=1, pad=0)
    with pytest.raises(tvm.ScheduleError, match="no tiling in whole tiles fits"):
        vta.best_tiling(layer)


@pytest.mark.parametrize("most", [0, -1, "3"])
def test_numbers_of_simulations_that_are_no_counts_are_refused(most: object) -> None:
    with pytest.raises(tvm.ArgumentError, match="most="):
        vta.best_tiling(SMALL, most=most)  # type: ignore[arg-type]


# --- ResNet-18 ------------------------------------------------------------------------------------


@cache
def found(name: str, config: Config, threads: int) -> int:
    """The cycles of the best of three tilings; the benchmark searches to the end."""
    return vta.best_tiling(vta.RESNET18[name], config, threads, most=3).cycles


@pytest.mark.parametrize("config", MACHINES, ids=lambda c: c.name)
@pytest.mark.parametrize("name", vta.RESNET18)
def test_hiding_latency_improves_every_layer_and_none_exceeds_its_roofs(
    name: str, config: Config
) -> None:
    layer = vta.RESNET18[name]
    one, two = (vta.utilisation(layer, found(name, config, n), config) for n in (1, 2))
    assert one < two <= vta.roofs(layer, config).lower


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


def test_the_roofs_of_a_layer_are_those_of_its_sizes() -> None:
    """C5: 28 x 28 pixels of 64 channels are read, 128 channels written; 4 products, 7 others."""
    roofs = vta.roofs(vta.RESNET18["C5"])
    assert roofs.compute == pytest.approx(4 / 11)
    slow = replace(vta.vta_pynq, port_bytes=2)
    cycles = 28 * 28 * 64 * 128 / 256
    assert vta.roofs(vta.RESNET18["C5"], slow).dram == pytest.approx(cycles / (28 * 28 * 128 / 2))


def test_utilisation_is_that_of_the_simulator() -> None:
    layer, tiling = vta.RESNET18["C12"], Tiling(h=7, w=7, oc=16, ic=1, oc_threads=2)
    run = simulate(vta.program(layer, tiling))
    assert vta.utilisation(layer, run.cycles) == pytest.approx(run.utilisation)


# --- what is refused ------------------------------------------------------------------------------


def test_a_kernel_that_does_not_fit_is_refused() -> None:
    with pytest.raises(tvm.ArgumentError, match="its kernel fits"):
        Convolution(size=(2, 2), channels=(16, 16), kernel=5, pad=0)


def test_sizes_are_pairs() -> None:
    with pytest.raises(tvm.ArgumentError, match="size and channels are pairs"):
        Convolution(size=14, channels=(16, 16))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layer", "config", "what"),
    [("C2", vta.vta_pynq, "no Convolution"), (SMALL, "vta_pynq", "no Config")],
)
def test_what_is_no_layer_or_no_machine_is_refused(layer: Any, config: Any, what: str) -> None:
    with pytest.raises(tvm.ArgumentError, match=what):
        vta.best_tiling(layer, config)
