"""Running things: compiled functions, arrays, devices, threads, machine code."""

from . import nd
from .function import Function, Times
from .jit import Machine, compile_ir, load_object
from .load import LAUNCH, load_native, load_python
from .nd import Device, NDArray, cpu
from .pool import num_threads, parallel_launch_address, set_num_threads

__all__ = [
    "LAUNCH",
    "Device",
    "Function",
    "Machine",
    "NDArray",
    "Times",
    "compile_ir",
    "cpu",
    "load_native",
    "load_object",
    "load_python",
    "nd",
    "num_threads",
    "parallel_launch_address",
    "set_num_threads",
]
