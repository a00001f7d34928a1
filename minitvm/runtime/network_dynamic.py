"""Run networks with a dynamic size, such as the batch or the length of a text."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from minitvm.base import ArgumentError

from .aligned import Array
from .arguments import as_array
from .export import File
from .function import prepacked
from .nd import NDArray
from .network import Call, Library, NetworkPlan, check_plan, packings
from .network_calls import CompiledCalls, PythonCalls
from .network_file import write_network
from .network_memory import Arenas, aligned, checked, empty
from .network_profile import Profile, profile_of
from .network_sizes import DynamicPlan, sized_network

MAX_SIZES = 64  # for so many sizes, a module remembers what depends on the size


@dataclass(frozen=True, slots=True)
class Sized:
    """A network for one value of its dynamic size n.

    plan, lib   with the shapes for this n
    blocks      the offset in bytes of each block in the arena
    """

    n: int
    plan: NetworkPlan
    lib: Library
    blocks: Sequence[int]
    calls: CompiledCalls | PythonCalls

    def run(self, arena: Array, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Make all calls; raise the exception of the first call that fails."""
        if isinstance(self.calls, CompiledCalls):
            self.calls.run(arena, inputs, outputs, self.blocks, self.n)
        else:
            self.calls.run(arena, inputs, outputs)


class DynamicModule:
    """A network for inputs of any size n >= 1: module(x) returns its output, or a tuple of several.

    n is found from the shapes of the inputs. Memory for intermediate tensors is planned when an n
    occurs for the first time; nothing is compiled. Several threads may call the module at the same
    time. The arrays of the parameters must not change.
    """

    def __init__(self, plan: DynamicPlan, lib: Library, params: Mapping[str, Array]) -> None:
        self.plan, self.lib = plan, lib
        missing = [spec.name for spec in plan.params if spec.name not in params]
        if missing:
            why = f"{', '.join(missing[:5])} without a value"
            raise ArgumentError(f"parameters of {plan.name}", why, "{name: array, ...}")
        self.params = {s.name: aligned(s, checked(s, params[s.name])) for s in plan.params}
        self._arenas = Arenas()
        self._lock = threading.Lock()
        self._sizes: OrderedDict[int, Sized] = OrderedDict()  # the last one used is at the end
        self._calls: dict[tuple[Call, ...], CompiledCalls] = {}
        self._packed: dict[tuple[str, tuple[int, ...]], list[Array]] = {}

    def at(self, n: int) -> Sized:
        """Return the network for one n: its shapes, its memory and its kernels.

        Raises ArgumentError if a kernel does not work for this n.
        """
        with self._lock:
            if n not in self._sizes:
                self._sizes[n] = self._sized(n)
            self._sizes.move_to_end(n)
            while len(self._sizes) > MAX_SIZES:
                self._sizes.popitem(last=False)
            return self._sizes[n]

    def __call__(self, *inputs: Any) -> Array | tuple[Array, ...]:
        """Run the network; return its output as a new array, or a tuple of several.

        Fitting arrays are read in place, others are copied.
        """
        sized, arrays = self._checked(inputs)
        outputs = [empty(spec) for spec in sized.plan.outputs]
        with self._arenas.lent(sized.plan.arena_bytes) as arena:
            sized.run(arena, arrays, outputs)
        results = tuple(a.view(NDArray) for a in outputs)
        return results[0] if len(results) == 1 else results

    def profile(self, *inputs: Any, number: int = 10) -> Profile:
        """Run the network `number` times and return the time that each kernel takes.

        Python makes the calls here, which adds some microseconds to each.
        """
        sized, arrays = self._checked(inputs)
        outputs = [empty(spec) for spec in sized.plan.outputs]
        with self._arenas.lent(sized.plan.arena_bytes) as arena:
            stamps = partial(self._python_calls(sized.plan, sized.lib).stamps, arena)
            return profile_of(sized.plan, sized.lib, partial(stamps, arrays, outputs), number)

    def export(self, path: File) -> None:
        """Write the network with its kernels and its parameters to one file, for load_network.

        Raises BuildError if kernels of its target cannot be stored.
        """
        write_network(path, self.plan, self.lib, self.params)

    # --- inside ----------------------------------------------------------------------------------

    def _checked(self, inputs: tuple[Any, ...]) -> tuple[Sized, list[Array]]:
        """Return the network for the size of `inputs`, and `inputs` as arrays for its kernels."""
        specs = self.plan.inputs
        arrays = [as_array(s.name, x) for s, x in zip(specs, inputs, strict=False)]
        sized = self.at(self.plan.size_of([*arrays, *inputs[len(specs) :]]))
        pairs = zip(sized.plan.inputs, arrays, strict=True)
        return sized, [aligned(spec, checked(spec, a)) for spec, a in pairs]

    def _sized(self, n: int) -> Sized:
        plan, lib, blocks = sized_network(self.plan, self.lib, n)
        check_plan(plan, lib)
        calls = self._compiled_calls(n) if self.lib.is_native else self._python_calls(plan, lib)
        return Sized(n, plan, lib, blocks, calls)

    def _compiled_calls(self, n: int) -> CompiledCalls:
        """Return compiled code for the calls at `n`; sizes without special calls share it."""
        calls = self.plan.calls_at(n)
        if calls not in self._calls:
            packs, complete = packings(calls, self.lib)
            self._calls[calls] = CompiledCalls(complete, self.lib)
            self._calls[calls].know([*self.params.values()], self._constants([*packs], self.lib))
        return self._calls[calls]

    def _python_calls(self, plan: NetworkPlan, lib: Library) -> PythonCalls:
        packs, complete = packings(plan.calls, lib)
        calls = PythonCalls(complete, lib)
        calls.know([*self.params.values()], self._constants([*packs], lib))
        return calls

    def _constants(self, packs: Sequence[tuple[int, tuple[int, ...]]], lib: Library) -> list[Array]:
        """Return the packed constants; kernels that pack parameters in the same way share them."""
        arrays, constants = [*self.params.values()], list[Array]()
        for number, params in packs:
            kernel = lib.kernels[number]
            key = str(kernel.func.prepack), params
            if key not in self._packed:
                self._packed[key] = prepacked(kernel, [arrays[k] for k in params])
            constants += self._packed[key]
        return constants
