"""Compiled networks in files."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import runtime
from minitvm.base import ArgumentError, BuildError
from minitvm.runtime import export, network_file

from .test_network import N, expected, network, numbers, values

LOADS = """
import sys
import numpy as np
from minitvm import runtime
module = runtime.load_network(sys.argv[1])
print(float(module(np.ones((64, 64), "float32")).sum()))
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    module = runtime.create(*network("llvm -num-cores=2"))
    module.set_input(**values())
    path = tmp_path_factory.mktemp("network") / "two_layers.mtvm"
    module.export(path)
    return path


def test_another_process_loads_a_network(stored: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADS, str(stored)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert float(done.stdout) == expected(np.ones((N, N), "float32"), values()).sum()


@pytest.mark.parametrize("target", ["numba", "python"])
def test_networks_of_other_targets_are_stored(target: str, tmp_path: Path) -> None:
    module = runtime.create(*network(target))
    module.set_input(**values())
    module.export(tmp_path / "net")
    x = numbers((N, N), 9)
    found = runtime.load_network(tmp_path / "net")(x)
    np.testing.assert_array_equal(found, expected(x, values()))


def test_a_loaded_network_is_stored_again(stored: Path, tmp_path: Path) -> None:
    module = runtime.load_network(stored)
    module.export(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == stored.read_bytes()
    assert all(a.ctypes.data % 64 == 0 for a in module.params.values())


def test_a_plan_survives_json() -> None:
    plan, _ = network("python")
    text = json.dumps(network_file.plan_to_json(plan))
    assert network_file.plan_from_json(json.loads(text)) == plan


def test_only_parameters_that_are_set_are_stored(tmp_path: Path) -> None:
    module = runtime.create(*network("python"))
    module.set_input("b1", values()["b1"])
    module.export(tmp_path / "net")
    loaded = runtime.load_network(tmp_path / "net")
    assert list(loaded.params) == ["b1"]
    with pytest.raises(ArgumentError, match="w1 is not set"):
        loaded(numbers((N, N), 9))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_a_damaged_file_is_refused(stored: Path, tmp_path: Path, share: float) -> None:
    data = bytearray(stored.read_bytes())
    data[int(len(data) * share)] ^= 1
    (tmp_path / "net").write_bytes(data)
    with pytest.raises(BuildError, match="damaged"):
        runtime.load_network(tmp_path / "net")
    (tmp_path / "net").write_bytes(stored.read_bytes()[:-1])
    with pytest.raises(BuildError, match="damaged"):
        runtime.load_network(tmp_path / "net")


def changed(stored: Path, tmp_path: Path, change: Any) -> str:
    """The error for a file with a correct checksum, after change(header, parts after it)."""
    data = stored.read_bytes()

    def made(header: Any, after: bytes) -> tuple[Any, bytes]:
        return header, after

    header, after = export.opened(data, network_file.MAGIC, network_file.FORMAT, "", made)
    after = change(header, after) or after
    path = tmp_path / "net"
    path.write_bytes(export.sealed(network_file.MAGIC, network_file.FORMAT, header, after))
    with pytest.raises(BuildError) as caught:
        runtime.load_network(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda h, _: h["plan"]["calls"][0][1].pop(), "takes 3 arguments, not 2"),
        (lambda h, _: h["plan"].update(arena_bytes=64), "of an arena of 64"),
        (lambda h, _: h["plan"]["calls"][0][1].append(["stack", 0]), "takes 3 arguments, not 4"),
        (lambda h, _: h["plan"]["calls"][0].pop(), "its header cannot be read (TypeError"),
        (lambda h, _: h.pop("kernels"), "its header cannot be read (KeyError"),
        (lambda h, _: h["params"].append("w9"), "its header cannot be read (KeyError: 'w9'"),
    ],
)
def test_a_wrong_header_is_refused(stored: Path, tmp_path: Path, change: Any, words: str) -> None:
    def only_header(header: Any, after: bytes) -> None:
        change(header, after)

    assert words in changed(stored, tmp_path, only_header)


def test_missing_parameters_are_noticed(stored: Path, tmp_path: Path) -> None:
    assert "ValueError" in changed(stored, tmp_path, lambda h, after: after[:-8])


def test_kernels_for_another_cpu_are_refused(stored: Path, tmp_path: Path) -> None:
    def change(header: Any, after: bytes) -> bytes:
        size = header["kernels"][0]
        made = export.opened(
            after[:size], export.MAGIC, export.FORMAT, "", lambda h, rest: (h, rest)
        )
        kernel, rest = made
        kernel["machine"]["features"] = ["avx10.9"]
        other = export.sealed(export.MAGIC, export.FORMAT, kernel, rest)
        header["kernels"][0] = len(other)
        return other + after[size:]

    assert "it may use avx10.9, which this CPU" in changed(stored, tmp_path, change)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ArgumentError, match="not an exported network"):
        runtime.load_network(tmp_path / "text")
    with pytest.raises(ArgumentError, match="No such file"):
        runtime.load_network(tmp_path / "absent")
    network("python")[1].kernels[0].export(tmp_path / "f")
    with pytest.raises(ArgumentError, match="not an exported network"):
        runtime.load_network(tmp_path / "f")
    with pytest.raises(ArgumentError, match="a file in a folder that exists"):
        runtime.create(*network("python")).export(tmp_path / "no" / "net")
    runtime.create(*network("python")).export(tmp_path / "net")
    with pytest.raises(ArgumentError, match="not an exported function"):
        tvm.load(tmp_path / "net")
