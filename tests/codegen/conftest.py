"""How the tests of this package run the text that code generation emits."""

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from llvmlite import binding as llvm

from minitvm.base import FLOAT32, host, processor
from minitvm.codegen import clean, emit_llvm, emit_python
from minitvm.tir import Buffer, PrimFunc, Var

CONVERTS_FLOAT16 = {"f16c", "avx512fp16", "neon"}
LAUNCH = "test_parallel_launch"
WORKER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
LAUNCHER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
Run = Callable[..., int]  # run(f, *arrays): its status
Launch = Callable[[Callable[[int, int], None], int], None]  # (body(begin, end), extent)


def variable(name: str, extent: int) -> Var:
    return Var(name, 0, extent - 1)


def floats(name: str, *shape: Any, scope: str = "global") -> Buffer:
    return Buffer(name, shape, FLOAT32, scope)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


def optimised(text: str) -> tuple[Any, Any]:
    """The LLVM module for `text` after -O3, and the target machine of this host."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    target = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        *processor.options("", ""), opt=3, jit=True
    )
    module.triple, module.data_layout = target.triple, str(target.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    passes = llvm.create_pass_builder(target, tuning)
    passes.getModulePassManager().run(module, passes)
    return module, target


def call(text: str, name: str, args: tuple[Any, ...]) -> int:
    """Run the function `name` of an LLVM text; its result."""
    if re.search(r"\bhalf\b", text) and not CONVERTS_FLOAT16 & host().features:
        pytest.skip("this CPU has no instruction that converts float16")
    engine = llvm.create_mcjit_compiler(*optimised(text))
    engine.finalize_object()
    kinds = [ctypes.c_int64 if isinstance(a, int) else ctypes.c_void_p for a in args]
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(engine.get_function_address(name))
    return function(*(a if isinstance(a, int) else a.ctypes.data for a in args))


def run_llvm(f: PrimFunc, *args: Any, launch: Launch | None = None) -> int:
    """Run `f` as machine code; `launch` runs its parallel loops, which are serial without it."""
    if launch is None:
        return call(emit_llvm(f, vector_bytes=64), clean(f.name), args)

    @LAUNCHER
    def launcher(worker: int, closure: int, extent: int) -> None:
        body = WORKER(worker)
        launch(lambda begin, end: body(closure, begin, end), extent)

    llvm.add_symbol(LAUNCH, ctypes.cast(launcher, ctypes.c_void_p).value)
    return call(emit_llvm(f, parallel_launch=LAUNCH), clean(f.name), args)


def run_python(f: PrimFunc, *args: Any) -> int:
    """Run `f` as Python code."""
    space: dict[str, Any] = {}
    exec(compile(emit_python(f), "<python>", "exec"), space)
    space[clean(f.name)](*(a.reshape(-1) if isinstance(a, np.ndarray) else a for a in args))
    return 0


@pytest.fixture
def machine() -> Callable[..., int]:
    """run_llvm: machine(f, *arrays)."""
    return run_llvm


@pytest.fixture(params=[run_llvm, run_python], ids=["llvm", "python"])
def run(request: pytest.FixtureRequest) -> Callable[..., int]:
    """Each way to run scalar code: run(f, *arrays)."""
    return request.param


@pytest.fixture
def assembly() -> Callable[[str], str]:
    """The assembly that LLVM makes of a text on this host."""

    def emit(text: str) -> str:
        module, target = optimised(text)
        return target.emit_assembly(module)

    return emit
