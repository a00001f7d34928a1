"""The cycles of ex13.4 were recorded; the simulator still counts the same."""

import json
from pathlib import Path

import pytest

from minitvm import autotvm, tune, vta

RECORDED = json.loads((Path(__file__).parents[2] / "exercises/checks/ex13_cycles.json").read_text())


@pytest.mark.parametrize("layer", ["C8", "C11"])
def test_recorded_cycles_are_those_of_the_simulator(layer: str) -> None:
    table, task = RECORDED[layer], autotvm.packed.task(vta.RESNET18[layer])
    measurer = tune.SimulatedVta(task.default(), check=False)
    assert measurer.reference_cost == table["hand"]
    fastest = min(table["cycles"], key=lambda row: row[-1])
    for *row, cycles in (fastest, table["cycles"][0], table["cycles"][-1]):
        program = tune.CandidateProgram(task, task.derived.candidate(row))
        (result,) = measurer.measure([program])
        assert result.best == cycles
    assert len(table["cycles"]) == len(task.config_space)
