"""The areas of main memory for the arguments of a program for the accelerator."""

from __future__ import annotations

from dataclasses import replace
from math import lcm, prod

from minitvm import accel, lowering, tir
from minitvm.base import BuildError

from ..common import clean
from .units import COPY


def areas(func: tir.PrimFunc, config: accel.Config) -> dict[tir.Buffer, accel.Area]:
    """Return the area of main memory of each argument.

    Its shape counts elements of the memory type with which the argument is loaded or stored.
    """
    transferred = _transferred(func)
    printer = func.printer()
    named_areas: dict[str, accel.Area] = {}
    area_of: dict[tir.Buffer, accel.Area] = {}
    for p in func.params:
        assert isinstance(p, tir.Buffer)
        kinds = transferred.get(p) or [_untouched(p, func)]
        name = printer.name(p) if printer.name(p).isidentifier() else clean(p.name)
        while name in accel.RESERVED_NAMES or name in named_areas:
            name += "_"
        shape = _shape(p, config.element_shape(kinds[0]))
        (area,) = accel.place(config, {name: (kinds[0], shape)}, tuple(named_areas.values()))
        area_of[p] = named_areas[name] = _aligned(area, kinds, config)
    return area_of


def _aligned(area: accel.Area, kinds: list[accel.Memory], config: accel.Config) -> accel.Area:
    """Return the area moved to the next address at which elements of all `kinds` may begin."""
    step = lcm(*(config.element_bytes(kind) for kind in kinds)) // config.element_bytes(area.memory)
    return replace(area, base=-(-area.base // step) * step)


def _transferred(func: tir.PrimFunc) -> dict[tir.Buffer, list[accel.Memory]]:
    """Return the element kinds of each argument's transfers; OUT comes first if it is stored."""
    kinds: dict[tir.Buffer, list[accel.Memory]] = {}
    for n in tir.walk(func.body):
        if isinstance(n, tir.Call) and n.name.endswith(f".{COPY}"):
            to, source = (a.first.buffer for a in n.args[:2] if isinstance(a, tir.View))
            kind = kind_of(to, source)
            if kind is accel.Memory.OUT:
                kinds.setdefault(to, []).insert(0, kind)
            else:
                kinds.setdefault(source, []).append(kind)
    return kinds


def kind_of(to: tir.Buffer, source: tir.Buffer) -> accel.Memory:
    """Return the memory whose element type a transfer has in main memory: OUT for a store."""
    memory = lowering.memory_of(to)
    if memory is None:
        return accel.Memory.OUT
    if memory is accel.Memory.ACC and str(source.dtype) == "int8":
        return accel.Memory.ACC_8BIT
    return memory


def _untouched(p: tir.Buffer, func: tir.PrimFunc) -> accel.Memory:
    """Return the kind of elements of an argument that no transfer moves."""
    if any(p is b for b in func.outputs):
        return accel.Memory.OUT
    return accel.Memory.ACC if str(p.dtype) == "int32" else accel.Memory.INP


def _shape(p: tir.Buffer, element: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of `p` counted in elements: (64, 1, 16) with elements (1, 16) is (64,)."""
    shape = tuple(n for n in p.shape if isinstance(n, int))
    if shape[-len(element) :] == element:
        return shape[: -len(element)]
    count, size = prod(shape), prod(element)
    if count % size:
        why = f"not a whole number of elements of {' x '.join(map(str, element))}"
        raise BuildError(f"argument {p.name} of shape {shape}", why, "pad it, and vta.pack it")
    return (count // size,)
