"""python -m minitvm show prints the stages of a program."""

from pathlib import Path

import numpy as np
import pytest

from minitvm import te
from minitvm.__main__ import main
from minitvm.show.bench import einsum

PRODUCT = ("C(i, j) +=! A(i, k) * B(k, j)", "--shape", "A=6x8,B=8x4")


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["show", *words]) == 0
    return capsys.readouterr().out


def error(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["show", *words]) == 1
    return capsys.readouterr().err


def test_a_formula_is_shown_from_one_line(capsys) -> None:
    text = shown(capsys, *PRODUCT, "--stage", "te,schedule,loops", "--schedule", "none")
    assert (
        text
        == """\
# te: the formula
A: float32[6, 8]
B: float32[8, 4]
C: float32[6, 4]

C[i, j] = sum(A[i, k] * B[k, j], axis=[k])

# schedule: the schedule, as Python
s = te.create_schedule(C.op)

# loops: the loops, before all passes
def main(A: float32[6, 8], B: float32[8, 4], C: float32[6, 4]):
  for i in range(6):
    for j in range(4):
      C[i, j] = 0.0
      for k in range(8):
        C[i, j] = C[i, j] + A[i, k] * B[k, j]

"""
    )


@pytest.mark.parametrize(
    ("stage", "words"),
    [("tir", "def main("), ("llvm", "@main("), ("asm", "main:"), ("python", "def main("),
     ("numba", "def main("), ("cuda", "cuda.threadIdx.x")],
)  # fmt: skip
def test_a_stage_alone_is_printed_as_it_is(stage: str, words: str, capsys) -> None:
    text = shown(capsys, *PRODUCT, "--stage", stage)
    assert words in text
    assert not text.startswith("#")


def test_all_stages_of_a_program_that_not_every_target_runs(capsys) -> None:
    text = shown(capsys, *PRODUCT, "--stage", "all")
    assert "# cuda: kernels for a GPU" in text
    assert "# vta: instructions of the accelerator\nnot for this program: " in text


def test_a_printed_schedule_can_be_changed_and_read(tmp_path: Path, capsys) -> None:
    file = tmp_path / "s.py"
    file.write_text(shown(capsys, *PRODUCT, "--stage", "schedule", "--schedule", "none"))
    with file.open("a") as f:
        f.write("s[C].reorder(s[C].op.axis[1], s[C].op.axis[0])\n")
    loops = shown(capsys, *PRODUCT, "--stage", "loops", "--schedule", str(file))
    assert loops.index("for j in") < loops.index("for i in")


def test_an_operator_and_a_network_are_shown(tmp_path: Path, capsys) -> None:
    assert "T_matmul[i, j] = sum(" in shown(capsys, "matmul", "--shape", "4,4,4", "--stage", "te")
    text = shown(capsys, "squeezenet")
    assert "# graph: the network\ndef squeezenet(" in text
    assert "# kernels: after all passes" in text


def test_a_program_is_timed_beside_numpy_and_drawn(tmp_path: Path, capsys) -> None:
    page = tmp_path / "page.html"
    words = ("--stage", "te", "--target", "llvm -num-cores=1", "--bench", "--html", str(page))
    text = shown(capsys, *PRODUCT, *words)
    assert "numpy.einsum" in text
    assert " x numpy (middle half of 9 rounds: " in text
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == 2
    assert "s = te.create_schedule(C.op)" in html


def test_sums_of_products_are_computed_by_einsum() -> None:
    A, B = te.placeholder((3, 4), name="A"), te.placeholder((4, 5), name="B")
    text, operands = einsum(te.define("C(i, j) +=! A(i, k) * B(k, j)", A=A, B=B)) or ("", [])
    assert (text, operands) == ("ab,bc->ac", [A, B])
    a, b = np.ones((3, 4)), np.ones((4, 5))
    np.testing.assert_array_equal(np.einsum(text, a, b), a @ b)
    for formula in ("C(i) = A(i, 0)", "C(i) max=! A(i, k)", "C(i) +=! A(i, k) + 1"):
        assert einsum(te.define(formula, A=A)) is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("foo", "--shape", "3"), "it is not a formula, an operator or the file of a network"),
        (("C(i) = A(i)",), "the shapes of its inputs are missing"),
        (("C(i) = A(i)", "--shape", "A=3y"), "it is not a list of different names with sizes"),
        (("C(i) = A(i)", "--shape", "A=3,A=4"), "it is not a list of different names"),
        (("C(i) = A(i)", "--shape", "A=3,B=4"), "the formula does not read B"),
        (("C(i) = A(i)", "--shape", "B=3"), "A"),
        ((*PRODUCT, "--stage", "lops"), "loops"),
        ((*PRODUCT, "--stage", "vta"), "the accelerator has no instruction"),
        ((*PRODUCT, "--schedule", "no/file.py"), "No such file"),
        ((*PRODUCT, "--target", "cuda -sim", "--bench"), "a simulation has no times"),
        ((*PRODUCT, "--html", "no/folder/page.html"), "there is no folder no/folder"),
        ((*PRODUCT, "--target", "abacus"), "abacus"),
        (("resnet18", "--bench"), "resnet18 is a network, which is shown as graphs"),
    ],
)
def test_nonsense_is_refused_with_a_reason(words: tuple[str, ...], told: str, capsys) -> None:
    assert told in error(capsys, *words)


def test_a_module_of_torch_is_shown_kernel_by_kernel(capsys) -> None:
    pytest.importorskip("torch")
    words = ("--torch", "nn.Sequential(nn.Linear(4, 8), nn.ReLU())", "--shape", "2,4")
    text = shown(capsys, *words, "--stage", "te,loops")
    assert "# graph: the network\ndef Sequential(input: float32[2, 4]):\n" in text
    assert "# kernels: after all passes" in text
    assert "# kernel dense_relu\n\n# te: the formula\np0: float32[2, 4]\n" in text
    assert "T_relu[i0_inner, i1_inner] = max(T_dense[i0_inner, i1_inner]" in text


def test_a_module_in_a_file_is_timed_beside_torch(tmp_path: Path, capsys) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "net.py"
    file.write_text("from torch import nn\n\nclass Net(nn.Tanh):\n    pass\n")
    words = ("--torch", f"{file}:Net", "--shape", "8", "--stage", "te", "--bench")
    text = shown(capsys, *words, "--target", "llvm -num-cores=1")
    assert "def Net(input: float32[8]):" in text
    assert " x torch (middle half of 9 rounds: " in text
    assert "minitvm and torch: 1 thread each" in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--torch", "nn.ReLu()", "--shape", "3"), "AttributeError: module 'torch.nn' has no"),
        (("--torch", "no/file.py:Net", "--shape", "3"), "FileNotFoundError"),
        (("--torch", "torch.ones", "--shape", "3"), "TypeError: ones()"),
        (("--torch", "dict", "--shape", "3"), "it is dict, not a torch.nn.Module"),
        (("--torch", "nn.ReLU()"), "the shapes of its inputs are missing"),
        (("--torch", "nn.ReLU()", "--shape", "x"), "not a list of numbers"),
        (("--torch", "nn.ReLU()", "--shape", "3", "--dtype", "nn"), "no such element type"),
        (("--torch", "nn.ReLU()", "--shape", "3", "--schedule", "none"),
         "is a network, which is shown as graphs"),
        (("--torch", "nn.ReLU()", "relu", "--shape", "3"), "it takes either WHAT or --torch"),
        (("--torch", "nn.Linear(4, 8)", "--shape", "3"), "torch.export cannot export it"),
        (("--torch", "nn.ReLU()", "--shape", "3", "--bench", "--target", "cuda -sim"),
         "a simulation has no times"),
        ((), "it takes either WHAT or --torch"),
    ],
)  # fmt: skip
def test_nonsense_about_modules_is_refused_with_a_reason(words, told: str, capsys) -> None:
    pytest.importorskip("torch")
    assert told in error(capsys, *words)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("s = 1", "it defines no schedule s"),
        ("s = (", "it is not Python"),
        ("1 / 0", "ZeroDivisionError"),
        ("te.create_schedule(C.op)[C].split(3, 4)", "split"),
    ],
)
def test_a_file_without_a_schedule_is_refused(code, told, tmp_path: Path, capsys) -> None:
    file = tmp_path / "s.py"
    file.write_text(code)
    assert told in error(capsys, *PRODUCT, "--schedule", str(file))
