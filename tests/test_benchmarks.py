"""The benchmarks run, and write what DESIGN promises; how fast is not a matter for tests."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
FLAGS = """
from _common import HANDICAPS, ISAS, arguments, os, target
flags = arguments("", isa=ISAS)
print({name: os.environ[name] for name in HANDICAPS if name in os.environ})
print(target(flags), target(flags, 4))
"""


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


def test_vta_explore_recomputes_the_cycles_that_are_stored() -> None:
    table = run("vta_explore.py", "--budget", "2", "--threads", "1", "--check", "1")
    assert "<exploration: 2 designs, 2 on the front, 0 refused>" in table
    assert table.endswith("all equal\n")


def test_vta_tune_writes_the_cycles_of_both_tuners_beside_those_of_the_tiling_by_hand(
    tmp_path: Path,
) -> None:
    file = tmp_path / "rows.json"
    flags = ("C11", "--quick", "--threads", "1", "--json", str(file))
    table = run("vta_tune.py", *flags)
    assert "hand/xgb" in table
    (row,) = json.loads(file.read_text())
    assert row["case"] == "C11"
    assert min(*row["xgb"], *row["random"], row["hand"]) > 0
    assert len(row["xgb"]) == len(row["random"]) == 1


def test_tune_conv_writes_rates_beside_the_default(tmp_path: Path) -> None:
    file, log = tmp_path / "rows.json", tmp_path / "log.jsonl"
    flags = ("--quick", "--json", str(file), "--log", str(log))
    assert "ours/default" in run("tune_conv.py", "C12", *flags)
    (row,) = json.loads(file.read_text())["rows"]
    assert (row["case"], row["unit"]) == ("C12", "GFLOP/s")
    assert set(row["peers"]) >= {"default", "rows NCHW", "fma_peak"}
    assert row["ours"] > 0
    assert sum(not json.loads(line)["final"] for line in log.read_text().splitlines()) == 16


def test_int8_writes_rates_beside_fp32(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert "ours/fp32" in run("int8.py", "40x32x48", "--quick", "--json", str(file))
    (row,) = json.loads(file.read_text())["rows"]
    assert (row["case"], row["threads"], row["unit"]) == ("40x32x48", 1, "GOP/s")
    assert row["ours"] > 0
    assert row["peers"]["fp32"] > 0


def test_the_simulated_gpu_is_timed_in_all_modes(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    run("simulator.py", "64, 16x16 threads", "--quick", "--json", str(file))
    (row,) = json.loads(file.read_text())["rows"]
    assert (row["case"], row["unit"]) == ("64, 16x16 threads", "ms")
    assert set(row["peers"]) == {"values", "races", "counts", "generators"}


def test_kernels_are_compiled_or_the_message_says_how_to(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    said = run("gpu.py", "one result a thread", "--json", str(file))
    if not file.exists():
        assert "pip install 'minitvm[cuda]'" in said
        return
    (row,) = json.loads(file.read_text())["rows"]
    assert (row["case"], row["threads"], row["unit"]) == (
        "one result a thread",
        256,
        "multiply-adds %",
    )
    assert (row["peers"]["f64"], row["peers"]["spilled"]) == (0, 0)


def test_a_network_is_measured_without_the_peers_that_fail(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('a broken torch')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = run("networks.py", "dqn", "--quick")
    for peer in ("torch", "channels_last", "onnxruntime", "openvino"):
        assert f"{peer} is left out: " in said
    head, row = said.splitlines()[-2:]
    assert head.endswith("ours/openvino")
    assert len(row.split()) == 4  # case, threads, unit, ours: the other columns are blank


# --- instruction sets -----------------------------------------------------------------------------


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the benchmarks by its name."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module


def with_flags(*flags: str) -> list[str]:
    """The variables that a benchmark sets or leaves, and its targets; a shell has set others."""
    shell = {"OPENBLAS_CORETYPE": "Nehalem", "DNNL_MAX_CPU_ISA": "SSE41"}
    env = {**os.environ, **shell, "PYTHONPATH": str(ROOT / "benchmarks")}
    command = [sys.executable, "-c", FLAGS, *flags]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    return done.stdout.splitlines()


@pytest.mark.slow
def test_models_are_measured_once_and_then_read_from_the_file(tmp_path: Path) -> None:
    for package in ("torchvision", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)
    file = tmp_path / "models.json"
    flags = ("lstm", "--quick", "--json", str(file))
    first, again = run("models.py", *flags), run("models.py", *flags)
    (result,) = json.loads(file.read_text()).values()
    assert result["error"] < 1e-5
    assert {"ours 1", "onnxruntime 1"} <= set(result["seconds"])
    assert "1 of 1 accepted, error above 1e-05: none" in first
    assert first.endswith(again)  # the table, without a measurement


def test_without_flags_no_variable_holds_a_peer_back() -> None:
    assert with_flags() == ["{}", "llvm -num-cores=1 llvm -num-cores=4"]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="AVX2 is of x86")
def test_avx2_holds_back_the_peers_and_ours() -> None:
    said, targets = with_flags("--isa", "avx2")
    for setting in (
        "'OPENBLAS_CORETYPE': 'Haswell'",
        "'ONEDNN_MAX_CPU_ISA': 'AVX2'",
        "'MKL_ENABLE_INSTRUCTIONS': 'AVX2'",
        "'ATEN_CPU_CAPABILITY': 'avx2'",
    ):
        assert setting in said
    assert "DNNL_MAX_CPU_ISA': 'SSE41" not in said
    held = " -mattr=-avx512f,-avxvnni"
    assert targets == f"llvm -num-cores=1{held} llvm -num-cores=4{held}"


def test_a_peer_that_cannot_be_held_back_is_left_out(module: Any, capsys: Any) -> None:
    peers = dict.fromkeys(("onnxruntime", "openvino", "torch"), lambda: print)
    assert list(module("_common").prepared(peers, "avx2")) == ["openvino", "torch"]
    assert capsys.readouterr().out.splitlines() == [
        "onnxruntime is left out with --isa avx2: it asks the CPU itself, and no setting keeps it "
        "from AVX-512",
        "openvino is held back in part by --isa avx2: its fully connected layers (MLAS) may still "
        "use AVX-512",
    ]
    assert list(module("_common").prepared(peers)) == list(peers)
    assert not capsys.readouterr().out


# --- convolutions ---------------------------------------------------------------------------------


def test_columns_name_their_layouts(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    table = run("conv.py", "C12", "--quick", "--layout", "nhwc", "--json", str(file))
    head = next(line for line in table.splitlines() if "threads" in line)
    assert "ours NHWC  rows NCHW" in head
    (row,) = json.loads(file.read_text())["rows"]
    assert row["ours"] > 0
    assert set(row["peers"]) >= {"rows NCHW", "fma_peak"}


class Tensor(SimpleNamespace):
    """As much of a tensor as conv.py asks for."""

    def contiguous(self, memory_format: object) -> "Tensor":
        return self

    def to_mkldnn(self) -> "Tensor":
        return self


def torch_that_tells(read: list[int]) -> MagicMock:
    """A torch whose convolutions append the addresses of their weights to `read`."""
    torch = MagicMock()
    torch.from_numpy = lambda a: Tensor(array=a, shape=a.shape)
    torch._C._nn.mkldnn_reorder_conv2d_weight = lambda v, *_: v
    torch.nn.functional.conv2d = lambda x, v, **_: read.append(v.array.ctypes.data)
    torch.ops.mkldnn._convolution_pointwise = lambda x, v, *_: read.append(v.array.ctypes.data)
    return torch


@pytest.mark.parametrize("who", ["ours", "torch NCHW", "torch NHWC", "packed NCHW", "packed NHWC"])
@pytest.mark.parametrize(("cold", "different"), [(True, 3), (False, 1)])
def test_cold_calls_read_other_weights_each_time(
    who: str, cold: bool, different: int, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    conv, read = module("_conv"), list[int]()
    layer = conv.Layer(7, 16, 16, 3, 1)
    x, w = conv.drawn(layer)
    monkeypatch.setattr(conv, "LARGER_THAN_CACHES", 3 * w.nbytes)
    if who == "ours":

        def bind(f: object, weight: Any) -> Any:
            return lambda *_: read.append(id(weight))  # which the lambda keeps alive

        monkeypatch.setattr(conv.tvm.Function, "bind", bind)
        call, _ = conv.ours(layer, x, w, "llvm -num-cores=1", cold=cold)
    else:
        call = conv.theirs(torch_that_tells(read), layer, x, w, cold=cold)[who]
    for _ in range(6):
        call()
    assert len(set(read)) == different
    assert read[:3] == read[3:]


def test_a_cold_call_finds_nothing_in_the_caches(module: Any) -> None:
    conv = module("_conv")
    for layer in conv.LAYERS.values():
        weights = np.empty((layer.outputs, layer.inputs, layer.kernel, layer.kernel), "float32")
        assert conv.copies(weights, cold=True) * weights.nbytes >= 1 << 27


# --- what the papers' figures need ----------------------------------------------------------------


def test_fusion_is_compared_with_one_kernel_for_each_operator(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert "ours/unfused" in run("fusion.py", "rnn cell", "--quick", "--json", str(file))
    (row,) = json.loads(file.read_text())["rows"]
    assert (row["case"], row["unit"]) == ("rnn cell", "runs/s")
    assert row["peers"]["bytes"] > 1


def test_a_prediction_is_timed_with_its_features(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    run("predict.py", "TreeGRU", "--quick", "--json", str(file))
    (row,) = json.loads(file.read_text())["rows"]
    assert (row["case"], row["unit"]) == ("TreeGRU", "us")
    assert row["ours"] > row["peers"]["features"] > 0


def test_a_stored_number_has_four_digits(module: Any) -> None:
    rounded = module("papers_measure").rounded
    assert rounded({"a": [1.23456, 7], "b": "C6"}) == {"a": [1.235, 7], "b": "C6"}
