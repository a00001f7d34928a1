"""Write and read files of compiled networks: the plan, the kernels and the parameters.

A file begins like the file of a function (export.py): its format, a checksum, one line of JSON.
The kernels follow, each in the format of a function's file, and then the parameters. Packed
constants are not stored, because they are larger and quickly computed. Loading runs the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minitvm.base import dtype

from .aligned import Array, empty_aligned
from .export import File, Json, opened, read, sealed, write
from .function import exported, loaded
from .network import Call, Library, NetworkPlan, Place, TensorSpec, check_plan

MAGIC, FORMAT = b"minitvm network", 2


def write_network(path: File, plan: NetworkPlan, lib: Library, params: Mapping[str, Array]) -> None:
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


def read_network(path: File, what: str) -> tuple[NetworkPlan, Library, dict[str, Array]]:
    """Return the plan, the kernels and the parameters in a file, without compiling kernels.

    `what` names the file in errors. Raises the errors of load_network.
    """
    return opened(read(path), MAGIC, FORMAT, what, lambda h, data: _network(h, data, what))


def _network(header: Json, data: bytes, what: str) -> tuple[NetworkPlan, Library, dict[str, Array]]:
    plan = plan_from_json(header["plan"])
    kernels: list[bytes] = []
    at = 0
    for size in header["kernels"]:
        kernels.append(data[at : at + size])
        at += size
    params = _params(plan, header["params"], memoryview(data)[at:])
    lib = Library(tuple(loaded(k, what) for k in kernels))
    check_plan(plan, lib)
    return plan, lib, params


def _params(plan: NetworkPlan, names: list[str], data: memoryview) -> dict[str, Array]:
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


def plan_to_json(plan: NetworkPlan) -> Json:
    """Return a plan as JSON values."""
    tensors = {"inputs": plan.inputs, "outputs": plan.outputs, "params": plan.params}
    return {
        "name": plan.name,
        **{k: [[s.name, s.shape, str(s.dtype), s.limits] for s in v] for k, v in tensors.items()},
        "calls": [
            [c.kernel, [[p.space, p.at] for p in c.args], c.name, c.operations] for c in plan.calls
        ],
        "arena_bytes": plan.arena_bytes,
    }


def plan_from_json(plan: Mapping[str, Any]) -> NetworkPlan:
    """Return the plan in the JSON values that plan_to_json returned."""
    inputs, outputs, params = (
        tuple(_spec(*values) for values in plan[kind]) for kind in ("inputs", "outputs", "params")
    )
    calls = tuple(_call(*values) for values in plan["calls"])
    size = int(plan["arena_bytes"])
    return NetworkPlan(str(plan["name"]), inputs, outputs, params, calls, size)


def _spec(name: str, shape: list[int], kind: str, limits: list[int] | None) -> TensorSpec:
    low_high = None if limits is None else (int(limits[0]), int(limits[1]))
    return TensorSpec(str(name), tuple(map(int, shape)), dtype(kind), low_high)


def _call(kernel: int, args: list[Any], name: str, operations: int) -> Call:
    places = tuple(Place(space, int(at)) for space, at in args)
    return Call(int(kernel), places, str(name), int(operations))
