"""The runtime: compiled functions, arrays, devices, threads and loaded machine code."""

# pyright: reportUnusedImport=false

from . import nd
from .accelerated import AcceleratorFunction, SimulatedTimes, profiled, reset_profile
from .bench import Argument, Bench, Job, Outcome, difference
from .export import ForeignFileError, Package, machine_for
from .function import Function, Times, load
from .gpu import GpuFunction
from .gpu_device import device_name
from .gpu_resources import KernelResources, Resources
from .jit import LLVMSource, NativeCode, compile_ir, declared, load_object
from .loading import LAUNCH, Run, load_native, load_python, not_runnable, options_of
from .nd import Device, NDArray, cpu, device
from .network import Call, Library, NetworkPlan, Place, TensorSpec
from .network_cycles import CallCycles, Cycles
from .network_dynamic import DynamicModule
from .network_module import NetworkModule, create, load_network
from .network_profile import CallTime, Profile, Traffic, traffic
from .network_sizes import DynamicPlan, DynamicSpec, Extent, Shape
from .numba_load import load_numba
from .packed import CALL_PACKED
from .pool import num_threads, parallel_launch_address, set_num_threads
