"""docs/field.md: its programs compute the product; its table quotes them; its links exist."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/field.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^### (.+?)\n(.*?)(?=^##|\Z)", re.M | re.S)
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
PROGRAMS = {title: PROGRAM.findall(text) for title, text in SECTION.findall(PAGE)}
SYSTEMS = {
    "minitvm": "minitvm",
    "TensorIR": "tvm",
    "Halide": "halide",
    "MLIR: linalg and the transform dialect": "iree.compiler",
    "Triton": "triton",
    "torch.compile": "torch",
}
COMPARED = """
import numpy

draw = numpy.random.default_rng(0).standard_normal
x, w, b = (draw(shape, dtype="float32") for shape in ((256, 256), (256, 256), (256,)))
y = dense_relu(x, w, b)
numpy.testing.assert_allclose(y, numpy.maximum(x @ w + b, 0), rtol=1e-4, atol=1e-4)
"""


def installed(module: str) -> bool:
    """Whether a module can be found; its package is imported, the module is not."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("title", SYSTEMS)
def test_a_program_computes_the_product(title: str, tmp_path: Path) -> None:
    """Each one runs in a process of its own: their libraries contain different versions of LLVM."""
    if not installed(SYSTEMS[title]):
        pytest.skip(f"{SYSTEMS[title]} is not installed")
    program = tmp_path / "program.py"  # some of the packages read their functions' source
    program.write_text(PROGRAMS[title][0] + COMPARED, encoding="utf-8")
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_the_table_quotes_the_programs() -> None:
    """A line of code in a cell is in the program of its column, but for what is calculated."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    columns: list[str] = []
    quoted = 0
    for row in rows:
        if row[0] == "decision":
            columns = [next(t for t in SYSTEMS if t.startswith(name)) for name in row[1:]]
            continue
        for title, cell in zip(columns, row[1:], strict=True):
            for code in re.findall(r"`([^`]{9,})`", cell):
                assert code in PROGRAMS[title][0], (title, code)
                quoted += 1
    assert quoted > 20
