"""f.export(path) and tvm.load(path): the same function again, or the reason why not."""

import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import ArgumentError, BuildError, host
from minitvm.base.processor import features
from minitvm.runtime import Function
from minitvm.tir import Buffer, PrimFunc, seq

Array = np.ndarray[Any, Any]
TARGETS = ("llvm", "llvm -mcpu=generic", "llvm -unroll=0", "python", "numba -num-cores=1")


def exponential(target: str = "llvm") -> tvm.Function:
    """C[i, j] = exp(A[i, j]) + B[j] of n*2 + 1 rows"""
    n, m = te.size_var("n"), te.size_var("m")
    A, B = te.placeholder((n * 2 + 1, m), name="A"), te.placeholder((m,), name="B")
    C = te.compute((n * 2 + 1, m), lambda i, j: te.exp(A[i, j]) + B[j], name="C")
    s = te.create_schedule(C.op)
    s[C].parallel(C.op.axis[0])
    return tvm.build(s, [n, A, B, C], target, name="my kernel")


def refusal(act: Callable[[], Any], error: type[Exception] = BuildError) -> str:
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with machine code in it."""
    path = tmp_path_factory.mktemp("export") / "kernel.tvm"
    exponential().export(path)
    return path


def altered(file: Path, folder: Path, **changes: Any) -> Path:
    """A copy of the file with a changed header, its checksum in order."""
    magic, _, body = file.read_bytes().split(b"\n", 2)
    header, _, code = body.partition(b"\n")
    body = json.dumps({**json.loads(header), **changes}).encode() + b"\n" + code
    return stored(folder, magic, body)


def stored(folder: Path, magic: bytes, body: bytes) -> Path:
    path = folder / "altered.tvm"
    path.write_bytes(b"\n".join([magic, hashlib.sha256(body).hexdigest().encode(), body]))
    return path


# --- what comes back -----------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_a_loaded_function_computes_the_same(target: str, tmp_path: Path) -> None:
    exponential(target).export(tmp_path / "f")
    g = tvm.load(str(tmp_path / "f"))
    a, b = np.random.default_rng(0).random((7, 5), "float32"), np.ones(5, "float32")
    c = np.zeros((7, 5), "float32")
    g(3, a, b, c)
    np.testing.assert_allclose(c, np.exp(a) + 1, rtol=1e-5)


def test_another_process_can_load_it(file: Path) -> None:
    program = (
        "import sys, numpy as np, minitvm as tvm\n"
        "a, b, c = np.zeros((3, 2), 'f4'), np.ones(2, 'f4'), np.zeros((3, 2), 'f4')\n"
        "tvm.load(sys.argv[1])(1, a, b, c)\n"
        "assert (c == 2).all()\n"
    )
    assert subprocess.run([sys.executable, "-c", program, file], check=False).returncode == 0


def test_a_loaded_function_knows_its_signature_and_its_loops(file: Path) -> None:
    f, g = exponential(), tvm.load(file)
    assert (g.name, repr(g), g.source("tir")) == ("my kernel", repr(f), f.source("tir"))


def test_a_loaded_function_shows_the_python_it_runs(tmp_path: Path) -> None:
    f = exponential("python")
    f.export(tmp_path / "f")
    assert tvm.load(tmp_path / "f").source("python") == f.source("python")


def test_a_loaded_function_checks_its_arguments(file: Path) -> None:
    g = tvm.load(file)
    a, b = np.ones((7, 5), "float32"), np.ones(5, "float32")
    says = refusal(lambda: g(3, a, b, np.ones((6, 5), "float32")), ArgumentError)
    assert says == refusal(
        lambda: exponential()(3, a, b, np.ones((6, 5), "float32")), ArgumentError
    )
    assert "C.shape[0]: is 6, not 7" in says
    assert "shares memory with A" in refusal(lambda: g(3, a, b, a), ArgumentError)


def test_a_loaded_function_can_be_stored_again(file: Path, tmp_path: Path) -> None:
    tvm.load(file).export(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


def test_the_header_can_be_read_without_minitvm(file: Path) -> None:
    lines = file.read_bytes().split(b"\n", 3)
    header = json.loads(lines[2])
    assert lines[0] == b"minitvm function 5"
    assert [p["name"] for p in header["params"] if isinstance(p, dict)] == ["A", "B", "C"]
    assert header["params"][3]["output"]
    assert header["machine"]["system"] == host().system


def test_several_outputs_and_every_kind_of_extent_come_back(tmp_path: Path) -> None:
    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n * m, n // 3 + n % 4), "int8", name="A")
    P, Q = te.compute(A.shape, lambda i, j: (A[i, j], A[i, j] + A[i, j]), name="P")
    f = tvm.build(te.create_schedule(P.op), [n, m, A, P, Q], "python")
    f.export(tmp_path / "f")
    a = np.arange(24, dtype="int8").reshape(6, 4)  # n = 6: 6 // 3 + 6 % 4 = 4
    p, q = np.zeros_like(a), np.zeros_like(a)
    tvm.load(tmp_path / "f")(6, 1, a, p, q)
    np.testing.assert_array_equal((p, q), (a, 2 * a))


# --- what is refused -----------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_refused() -> None:
    says = refusal(lambda: tvm.load("nowhere.tvm"), ArgumentError)
    assert says.startswith("load('nowhere.tvm'): No such file or directory\n  try: a file that")


@pytest.mark.parametrize("content", [b"", b"\n", b"PK\x03\x04", b"minitvm function"])
def test_another_kind_of_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content)
    says = refusal(lambda: tvm.load(tmp_path / "f"), ArgumentError)
    assert "it is not an exported function" in says


@pytest.mark.parametrize("number", [4, 6])
def test_another_format_is_refused(number: int, file: Path, tmp_path: Path) -> None:
    other = file.read_bytes().replace(b"minitvm function 5", b"minitvm function %d" % number, 1)
    (tmp_path / "f").write_bytes(other)
    says = refusal(lambda: tvm.load(tmp_path / "f"))
    assert f"it has format {number}, this minitvm reads format 5" in says


def test_a_file_cut_short_anywhere_is_refused(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        (tmp_path / "f").write_bytes(whole[:length])
        refusal(lambda: tvm.load(tmp_path / "f"), tvm.TVMError)


def test_a_changed_bit_is_found(file: Path, tmp_path: Path) -> None:
    damaged = bytearray(file.read_bytes())
    damaged[-100] ^= 1
    (tmp_path / "f").write_bytes(damaged)
    says = refusal(lambda: tvm.load(tmp_path / "f"))
    assert "it is damaged: its checksum is wrong" in says


@pytest.mark.parametrize(
    "changes",
    [
        {"params": None},
        {"params": ["v99"]},
        {"params": ["2*"]},
        {"params": [["v0"]]},
        {"params": [{"name": "A", "dtype": "float7", "shape": [], "strides": [], "output": True}]},
        {"params": [{"name": "A"}]},
        {"variables": [["n"]]},
        {"target": "abacus"},
        {"sources": 3},
        {"machine": 3},
    ],
)
def test_a_header_without_meaning_is_refused(
    changes: dict[str, Any], file: Path, tmp_path: Path
) -> None:
    path = altered(file, tmp_path, **changes)
    assert "its header cannot be read" in refusal(lambda: tvm.load(path))


@pytest.mark.parametrize("body", [b"", b"{}\n", b"\n", b"[1]\nabc", b"\xff\n", b"[" * 100_000])
def test_a_body_without_a_header_is_refused(body: bytes, tmp_path: Path) -> None:
    path = stored(tmp_path, b"minitvm function 5", body)
    assert "its header cannot be read" in refusal(lambda: tvm.load(path))


def test_code_that_is_no_object_file_is_refused(tmp_path: Path, file: Path) -> None:
    body = file.read_bytes().split(b"\n", 2)[2].partition(b"\n")[0] + b"\nnot machine code"
    path = stored(tmp_path, b"minitvm function 5", body)
    assert "are not an object file" in refusal(lambda: tvm.load(path))


def test_a_function_that_this_process_lacks_is_named(file: Path, tmp_path: Path) -> None:
    path = altered(file, tmp_path, calls=["no_such_function_anywhere"])
    assert "call of 'no_such_function_anywhere'" in refusal(lambda: tvm.load(path))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"features": ["avx1024", *host().features, "zz"]},
            "it may use avx1024, zz, which this CPU (",
        ),
        ({"cpu": "z80"}, "it is machine code for a z80, and this is a "),
        ({"system": "CP/M"}, "it is machine code for CP/M on "),
        ({"machine": "m68k"}, "on m68k, and this is "),
    ],
)
def test_another_machine_is_refused_with_the_reason(
    change: dict[str, Any], says: str, file: Path, tmp_path: Path
) -> None:
    here = json.loads(file.read_bytes().split(b"\n", 3)[2])["machine"]
    path = altered(file, tmp_path, machine=here | change)
    assert says in refusal(lambda: tvm.load(path))


def test_the_cpu_that_the_message_proposes_is_of_this_architecture(
    file: Path, tmp_path: Path
) -> None:
    here = json.loads(file.read_bytes().split(b"\n", 3)[2])["machine"]
    path = altered(file, tmp_path, machine=here | {"cpu": "z80"})
    cpu = re.search(r"target='llvm -mcpu=(.*)'", refusal(lambda: tvm.load(path)))
    assert cpu is not None
    assert features(cpu[1], "")  # which are empty for a CPU that LLVM does not know


posix = pytest.mark.skipif(os.name != "posix", reason="Windows has no owners and modes")
COPY = "\n  try: if you trust it, a copy of your own: cp FILE mine.mtvm; chmod 600 mine.mtvm"


@posix
@pytest.mark.parametrize("mode", [0o666, 0o620])
def test_a_file_that_others_can_write_is_refused(mode: int, file: Path, tmp_path: Path) -> None:
    path = altered(file, tmp_path)
    path.chmod(mode)
    why = f"other users may write to the file (mode {mode:o}), and loading it runs the code in it"
    assert refusal(lambda: tvm.load(path)) == f"load({str(path)!r}): {why}{COPY}"


@posix
@pytest.mark.skipif(getattr(os, "geteuid", int)() != 0, reason="only root has files of others")
def test_the_file_of_another_user_is_refused(file: Path, tmp_path: Path) -> None:
    path = altered(file, tmp_path)
    os.chown(path, 65534, 65534)
    why = "the file belongs to another user (uid 65534), and loading it runs the code in it"
    assert refusal(lambda: tvm.load(path)) == f"load({str(path)!r}): {why}{COPY}"


@posix
@pytest.mark.skipif(getattr(os, "geteuid", int)() != 0, reason="only root can become another user")
def test_the_file_of_root_is_loaded_by_any_user(file: Path, tmp_path: Path) -> None:
    program = (
        "import os, sys, minitvm as tvm\n"
        "os.chdir(sys.argv[1])\n"
        "os.setuid(65534)\n"
        "print(tvm.load('altered.tvm').name)"
    )
    altered(file, tmp_path)
    tmp_path.chmod(0o755)
    out = subprocess.check_output([sys.executable, "-c", program, tmp_path], text=True)
    assert out == "my kernel\n"


@posix
def test_an_exported_file_can_be_loaded_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        exponential("python").export(tmp_path / "f")
    finally:
        os.umask(before)
    assert tvm.load(tmp_path / "f").name == "my kernel"


def test_a_file_for_another_target_is_refused_if_one_is_asked_for(file: Path) -> None:
    says = refusal(lambda: tvm.load(file, "python -num-cores=1"))
    assert re.search(r"it was built for llvm .*, not for python -num-cores=1", says)


def test_what_holds_no_code_is_not_stored(tmp_path: Path) -> None:
    A = Buffer("A", (4,), tvm.base.FLOAT32)
    f = Function(PrimFunc("main", (A,), seq(), (A,)), lambda args: None, {})
    assert refusal(lambda: f.export(tmp_path / "f")).startswith("export of main: functions of")


# --- features ------------------------------------------------------------------------------------


def test_the_features_of_this_machine_are_those_it_has() -> None:
    assert features("", "") == host().features


@pytest.mark.skipif("sse2" not in host().features, reason="about x86")
@pytest.mark.parametrize(
    ("cpu", "changes", "has", "lacks"),
    [
        ("x86-64", "", {"sse2"}, {"sse3", "avx"}),
        ("x86-64-v3", "", {"sse4.2", "avx2", "fma"}, {"avx512f"}),
        ("haswell", "", {"avx2", "bmi2"}, {"avx512f"}),
        ("skylake-avx512", "", {"avx512f", "avx512vl"}, {"avx512vnni", "pku"}),
        ("skylake-avx512", "-avx512f", {"avx2"}, {"avx512f", "avx512vl"}),
        ("nehalem", "+avx2", {"avx", "avx2"}, {"fma"}),
    ],
)
def test_llvm_names_the_features_of_a_cpu(
    cpu: str, changes: str, has: set[str], lacks: set[str]
) -> None:
    assert has <= features(cpu, changes)
    assert not lacks & features(cpu, changes)


@pytest.mark.parametrize("target", TARGETS)
def test_a_pickled_function_is_the_same_function(target: str) -> None:
    f = pickle.loads(pickle.dumps(exponential(target)))
    a, b = np.ones((5, 3), "float32"), np.arange(3, dtype="float32")
    c = np.zeros((5, 3), "float32")
    f(2, a, b, c)
    tvm.testing.assert_allclose(c, np.exp(a) + b)
    with pytest.raises(ArgumentError, match="argument A"):
        pickle.loads(pickle.dumps(f))(2, a.astype("float64"), b, c)


def test_a_function_reaches_another_process_by_pickle() -> None:
    code = """
import pickle, sys
import numpy as np
c = np.zeros((1, 1), "float32")
pickle.load(sys.stdin.buffer)(0, c + 1, c[0] + 2, c)
print(c[0, 0])
"""
    data = pickle.dumps(exponential())
    ran = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert float(ran.stdout) == pytest.approx(np.e + 2)
