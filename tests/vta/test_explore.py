"""Search for accelerators: exact cycles, an honest front, and a file that continues a search."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from minitvm import vta
from minitvm.base import ArgumentError, ScheduleError
from minitvm.vta import Convolution, Dense, Layer

LAYERS: dict[str, Layer] = {
    "conv": Convolution(size=(8, 8), channels=(32, 64)),
    "point": Convolution(size=(8, 8), channels=(64, 64), kernel=1, pad=0),
    "fc": Dense(channels=(64, 48)),
}
TIMES = {"conv": 2, "point": 1, "fc": 1}
SPACE = {"block_in": (8, 16, 32), "block_out": (8, 16), "wgt_bytes": (1 << 13, 1 << 15, 3000)}


def explored(**options: object) -> vta.Exploration:
    given = {"times": TIMES, "space": SPACE, "budget": 12, "most": 2, **options}
    return vta.explore(LAYERS, **given)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole() -> vta.Exploration:
    return explored()


# --- one design ----------------------------------------------------------------------------------


def test_area_is_that_of_bytes_and_multipliers() -> None:
    byte, multiplier = 8 * 0.346 / 0.5, 282 + 137
    sram = (32 + 256 + 128 + 32) << 10
    assert vta.area(vta.vta_pynq) == pytest.approx((sram * byte + 256 * multiplier) / 1e6)
    assert vta.area(replace(vta.vta_pynq, block_out=32)) - vta.area(vta.vta_pynq) == pytest.approx(
        256 * multiplier / 1e6
    )


def test_cycles_are_those_of_the_programs_that_are_built() -> None:
    for config in (vta.vta_pynq, replace(vta.vdla_osdi18, block_in=32)):
        point = vta.evaluate(LAYERS, config, TIMES)
        simulated = {
            x.name: vta.simulate(vta.program(LAYERS[x.name], x.best.tiling, config), config).cycles
            for x in point.layers
        }
        assert {x.name: x.best.cycles for x in point.layers} == simulated
        assert point.cycles == sum(TIMES[name] * n for name, n in simulated.items())


def test_one_thread_is_chosen_where_it_is_faster_or_alone_fits() -> None:
    one_block = {"fc": Dense(channels=(64, 48))}  # 3 blocks of outputs: 2 threads cannot share them
    (fc,) = vta.evaluate(one_block).layers
    assert fc.best.tiling.threads == 1


@pytest.mark.parametrize(
    ("layer", "config", "limit"),
    [
        (Convolution(size=(14, 14), channels=(64, 64)), vta.vta_pynq, "GEMM"),
        (Convolution(size=(14, 14), channels=(32, 64), kernel=1, pad=0), vta.vta_pynq, "ALU"),
        (Dense(channels=(256, 256)), vta.vta_pynq, "WGT"),
        (
            Convolution(size=(28, 28), channels=(64, 64), kernel=3, stride=2),
            replace(vta.vta_pynq, block_in=64, block_out=64, inp_bytes=1 << 17),
            "INP",
        ),
        (
            Convolution(size=(14, 14), channels=(16, 128), kernel=1, pad=0),
            replace(vta.vta_pynq, alu_ii_imm=1, port_bytes=1, block_out=64),
            "OUT",
        ),
    ],
)
def test_what_limits_a_layer(layer: Layer, config: vta.Config, limit: str) -> None:
    (x,) = vta.evaluate({"layer": layer}, config).layers
    assert x.limit == limit
    assert x.utilisation <= x.roofs.lower
    assert (x.roofs.compute <= x.roofs.dram) == (limit in ("GEMM", "ALU"))


def test_a_design_explains_its_cycles() -> None:
    assert vta.evaluate(LAYERS, vta.vta_pynq, TIMES).explain().split("\n") == [
        "vta_pynq: 2.65 mm2, 21,677 cycles",
        "compute-bound for 75% of the cycles (conv)",
        "bound by resets and the ALU for 21% of the cycles (point)",
        "load-bound by WGT for 4% of the cycles (fc)",
        "tiles fill ACC most (conv point)",
        "tiles fill WGT most (fc)",
    ]


def test_a_layer_that_does_not_fit_is_named() -> None:
    tiny = replace(vta.vta_pynq, name="tiny", wgt_bytes=1 << 10)
    with pytest.raises(ScheduleError, match="conv on tiny: no tiling fits into the memories"):
        vta.evaluate(LAYERS, tiny)


# --- the search ----------------------------------------------------------------------------------


def test_the_front_is_what_is_not_dominated(whole: vta.Exploration) -> None:
    pairs = [(p.area, p.cycles) for p in whole.points]
    front = {
        (area, cycles)
        for area, cycles in pairs
        if not any(a <= area and c <= cycles and (a, c) != (area, cycles) for a, c in pairs)
    }
    assert {(p.area, p.cycles) for p in whole.front} == front
    for p in whole.points:
        assert bool(whole.dominating(p)) == ((p.area, p.cycles) not in front)


def test_the_fastest_design_within_an_area(whole: vta.Exploration) -> None:
    small, *_, large = whole.front
    assert whole.best(small.area) == small
    assert whole.best(100.0) == large
    with pytest.raises(ArgumentError, match="the smallest design has"):
        whole.best(0.001)


def test_marked_designs_come_first_and_get_a_verdict(whole: vta.Exploration) -> None:
    assert [p.config.name for p in whole.points[:2]] == ["vdla_osdi18", "vta_pynq"]
    assert whole.verdict("vta_pynq").startswith("vta_pynq is dominated: ")
    assert f"* {whole.verdict('vta_pynq')}" in whole.table()


def test_impossible_configurations_are_refused_with_the_reason(whole: vta.Exploration) -> None:
    reasons = [r.reason for r in whole.refused if dict(r.changes).get("wgt_bytes") == 3000]
    assert reasons
    assert all(reason.endswith("which is not a power of two") for reason in reasons)
    assert len(whole.points) + len(whole.refused) == 12


def test_an_exhausted_space_ends_the_search() -> None:
    found = explored(space={"block_in": (16, 32)}, budget=10)
    assert len(found.points) == 4  # vdla_osdi18, vta_pynq, and each with block_in=32


def test_the_seed_decides(whole: vta.Exploration) -> None:
    again, other = explored(), explored(seed=1)
    assert again == whole
    assert other.points != whole.points


def test_processes_do_not_change_the_result(whole: vta.Exploration) -> None:
    assert explored(processes=2) == whole


# --- the log -------------------------------------------------------------------------------------


def stop_after(n: int) -> object:
    lines: list[str] = []

    def progress(line: str) -> None:
        lines.append(line)
        if len(lines) == n:
            raise KeyboardInterrupt

    return progress


def test_a_search_that_was_killed_continues(tmp_path: Path, whole: vta.Exploration) -> None:
    log = tmp_path / "designs.jsonl"
    with pytest.raises(KeyboardInterrupt):
        explored(log=log, progress=stop_after(5))
    with log.open("a") as file:
        file.write('{"changes": {"block_')  # killed while it wrote a line
    lines: list[str] = []
    assert explored(log=log, progress=lines.append) == whole
    assert len(lines) == 12 - 5
    assert lines[-1].startswith("12 of 12: ")
    assert len(log.read_text().splitlines()) == 1 + 12


def test_a_complete_log_needs_no_simulation(
    tmp_path: Path, whole: vta.Exploration, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "designs.jsonl"
    explored(log=log)
    monkeypatch.setattr("minitvm.vta.exploring.answer", None)
    assert explored(log=log) == whole


def test_an_abridged_log_gives_the_same_front(tmp_path: Path, whole: vta.Exploration) -> None:
    log = tmp_path / "designs.jsonl"
    explored(log=log)
    on_front = {p.cycles for p in whole.front}
    header, *lines = map(json.loads, log.read_text().splitlines())
    for line in lines:
        if line.get("cycles") not in on_front:
            line.pop("layers", None)
    log.write_text("".join(json.dumps(line) + "\n" for line in (header, *lines)))
    found = explored(log=log)
    assert found.front == whole.front
    assert [p.cycles for p in found.points] == [p.cycles for p in whole.points]


def test_a_log_of_another_search_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "designs.jsonl"
    explored(log=log, budget=1)
    with pytest.raises(ArgumentError, match="for other layers, times, base or most"):
        explored(log=log, most=3)
    log.write_text("not JSON\n")
    with pytest.raises(ArgumentError, match="damaged"):
        explored(log=log)
    with pytest.raises(ArgumentError, match="Is a directory"):
        explored(log=tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"times": {"conv": -1}},
        {"times": {"other": 1}},
        {"space": {"name": (1,)}},
        {"space": {"block_in": ()}},
        {"space": {"block_in": ("8",)}},
        {"space": {}},
        {"budget": 0},
        {"processes": 0},
        {"base": 5},
    ],
)
def test_nonsense_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        explored(**options)
