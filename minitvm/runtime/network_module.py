"""Run networks: set inputs, run, get outputs, as with TVM's graph executor."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minitvm.base import ArgumentError

from .aligned import Array
from .arguments import as_array
from .export import File
from .function import prepacked
from .nd import Device, NDArray
from .network import Library, NetworkPlan, TensorSpec, check_plan, packings
from .network_calls import CompiledCalls, PythonCalls
from .network_cycles import Cycles, cycles_of
from .network_dynamic import DynamicModule
from .network_file import read_network, write_network
from .network_memory import Arenas, aligned, checked, empty
from .network_profile import Profile, profile_of
from .network_sizes import DynamicPlan


def create(plan: NetworkPlan, lib: Library, device: Device | None = None) -> NetworkModule:
    """Return a module that runs the network `plan` with the kernels of `lib`.

    Raises BuildError if the plan does not fit the kernels.
    """
    if device is not None and (not isinstance(device, Device) or device.kind != "cpu"):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(f"create on {device}", "networks run on the CPU only", "cpu(0)")
    if not isinstance(plan, NetworkPlan) or not isinstance(lib, Library):  # pyright: ignore[reportUnnecessaryIsInstance]
        what = f"create({type(plan).__name__}, {type(lib).__name__})"
        raise ArgumentError(what, "not a plan and its kernels", "what compiler.build returns")
    return NetworkModule(plan, lib)


def load_network(path: File) -> NetworkModule | DynamicModule:
    """Load the module that `export` of a module has written, without compiling its kernels.

    Loading runs the code in the file: load only files that you trust. Raises ArgumentError if the
    file does not exist; BuildError if it is damaged, or made for another CPU or operating system.
    """
    plan, lib, params = read_network(path, f"load_network({str(path)!r})")
    if isinstance(plan, DynamicPlan):
        return DynamicModule(plan, lib, params)
    module = create(plan, lib)
    module.set_input(**params)
    return module


class NetworkModule:
    """A network with its own memory for intermediate tensors, inputs and outputs.

    Several threads may call it, module(x), at the same time: each call has its own arena. A call
    reads the parameters that are set when it begins. `set_input`, `run` and `get_output` share the
    module's inputs and outputs, so that only one thread at a time should use these three.
    """

    def __init__(self, plan: NetworkPlan, lib: Library) -> None:
        check_plan(plan, lib)
        self.plan, self.lib = plan, lib
        self._lock = threading.Lock()
        self._packings, calls = packings(plan.calls, lib)
        kind = CompiledCalls if lib.is_native else PythonCalls
        self._calls = kind(calls, lib)
        self._arenas = Arenas()
        self._inputs = [empty(spec) for spec in plan.inputs]
        self._outputs = [empty(spec) for spec in plan.outputs]
        self._params = [_NOTHING for _ in plan.params]
        self._constants = [_NOTHING for k, _ in self._packings for _ in lib.kernels[k].func.packed]
        tensors = ((plan.inputs, False), (plan.params, True))
        self._named = {
            s.name: (s, n, is_param) for specs, is_param in tensors for n, s in enumerate(specs)
        }
        self._missing = dict.fromkeys(self._named)  # names of unset inputs and parameters, in order

    @property
    def params(self) -> dict[str, Array]:
        """The parameters that have been set. Their arrays must not change."""
        pairs = zip(self.plan.params, self._params, strict=True)
        return {spec.name: a for spec, a in pairs if spec.name not in self._missing}

    def set_input(self, key: str | int | None = None, value: Any = None, /, **values: Any) -> None:
        """Set inputs and parameters: set_input("data", x), set_input(0, x), set_input(**params).

        Inputs are copied. Parameters are packed for the kernels that read them; their arrays must
        not change afterwards. Numbers are converted to the element type of the tensor, but not
        from float to int. Raises ArgumentError for unknown names and arrays that do not fit.
        """
        if key is not None:
            values = {self._name(key): value, **values}
        arrays = {name: checked(self._tensor(name)[0], a) for name, a in values.items()}
        with self._lock:
            changed: set[int] = set()
            for name, a in arrays.items():
                spec, number, is_param = self._tensor(name)
                if is_param:
                    self._params[number] = aligned(spec, a)
                    changed.add(number)
                else:
                    np.copyto(self._inputs[number], a, casting="same_kind")
                self._missing.pop(name, None)
            if changed:
                self._pack(changed)

    def run(self, **inputs: Any) -> None:
        """Set `inputs`, if any, and run the network; get_output returns its results."""
        if inputs:
            self.set_input(**inputs)
        self._check_ready(self._missing)
        with self._lock, self._arenas.lent(self.plan.arena_bytes) as arena:
            self._calls.run(arena, self._inputs, self._outputs)

    def get_output(self, index: int, out: Any = None) -> Array:
        """Return a copy of an output of the last run: a new array, or `out` if it is given."""
        spec = _at(self.plan.outputs, index, "output")
        output = self._outputs[index]
        if out is None:
            return output.copy().view(NDArray)
        destination = as_array("out", out)
        if destination.shape != spec.shape or destination.dtype != spec.dtype.numpy:
            why = f"has shape {destination.shape} and dtype {destination.dtype}"
            raise ArgumentError(f"get_output({index}): out", why, f"nd.empty({spec.shape})")
        np.copyto(destination, output)
        return out

    def get_num_outputs(self) -> int:
        """Return how many outputs the network has."""
        return len(self.plan.outputs)

    def __call__(self, *inputs: Any) -> Array | tuple[Array, ...]:
        """Run the network on `inputs`; return its output as a new array, or a tuple of several.

        Fitting arrays are read in place, others are copied. The inputs that set_input has stored
        and the outputs that get_output returns do not change.
        """
        checked_inputs = self._checked(inputs)
        outputs = [empty(spec) for spec in self.plan.outputs]
        with self._arenas.lent(self.plan.arena_bytes) as arena:
            self._calls.run(arena, checked_inputs, outputs)
        results = tuple(a.view(NDArray) for a in outputs)
        return results[0] if len(results) == 1 else results

    def profile(self, *inputs: Any, number: int = 10) -> Profile:
        """Run the network `number` times and return the time that each kernel takes."""
        checked_inputs = self._checked(inputs)
        outputs = [empty(spec) for spec in self.plan.outputs]
        with self._arenas.lent(self.plan.arena_bytes) as arena:
            stamps = partial(self._calls.stamps, arena, checked_inputs, outputs)
            return profile_of(self.plan, self.lib, stamps, number)

    @property
    def cycles(self) -> Cycles:
        """The simulated cycles of each call on the accelerator, for networks of target "vta"."""
        return cycles_of(self.plan, self.lib)

    def export(self, path: File) -> None:
        """Write the network with its kernels and its parameters to one file, for load_network.

        Raises BuildError if kernels of its target cannot be stored.
        """
        write_network(path, self.plan, self.lib, self.params)

    # --- inside ----------------------------------------------------------------------------------

    def _checked(self, inputs: tuple[Any, ...]) -> list[Array]:
        """Return `inputs` as arrays for the kernels; raise ArgumentError if they do not fit."""
        specs = self.plan.inputs
        if len(inputs) != len(specs):
            why = f"takes {len(specs)} inputs, {len(inputs)} given"
            raise ArgumentError(f"{self.plan.name}({', '.join(map(str, specs))})", why)
        self._check_ready(name for name in self._missing if self._tensor(name)[2])
        return [aligned(s, checked(s, a)) for s, a in zip(specs, inputs, strict=True)]

    def _check_ready(self, missing: Iterable[str]) -> None:
        for name in missing:
            fix = f"set_input({name!r}, value)"
            raise ArgumentError(f"run of {self.plan.name}", f"{name} is not set", fix)

    def _pack(self, changed: set[int]) -> None:
        """Pack the constants that depend on the parameters whose numbers are in `changed`."""
        for (number, params), first in self._packings.items():
            names = (self.plan.params[n].name for n in params)
            if changed.isdisjoint(params) or any(n in self._missing for n in names):
                continue
            packed = prepacked(self.lib.kernels[number], [self._params[n] for n in params])
            self._constants[first : first + len(packed)] = packed
        self._calls.know(self._params, self._constants)

    def _name(self, key: str | int) -> str:
        return key if isinstance(key, str) else _at(self.plan.inputs, key, "input").name

    def _tensor(self, name: str) -> tuple[TensorSpec, int, bool]:
        """Return the input or parameter `name`, its number, and whether it is a parameter."""
        if name not in self._named:
            known = ", ".join(spec.name for spec in self.plan.inputs)
            why = f"its inputs: {known}; it also has {len(self.plan.params)} parameters"
            raise ArgumentError(f"{self.plan.name}: no input or parameter {name!r}", why)
        return self._named[name]


_NOTHING = np.empty(0, np.uint8)  # a parameter or a constant that is not set


def _at(specs: Sequence[TensorSpec], index: Any, kind: str) -> TensorSpec:
    """Return specs[index]; raise ArgumentError unless `index` is an int from 0 to the last one."""
    if not isinstance(index, int) or not 0 <= index < len(specs):
        why = f"the network has {len(specs)}, numbered from 0"
        raise ArgumentError(f"{kind} {index!r}", why)
    return specs[index]
