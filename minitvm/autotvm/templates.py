"""Templates: functions that make a schedule from a configuration.

@autotvm.template("lesson/matmul")
def matmul(n):
    ...                                     the formula and s = te.create_schedule(C.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    return s, [A, B, C]
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FunctionType
from typing import Any, TypeAlias, cast

from minitvm import te, tir
from minitvm.base import ArgumentError, Target

from .dispatch import ApplyConfig, Workload, query
from .space import Config

Instance: TypeAlias = tuple[te.Schedule, list[te.Tensor]]
TENSOR = "TENSOR"


class Template:
    """A function that returns a schedule and the arguments of its program.

    A call uses the configuration that the dispatch contexts have for its arguments.
    code_hash    identifies the source of the function; configurations of other sources are invalid
    """

    def __init__(self, name: str, make: Callable[..., Any]) -> None:
        self.name, self.make = name, make
        self.code_hash = f"{zlib.crc32(_source(make).encode()):08x}"
        self.__doc__ = make.__doc__

    def __call__(self, *args: Any) -> Instance:
        target = Target.current()
        cfg = query(target, (self.name, *args_to_workload(args)))
        return self.instantiate(cfg, args)

    def instantiate(self, cfg: Config, args: Sequence[Any]) -> Instance:
        """Call the function with the configuration `cfg`; check what it returns."""
        with ApplyConfig(cfg):
            result = self.make(*(tensor_of(a) for a in args))
        match result:
            case (te.Schedule() as s, [*tensors]):
                return s, tensors
            case _:
                why = f"it must return a schedule and the arguments of the program, not {result!r}"
                raise ArgumentError(f"template {self.name!r}", why, "return s, [A, B, C]")

    def __repr__(self) -> str:
        return f"template {self.name!r}"


TEMPLATES: dict[str, Template] = {}


def template(name: str) -> Callable[[Callable[..., Any]], Template]:
    """Register a function as the template `name`; replace any earlier template of that name."""

    def registered(make: Callable[..., Any]) -> Template:
        TEMPLATES[name] = Template(name, make)
        return TEMPLATES[name]

    return registered


def find_template(name: str) -> Template:
    """Return the template of this name; raise ArgumentError if the name is unknown."""
    if name not in TEMPLATES:
        known = ", ".join(sorted(TEMPLATES)) or "@autotvm.template(name) before the function"
        raise ArgumentError(f"template {name!r}", "there is no such template", known)
    return TEMPLATES[name]


def clear() -> None:
    """Forget all templates."""
    TEMPLATES.clear()


def args_to_workload(args: Sequence[Any]) -> Workload:
    """Return the arguments of a template as JSON values; a tensor becomes its shape and type."""
    return tuple(map(_plain, args))


def tensor_of(value: Any) -> Any:
    """Return a placeholder for a value such as ("TENSOR", (512, 512), "float32")."""
    match value:
        case (("TENSOR"), (*shape,), str(dtype)):
            return te.placeholder(tuple(shape), dtype)
        case _:
            return value


def _plain(value: Any) -> Any:
    match value:
        case te.Tensor():
            return (TENSOR, tuple(_size(value, n) for n in value.shape), str(value.dtype))
        case list() | tuple():
            return tuple(map(_plain, cast("Sequence[Any]", value)))
        case None | bool() | int() | float() | str():
            return value
        case _:
            why = "an argument of a template is a number, a string, a tensor or a list of these"
            raise ArgumentError(f"argument {value!r}", why)


def _size(t: te.Tensor, n: tir.Index) -> int:
    if isinstance(n, int):
        return n
    raise ArgumentError(f"argument {t.name}", "a size is symbolic", "a constant shape")


def _source(make: Callable[..., Any]) -> str:
    """Return a text that differs for functions that may do different things.

    It has the values of variables that the function takes from a function around it.
    """
    inner = inspect.unwrap(make)
    if not isinstance(inner, FunctionType):
        return _described(inner)
    outer = inspect.getclosurevars(inner).nonlocals
    try:
        text = inspect.getsource(inner)
    except OSError:  # typed in at a prompt
        keywords = (inner.__kwdefaults__ or {}).items()
        text = _described((inner.__code__, inner.__defaults__, *keywords))
    return text + _described(tuple(outer.items())) * bool(outer)


def _described(value: Any) -> str:
    """Return a text for a value that is the same in each process; objects count by their type."""
    match value:
        case None | bool() | int() | float() | complex() | str() | bytes():
            return repr(value)
        case tuple():
            return f"({','.join(map(_described, cast('Sequence[Any]', value)))})"
        case frozenset():
            return f"{{{','.join(sorted(map(_described, cast('Iterable[Any]', value))))}}}"
        case CodeType():
            return f"{value.co_code.hex()}{value.co_names}{_described(value.co_consts)}"
        case FunctionType():
            return _described(value.__code__)
        case _:
            return type(cast("object", value)).__qualname__
