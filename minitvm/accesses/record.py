"""Record the accesses of a program by running instrumented machine code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate
from numbers import Integral
from typing import Any, TypeAlias, cast

import numpy as np

from minitvm import driver, lowering, te, tensor, tir
from minitvm.base import ArgumentError, LoweringError, check_unmasked

from .trace import AccessTrace, Array, Iterations, Placed

Execute: TypeAlias = Callable[[tir.PrimFunc, list[Any], list[Array]], list[Array]]
PAGE = 4096  # bytes; the address of every buffer is a multiple of PAGE
LIMIT = 50_000_000


def record(
    s: te.Schedule | tir.PrimFunc,
    args: Sequence[tensor.Tensor | tir.Var] | None = None,
    *,
    sizes: Mapping[Any, int] | None = None,
    data: Mapping[Any, Any] | None = None,
    limit: int = LIMIT,
    execute: Execute | None = None,
) -> AccessTrace:
    """Record the accesses of one run of a schedule, or of a program without vectors.

    args     the tensors to pass, as for tvm.build; by default all inputs, then all outputs
    sizes    the value of each symbolic size, by variable or name: {"n": 128}
    data     arrays for the arguments, by tensor or name; all others are filled with zeros, which
             matters only if indices or conditions depend on data
    limit    the maximum number of events; each access and each iteration of a loop is an event
    execute  runs the instrumented program, as execute(program, inputs, results); it returns the
             results, which are zeros before. By default this process compiles and runs it

    The accesses of `PrimFunc.prepack`, which runs once before the calls, are not recorded.

    Raises ArgumentError if there are more than `limit` events, or if a size is missing or wrong.
    Raises LoweringError for loops bound to threads and for calls with pointer arguments, such as
    those of tensorize.
    """
    if type(limit) is not int or limit < 0:
        raise ArgumentError(f"limit={limit!r}", "not an integer >= 0", f"limit={LIMIT}")
    for what, argument in (("sizes", sizes), ("data", data)):
        if not isinstance(argument, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"{what}={argument!r}", "not a dict", f'{what}={{"n": ...}}')
    if isinstance(s, tir.PrimFunc):
        func = _flat(s)
        args = cast("Sequence[Any]", func.params)
    else:
        args = _every_tensor(s) if args is None else args
        func = driver.lower(s, args, passes=lowering.PASSES["python"])
    inputs = _arguments(func, args, sizes or {}, data or {})
    func, inputs = _packed(func, inputs)
    values = tir.sizes_of(func, tuple(inputs))
    least = lowering.known_stores(tir.substitute(func.body, values))
    if least > limit:
        raise _too_many(func, f"at least {least} stores", limit)
    recording = lowering.record_accesses(func)
    events, numbers, flops = _run(recording, inputs, limit, execute or _here())
    return _trace(func, recording, events, numbers, flops, values)


def _every_tensor(s: te.Schedule) -> list[tensor.Tensor]:
    """Return all inputs of the schedule, then all outputs."""
    if not isinstance(s, te.Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]  users pass C.op
        return []
    inputs = [x.op for x in s.state.stages if isinstance(x.op, tensor.PlaceholderOp)]
    return [tensor.tensor_of(op, n) for op in (*inputs, *s.outputs) for n in range(len(op.dtypes))]


def _flat(func: tir.PrimFunc) -> tir.PrimFunc:
    """Return the program with one flat offset in each access; flatten it only if necessary."""
    used = [n for n in tir.walk(func.body) if isinstance(n, tir.Load | tir.Store)]
    is_flat = all(len(n.indices) == 1 for n in used)
    return func if is_flat else replace(func, body=lowering.flatten(func.body))


def _arguments(
    func: tir.PrimFunc, args: Sequence[Any], sizes: Mapping[Any, int], data: Mapping[Any, Any]
) -> list[Any]:
    """Return the arguments of the call: scalars, arrays from `data`, zeros for other buffers."""
    arrays: dict[tir.Buffer, Array] = {}
    for p, arg in zip(func.params, args, strict=True):
        values_given = [data[key] for key in (arg, p, p.name) if key in data]
        if values_given and isinstance(p, tir.Buffer):
            arrays[p] = np.asarray(check_unmasked(f"data: {p.name}", values_given[0]), order="C")
    keys = {key for p, arg in zip(func.params, args, strict=True) for key in (arg, p, p.name)}
    _all_known("data", data, keys, [p.name for p in func.params])
    values = _sizes(func, sizes, arrays)
    return [
        values[p] if isinstance(p, tir.Var) else arrays[p] if p in arrays else _zeros(p, values)
        for p in func.params
    ]


def _packed(func: tir.PrimFunc, inputs: list[Any]) -> tuple[tir.PrimFunc, list[Any]]:
    """Return the program and its arguments, with the packed constants appended to both."""
    if func.prepack is None:
        return func, inputs
    for b in func.packed:
        if b.strides:
            why = "it is a constant with storage_align, which is packed before the calls"
            raise LoweringError(f"a recording with {b.name}", why, "transform_layout, with gaps")
    fixed = [a for p, a in zip(func.params, inputs, strict=True) if func.is_constant(p)]
    packed = [_zeros(b, {}) for b in func.packed]
    tir.interpret(_flat(func.prepack), *fixed, *packed, flat=True)
    main = replace(func, params=(*func.params, *func.packed), constants=(), prepack=None)
    return main, [*inputs, *packed]


def _sizes(
    func: tir.PrimFunc, sizes: Mapping[Any, int], arrays: Mapping[tir.Buffer, Array]
) -> dict[tir.Var, int]:
    """Map each scalar and symbolic size to its value, given or read from the shape of an array.

    Raises ArgumentError if a value is missing or is not an integer.
    """
    variables = [v for v in (*func.params, *func.sizes) if isinstance(v, tir.Var)]
    values: dict[tir.Var, int] = {}
    for b, array in arrays.items():
        values |= {
            n: m for n, m in zip(b.shape, array.shape, strict=False) if isinstance(n, tir.Var)
        }
    values |= {v: sizes[key] for v in variables for key in (v.name, v) if key in sizes}
    for v, n in values.items():
        if isinstance(n, bool) or not isinstance(n, Integral):
            raise ArgumentError(f"sizes: {v.name} = {n!r}", "not an integer")
    names = [v.name for v in variables]
    _all_known("sizes", sizes, {*variables, *names}, names)
    for v in variables:
        if v not in values:
            fix = f"sizes={dict.fromkeys(names, 64)}"
            raise ArgumentError(f"sizes: {v.name!r}", "its value is not given", fix)
    return {v: int(n) for v, n in values.items()}


def _all_known(what: str, named: Mapping[Any, Any], keys: set[Any], names: list[str]) -> None:
    """Raise ArgumentError for the first key of `named` that is not in `keys`."""
    for key in named:
        if key not in keys:
            known = f"one of {', '.join(names)}" if names else "leave it out"
            name = getattr(key, "name", key)
            why = "no argument or size of the program has this name"
            raise ArgumentError(f"{what}: {name!r}", why, known)


def _zeros(b: tir.Buffer, sizes: Mapping[tir.Var, int]) -> Array:
    """Return an array of zeros for a buffer; raise ArgumentError if the sizes give it no shape."""
    shape = [tir.substitute(n, sizes) for n in b.shape]
    if any(not isinstance(n, int) or n < 0 for n in shape):
        shown = ", ".join(f"{v.name} = {n}" for v, n in sizes.items())
        raise ArgumentError(f"sizes: {shown}", f"{b.name} cannot have the shape {tuple(shape)}")
    return np.zeros(shape, b.dtype.numpy)


def _too_many(func: tir.PrimFunc, count: str, limit: int) -> ArgumentError:
    """Return the error for a program that has more accesses than `limit`."""
    fix = "use smaller sizes, or a larger limit=..."
    return ArgumentError(f"the accesses of {func.name}", f"{count}, the limit is {limit}", fix)


def _here() -> Execute:
    """Return a function that compiles and runs a program in this process."""
    built = cache(partial(driver.build, target="llvm -num-cores=1"))

    def execute(func: tir.PrimFunc, inputs: list[Any], results: list[Array]) -> list[Array]:
        built(func)(*inputs, *results)
        return results

    return execute


def _run(
    recording: lowering.Recording, inputs: list[Any], limit: int, execute: Execute
) -> tuple[Array, Array, int]:
    """Run the recording program and return (events, values, number of operations).

    The first run counts the events, and the second run stores them. Raises ArgumentError if there
    are more than `limit` events.
    """
    func = recording.func
    outputs = {id(b) for b in func.outputs}
    capacity = 0
    while True:
        args = [
            a.copy() if id(p) in outputs else a for p, a in zip(func.params, inputs, strict=False)
        ]
        results = [
            np.zeros(capacity, np.int32),
            np.zeros(capacity, np.int64),
            np.zeros(2, np.int64),
        ]
        events, values, counts = execute(func, args, results)
        total, flops = counts.tolist()
        if total > limit:
            raise _too_many(func, f"{total} events", limit)
        if total <= capacity:
            return events[:total], values[:total], flops
        capacity = total


# --- what was recorded ---------------------------------------------------------------------------


def _trace(
    func: tir.PrimFunc,
    recording: lowering.Recording,
    events: Array,
    values: Array,
    flops: int,
    sizes: Mapping[tir.Var, int],
) -> AccessTrace:
    """Make the trace of a run from its events: accesses and starts of iterations."""
    is_access = events >= 0
    before = np.cumsum(is_access)
    loops: list[Iterations] = []
    for k, loop in enumerate(recording.loops):
        begins = np.flatnonzero(events == -1 - k)
        loops.append(Iterations(loop.name, loop.line, loop.around, before[begins], values[begins]))
    site, index = events[is_access], values[is_access]
    buffers = list(dict.fromkeys(_buffers(func)))
    owner = np.array([buffers.index(p.buffer) for p in recording.sites], np.int32)
    buffer = owner[site]
    placed = _placed(func, buffers, _used(buffer, index, len(buffers)), sizes)
    bases, widths = (
        np.array([getattr(b, f) for b in placed], np.int64) for f in ("base", "itemsize")
    )
    address = bases[buffer] + index * widths[buffer]
    write = np.array([p.write for p in recording.sites], np.bool_)[site]
    sites, all_loops = recording.sites, tuple(loops)
    return AccessTrace(
        site, buffer, index, address, write, sites, tuple(placed), all_loops, flops, func
    )


def _buffers(func: tir.PrimFunc) -> Iterator[tir.Buffer]:
    """Yield the buffers that are parameters of `func`, then those that it allocates."""
    yield from (p for p in func.params if isinstance(p, tir.Buffer))
    yield from (n.buffer for n in tir.walk(func.body) if isinstance(n, tir.Allocate))


def _used(buffer: Array, index: Array, count: int) -> list[int]:
    """Return for each of `count` buffers the largest accessed index + 1; 0 without accesses."""
    ends = np.zeros(count, np.int64)
    np.maximum.at(ends, buffer, index + 1)
    return ends.tolist()


def _placed(
    func: tir.PrimFunc, buffers: list[tir.Buffer], used: list[int], sizes: Mapping[tir.Var, int]
) -> list[Placed]:
    """Place the buffers one after another in memory, each at the start of a page.

    used: for each buffer, the number of elements to assume if its size is not constant.
    """
    printer, shapes, spans = func.printer(), list[tuple[int, ...]](), list[int]()
    for b, most in zip(buffers, used, strict=True):
        extents = [tir.upper_bound(tir.substitute(n, sizes)) for n in b.shape]
        span = tir.upper_bound(tir.substitute(tir.elements(b), sizes))
        known = [n for n in (*extents, span) if isinstance(n, int)]
        fixed = len(known) == len(extents) + 1
        shapes.append(tuple(known[:-1]) if fixed else (most,))
        spans.append((known[-1] if fixed else most) * b.dtype.bytes)
    pages = [max(1, -(-span // PAGE)) for span in spans]
    bases = [PAGE * n for n in accumulate(pages, initial=1)]
    return [
        Placed(printer.name(b), shape, b.dtype, base, not any(b is p for p in func.params))
        for b, shape, base in zip(buffers, shapes, bases, strict=False)
    ]
