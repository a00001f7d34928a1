"""The benchmarks run, and write what DESIGN promises; how fast is not a matter for tests."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(name: str, *flags: str) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / name), *flags]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_gemm_writes_rates_beside_its_peers(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    table = run("gemm.py", "64x32x48", "--quick", "--json", str(file))
    assert "ours/numpy" in table
    (row,) = json.loads(file.read_text())["rows"]
    assert (row["case"], row["threads"], row["unit"]) == ("64x32x48", 1, "GFLOP/s")
    assert set(row["peers"]) >= {"numpy", "fma_peak"}
    assert 0 < row["ours"] <= row["peers"]["fma_peak"]


def test_tune_conv_writes_rates_beside_the_default(tmp_path: Path) -> None:
    file, log = tmp_path / "rows.json", tmp_path / "log.jsonl"
    flags = ("--quick", "--json", str(file), "--log", str(log))
    assert "ours/default" in run("tune_conv.py", "C12", *flags)
    (row,) = json.loads(file.read_text())["rows"]
    assert (row["case"], row["unit"]) == ("C12", "GFLOP/s")
    assert set(row["peers"]) >= {"default", "rows", "fma_peak"}
    assert row["ours"] > 0
    assert sum(not json.loads(line)["final"] for line in log.read_text().splitlines()) == 16


def test_int8_writes_rates_beside_fp32(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert "ours/fp32" in run("int8.py", "40x32x48", "--quick", "--json", str(file))
    (row,) = json.loads(file.read_text())["rows"]
    assert (row["case"], row["threads"], row["unit"]) == ("40x32x48", 1, "GOP/s")
    assert row["ours"] > 0
    assert row["peers"]["fp32"] > 0


def test_a_network_is_measured_without_the_peers_that_fail(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('a broken torch')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = run("networks.py", "dqn", "--quick")
    for peer in ("torch", "channels_last", "onnxruntime", "openvino"):
        assert f"{peer} is left out: " in said
    head, row = said.splitlines()[-2:]
    assert head.endswith("ours/openvino")
    assert len(row.split()) == 4  # case, threads, unit, ours: the other columns are blank
