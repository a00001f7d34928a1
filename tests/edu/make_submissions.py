"""Writes tests/data/submissions: notebooks such as students hand in, and such as try to cheat.

    python tests/edu/make_submissions.py

The same bytes every time. expected.json beside them says what each of them must get: for each item
its points and, where they are not full, the message id.
"""

import json
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "data" / "submissions"
NAME = "ex00_start_here.ipynb"

SETUP = "import minitvm as tvm\nfrom minitvm import edu, te"
MATMUL = """def matmul(A, B):
    k = te.reduce_axis((0, A.shape[1]), name="k")
    shape = (A.shape[0], B.shape[1])
    return te.compute(shape, lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")"""
REFUSAL = """def refusal(A, B, C):
    s = te.create_schedule(C.op)
    try:
        s[C].parallel(C.op.reduce_axis[0])
    except tvm.ScheduleError as error:
        return str(error)"""
WRONG = """def matmul(A, B):
    return te.compute((A.shape[0], B.shape[1]), lambda i, j: A[i, 0] * B[0, j], name="C")

def refusal(A, B, C):
    return "no" """.rstrip()
CHECKS = 'edu.check("ex00.1", matmul)\nedu.check("ex00.2", refusal)'
STUBS = """def matmul(A, B):
    raise NotImplementedError("ex00.1: see notebook 00")

def refusal(A, B, C):
    raise NotImplementedError("ex00.2: see notebook 00")"""
GOOD = [SETUP, MATMUL, REFUSAL, CHECKS]


def answer(body: str) -> list[str]:
    """A notebook whose matmul does `body`, and whose second answer is right."""
    lines = "\n".join("    " + line for line in body.splitlines())
    return [SETUP, f"def matmul(A, B):\n{lines}", REFUSAL, CHECKS]


def wrong_after(text: str) -> list[str]:
    """A notebook that plays a trick, and then has wrong answers to both items."""
    return [SETUP, text, WRONG, CHECKS]


HUGE_FORMULA = """T = te.compute((10**6, 10**6), lambda i, j: A[0, 0], name="T")
return te.compute((A.shape[0], B.shape[1]), lambda i, j: T[i, j], name="C")"""
HARD_CODED = """k = te.reduce_axis((0, 6), name="k")
return te.compute((7, 7), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")"""

FULL = {"ex00.1": [1, ""], "ex00.2": [1, ""]}
NOTHING = {"ex00.1": [0, "not-started"], "ex00.2": [0, "not-started"]}
BOTH_WRONG = {"ex00.1": [0, "wrong-value"], "ex00.2": [0, "other-message"]}


def lost(message: str) -> dict[str, list]:
    """No points for the first item, all for the second."""
    return {"ex00.1": [0, message], "ex00.2": [1, ""]}


def second(message: str) -> dict[str, list]:
    """All points for the first item, none for the second."""
    return {"ex00.1": [1, ""], "ex00.2": [0, message]}


ALWAYS_EQUAL = """class Always(str):
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = str.__hash__

def refusal(A, B, C):
    return Always("no")"""
FIND_REFERENCE = """import gc, types
def reference():
    for f in gc.get_objects():
        if isinstance(f, types.FunctionType) and f.__name__ == "refusal":
            if "checks" in (f.__module__ or ""):
                return f
def refusal(A, B, C):
    return reference()(A, B, C)"""
OPEN_CHECKS = """import minitvm
from pathlib import Path
def refusal(A, B, C):
    text = (Path(minitvm.__file__).parent.parent / "exercises/checks/ex00.py").read_text()
    scope = {}
    exec(text, scope)
    return scope["refusal"](A, B, C)"""
LOAD_CHECKS = """import importlib, sys
from pathlib import Path
def refusal(A, B, C):
    folder = Path(sys.modules["minitvm"].__file__).parent.parent / "exercises/checks"
    sys.path.insert(0, str(folder))
    return importlib.import_module("ex00").refusal(A, B, C)"""
READ_PARENT = """import os
def refusal(A, B, C):
    with open(f"/proc/{os.getppid()}/mem", "rb") as memory:
        memory.seek(0)
        return memory.read(100).decode()"""

# name -> (cells, what they must get)
SUBMISSIONS: dict[str, tuple[list[str], dict[str, list]]] = {
    "good": (GOOD, FULL),
    "half": ([SETUP, MATMUL, CHECKS], second("not-started")),
    "empty": ([], NOTHING),
    "untouched": ([SETUP, STUBS, CHECKS], NOTHING),
    "magics": (["%matplotlib inline\n!pip list", *GOOD], FULL),
    "failing_cell": ([SETUP, "1 / 0", MATMUL, REFUSAL], FULL),
    "syntax_error": ([SETUP, MATMUL.replace("def", "def def"), REFUSAL], lost("not-started")),
    "deleted_cell": ([SETUP, REFUSAL, CHECKS], lost("not-started")),
    "wrong": ([SETUP, WRONG, CHECKS], BOTH_WRONG),
    "raises": (answer("return A.no_such_thing"), lost("raises")),
    "wrong_type": (answer("return [[1.0]]"), lost("wrong-type")),
    "object": (answer("return object()"), lost("wrong-type")),
    "hard_coded": (answer(HARD_CODED), lost("raises")),
    "endless_cell": ([SETUP, "while True:\n    pass", MATMUL, REFUSAL], FULL),
    "endless_answer": (answer("while True:\n    pass"), lost("timeout")),
    "endless_output": (answer("while True:\n    print('x' * 1000)"), lost("timeout")),
    "endless_recursion": (answer("return matmul(A, B)"), lost("raises")),
    "huge_output": ([SETUP, "print('x' * 50_000_000)", MATMUL, REFUSAL], FULL),
    "huge_result": (answer("import numpy\nreturn numpy.zeros(10**8)"), lost("wrong-type")),
    "huge_formula": (answer(HUGE_FORMULA), lost("too-large")),
    "memory_bomb": (answer("return bytearray(10**12)"), lost("raises")),
    "exit_in_a_cell": ([SETUP, "import sys\nsys.exit()", MATMUL, REFUSAL], FULL),
    "exit_in_an_answer": (answer("import sys\nsys.exit(0)"), lost("raises")),
    "kill_in_a_cell": ([SETUP, "import os\nos._exit(0)", MATMUL, REFUSAL], FULL),
    "crash_in_an_answer": (answer("import ctypes\nctypes.string_at(0)"), lost("crash")),
    "patched_time": (wrong_after("import time\ntime.perf_counter = lambda: 0"), BOTH_WRONG),
    "patched_numpy": (
        wrong_after("import numpy as np\nnp.equal = np.argwhere = lambda *a: np.zeros(0)"),
        BOTH_WRONG,
    ),
    "patched_minitvm": (
        wrong_after(
            "import minitvm.testing, minitvm.tensor\n"
            "minitvm.testing.difference = lambda *a, **k: ''\n"
            "minitvm.tensor.evaluate = lambda *a, **k: []"
        ),
        BOTH_WRONG,
    ),
    "patched_check": (wrong_after("edu.check = lambda *a: 1.0\nedu.mark = edu.check"), BOTH_WRONG),
    "always_equal": ([SETUP, MATMUL, ALWAYS_EQUAL], second("other-message")),
    "fake_score": (
        wrong_after(
            "import os\n"
            "print('{\"mark\": {\"item\": \"ex00.1\", \"points\": 1}}', flush=True)\n"
            "for fd in (1, 2):\n"
            "    os.write(fd, b'{\"end\": true}\\n')"
        ),
        BOTH_WRONG,
    ),
    "fake_frame": (
        wrong_after(
            "import os\n"
            "for fd in range(3, 20):\n"
            "    try:\n"
            "        os.write(fd, b'\\x00' * 16)\n"
            "    except OSError:\n"
            "        pass"
        ),
        BOTH_WRONG,
    ),
    "searches_memory": ([SETUP, MATMUL, FIND_REFERENCE], second("raises")),
    "opens_the_checks": ([SETUP, MATMUL, OPEN_CHECKS], second("raises")),
    "imports_the_checks": (
        [SETUP, MATMUL, LOAD_CHECKS],
        second("raises"),
    ),
    "reads_the_grader": ([SETUP, MATMUL, READ_PARENT], second("raises")),
    "writes_files": (
        answer("open('../../grades.csv', 'w').write('100')\nreturn A"),
        lost("raises"),
    ),
    "forks": (answer("import os\nwhile True:\n    os.fork()"), lost("raises")),
    "starts_a_program": (answer("import subprocess\nsubprocess.run(['true'])"), lost("raises")),
    "asks_the_network": (
        answer("import socket\nsocket.create_connection(('127.0.0.1', 9))"),
        lost("raises"),
    ),
}  # fmt: skip


def notebook(cells: list[str], version: int = 4) -> str:
    """A notebook of code cells, as JSON."""
    made = {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": None,
                "id": f"cell-{n}",
                "metadata": {},
                "outputs": [],
                "source": text.splitlines(keepends=True),
            }
            for n, text in enumerate(cells)
        ],
        "metadata": {"minitvm": {"exercise": "ex00"}},
        "nbformat": version,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=1, sort_keys=True) + "\n"


def files() -> dict[str, str]:
    """Path below FOLDER -> text."""
    made = {f"{name}/{NAME}": notebook(cells) for name, (cells, _) in SUBMISSIONS.items()}
    made[f"no_notebook/{NAME}"] = "Dear instructor, my laptop was stolen.\n"
    made[f"old_format/{NAME}"] = notebook(GOOD, version=3)
    expected: dict[str, object] = {name: marks for name, (_, marks) in SUBMISSIONS.items()}
    expected |= dict.fromkeys(("no_notebook", "old_format"), "not a notebook")
    made["expected.json"] = json.dumps(expected, indent=1, sort_keys=True) + "\n"
    return made


if __name__ == "__main__":
    for name, text in files().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
