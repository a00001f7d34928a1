"""Write and read files of compiled networks: the plan, the kernels and the parameters.

A file begins like the file of a function (export.py): its format, a checksum, one line of JSON.
The kernels follow, each in the format of a function's file, and then the parameters. Packed
constants are not stored, because they are larger and quickly computed. Loading runs the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from minitvm.base import dtype

from .aligned import Array, empty_aligned
from .export import File, Json, opened, read, sealed, write
from .function import exported, loaded
from .network import Call, Library, NetworkPlan, Place, TensorSpec, check_plan
from .network_sizes import DynamicPlan, DynamicSpec, Extent, Shape, sized_network

MAGIC, FORMAT = b"minitvm network", 4
Plan: TypeAlias = NetworkPlan | DynamicPlan


def write_network(path: File, plan: Plan, lib: Library, params: Mapping[str, Array]) -> None:
    """Write a network with its kernels and these parameters to the file `path`.

    Raises BuildError if kernels of its target cannot be stored.
    """
    kernels = [exported(f) for f in lib.kernels]
    header = {
        "plan": plan_to_json(plan),
        "kernels": [len(k) for k in kernels],
        "params": list(params),
    }
    arrays = [np.ascontiguousarray(a).tobytes() for a in params.values()]
    write(path, sealed(MAGIC, FORMAT, header, *kernels, *arrays))


def read_network(path: File, what: str) -> tuple[Plan, Library, dict[str, Array]]:
    """Return the plan, the kernels and the parameters in a file, without compiling kernels.

    `what` names the file in errors. Raises the errors of load_network.
    """
    return opened(read(path), MAGIC, FORMAT, what, lambda h, data: _network(h, data, what))


def _network(header: Json, data: bytes, what: str) -> tuple[Plan, Library, dict[str, Array]]:
    plan = plan_from_json(header["plan"])
    kernels: list[bytes] = []
    at = 0
    for size in header["kernels"]:
        kernels.append(data[at : at + size])
        at += size
    params = _params(plan, header["params"], memoryview(data)[at:])
    lib = Library(tuple(loaded(k, what) for k in kernels))
    if isinstance(plan, NetworkPlan):
        check_plan(plan, lib)
    else:  # other sizes are checked when they occur
        for n in (1, *plan.special):
            check_plan(*sized_network(plan, lib, n)[:2])
    return plan, lib, params


def _params(plan: Plan, names: list[str], data: memoryview) -> dict[str, Array]:
    """Return the parameters in `data`, in arrays that are aligned to 64 bytes."""
    specs = {spec.name: spec for spec in plan.params}
    params: dict[str, Array] = {}
    at = 0
    for name in names:
        spec = specs[name]
        params[name] = empty_aligned(spec.shape, spec.dtype.numpy)
        stored = np.frombuffer(data, spec.dtype.numpy, params[name].size, at)
        params[name][...] = stored.reshape(spec.shape)
        at += spec.bytes
    return params


# --- plans ---------------------------------------------------------------------------------------


def plan_to_json(plan: Plan) -> Json:
    """Return a plan as JSON values; a dynamic extent is [scale, shift]."""
    tensors = {"inputs": plan.inputs, "outputs": plan.outputs, "params": plan.params}
    rest: Json
    match plan:
        case NetworkPlan():
            rest = {"arena_bytes": plan.arena_bytes}
        case DynamicPlan():
            special = [[n, _calls_to_json(calls)] for n, calls in plan.special.items()]
            rest = {"special": special, "largest": plan.largest}
    return {
        "name": plan.name,
        **{k: [_spec_to_json(s) for s in specs] for k, specs in tensors.items()},
        "calls": _calls_to_json(plan.calls),
        **rest,
    }


def _spec_to_json(spec: TensorSpec | DynamicSpec) -> list[Any]:
    shape = [[n.scale, n.shift] if isinstance(n, Extent) else n for n in spec.shape]
    return [spec.name, shape, str(spec.dtype), spec.limits]


def _calls_to_json(calls: tuple[Call, ...]) -> list[Any]:
    return [[c.kernel, [[p.space, p.at] for p in c.args], c.name, c.operations] for c in calls]


def plan_from_json(plan: Mapping[str, Any]) -> Plan:
    """Return the plan in the JSON values that plan_to_json returned."""
    name, params = str(plan["name"]), tuple(_spec(*values) for values in plan["params"])
    calls = tuple(_call(*values) for values in plan["calls"])
    if "special" not in plan:
        inputs, outputs = (
            tuple(_spec(*values) for values in plan[kind]) for kind in ("inputs", "outputs")
        )
        return NetworkPlan(name, inputs, outputs, params, calls, int(plan["arena_bytes"]))
    dynamic_inputs, dynamic_outputs = (
        tuple(_dynamic_spec(*values) for values in plan[kind]) for kind in ("inputs", "outputs")
    )
    special = {int(n): tuple(_call(*values) for values in rows) for n, rows in plan["special"]}
    largest = int(plan["largest"])
    return DynamicPlan(name, dynamic_inputs, dynamic_outputs, params, calls, special, largest)


def _dynamic_spec(name: str, shape: list[Any], kind: str, limits: list[int] | None) -> DynamicSpec:
    extents: Shape = tuple(Extent(*map(int, n)) if isinstance(n, list) else int(n) for n in shape)  # pyright: ignore[reportUnknownArgumentType]
    return DynamicSpec(str(name), extents, dtype(kind), _limits(limits))


def _spec(name: str, shape: list[int], kind: str, limits: list[int] | None) -> TensorSpec:
    return TensorSpec(str(name), tuple(map(int, shape)), dtype(kind), _limits(limits))


def _limits(limits: list[int] | None) -> tuple[int, int] | None:
    return None if limits is None else (int(limits[0]), int(limits[1]))


def _call(kernel: int, args: list[Any], name: str, operations: int) -> Call:
    places = tuple(Place(space, int(at)) for space, at in args)
    return Call(int(kernel), places, str(name), int(operations))
