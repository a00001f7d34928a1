"""Where the arguments of a program for the accelerator lie in main memory."""

from __future__ import annotations

from dataclasses import replace
from math import lcm, prod

from minitvm.accel import RESERVED_NAMES, Area, Config, Memory, place
from minitvm.base import BuildError
from minitvm.lowering import COPY, memory_of
from minitvm.tir import Buffer, Call, PrimFunc, first_element, walk

from .common import clean


def areas(func: PrimFunc, config: Config) -> dict[Buffer, Area]:
    """An area of main memory for each argument, of the elements that it is loaded or stored as."""
    transferred = _transferred(func)
    printer = func.printer()
    placed: dict[str, Area] = {}
    found: dict[Buffer, Area] = {}
    for p in func.params:
        assert isinstance(p, Buffer)
        kinds = transferred.get(p) or [_untouched(p, func)]
        name = printer.name(p) if printer.name(p).isidentifier() else clean(p.name)
        while name in RESERVED_NAMES or name in placed:
            name += "_"
        shape = _shape(p, config.element_shape(kinds[0]))
        (area,) = place(config, {name: (kinds[0], shape)}, tuple(placed.values()))
        found[p] = placed[name] = _aligned(area, kinds, config)
    return found


def _aligned(area: Area, kinds: list[Memory], config: Config) -> Area:
    """The area where elements of all these kinds may begin, at its place or behind it."""
    step = lcm(*(config.element_bytes(kind) for kind in kinds)) // config.element_bytes(area.memory)
    return replace(area, base=-(-area.base // step) * step)


def _transferred(func: PrimFunc) -> dict[Buffer, list[Memory]]:
    """What each argument is loaded as, at first and later; OUT before that if it is stored."""
    found: dict[Buffer, list[Memory]] = {}
    for n in walk(func.body):
        if isinstance(n, Call) and n.name.endswith(f".{COPY}"):
            to, source = (first_element(a).buffer for a in n.args[:2] if isinstance(a, Call))
            kind = kind_of(to, source)
            if kind is Memory.OUT:
                found.setdefault(to, []).insert(0, kind)
            else:
                found.setdefault(source, []).append(kind)
    return found


def kind_of(to: Buffer, source: Buffer) -> Memory:
    """The elements that a transfer moves, as they lie in main memory: OUT if it is a store."""
    memory = memory_of(to)
    if memory is None:
        return Memory.OUT
    return Memory.ACC_8BIT if memory is Memory.ACC and str(source.dtype) == "int8" else memory


def _untouched(p: Buffer, func: PrimFunc) -> Memory:
    """The elements of an argument that nothing moves."""
    if any(p is b for b in func.outputs):
        return Memory.OUT
    return Memory.ACC if str(p.dtype) == "int32" else Memory.INP


def _shape(p: Buffer, element: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an argument in elements. (64, 1, 16) of (1, 16) is (64,)"""
    shape = tuple(n for n in p.shape if isinstance(n, int))
    if shape[-len(element) :] == element:
        return shape[: -len(element)]
    count, size = prod(shape), prod(element)
    if count % size:
        raise BuildError(
            f"argument {p.name} of shape {shape}",
            f"its {count} numbers are no whole elements of {' x '.join(map(str, element))}",
            "pad it, and pack it",
        )
    return (count // size,)
