"""The benchmark of ResNet-18 writes what its rows promise."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "vta_resnet.py"


def test_the_benchmark_writes_cycles_utilisation_and_roofs(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    flags = ["C11", "--quick", "--config", "vdla_osdi18", "--json", str(file), "--threads", "1"]
    command = [sys.executable, str(BENCHMARK), *flags]
    table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "instructions/s" in table
    made = json.loads(file.read_text())
    one, two = made["rows"]
    assert (one["case"], one["config"]) == ("C11", "vdla_osdi18")
    assert (one["vthreads"], two["vthreads"]) == (1, 2)
    assert one["cycles"] > two["cycles"]
    assert one["utilisation"] < two["utilisation"] <= min(two["roof_dram"], two["roof_compute"])
    assert {s["vthreads"] for s in made["summaries"]} == {1, 2}
    assert made["simulator"]["timed"] > made["simulator"]["computed"] > 0


def test_unknown_layers_are_refused() -> None:
    command = [sys.executable, str(BENCHMARK), "C13"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no layer is called C13" in done.stderr
