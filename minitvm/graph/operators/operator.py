"""What a graph knows of an operator, and how a node gets its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Literal, TypeAlias

from minitvm import te
from minitvm.base import GraphError, TVMError

from ..node import Array, Node, TensorType

Axes: TypeAlias = Literal["any", "images", "axis", "fixed"]


class Fusion(IntEnum):
    """How the elements of a result depend on those of the inputs: what an operator fuses with.

    The kinds and their order are those of TVM's FuseOps.
    """

    ELEMENTWISE = 0  # on the elements at the same place
    BROADCAST = 1  # the same, with inputs that broadcast
    INJECTIVE = 2  # each on one element, at some other place: transpose, reshape, concatenate
    REDUCTION = 3  # on many elements: sum, max
    ANCHOR = 4  # a convolution, a product, a pooling: elementwise operators after it fuse with it
    OPAQUE = 5  # nothing fuses with it


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: everything that graphs, passes and tests need to know of it.

    formula    the definition in tensor expressions: formula(*tensors, **attrs). The shape and the
               element type of a node are those of the tensor that it returns
    reference  the same in numpy
    fusion     what it can be fused with
    axes       how its arguments change when the dimensions of its input are permuted: "any": not at
               all; "images": its attribute "layout" changes; "axis": its attributes that name
               dimensions change; "fixed": its input cannot be permuted
    """

    name: str
    formula: Callable[..., te.Tensor]
    reference: Callable[..., Array]
    fusion: Fusion
    axes: Axes = "fixed"


def frozen(value: Any) -> Any:
    """Return an attribute as an immutable value: lists to tuples, numpy numbers to Python's."""
    if isinstance(value, list | tuple):
        return tuple(frozen(part) for part in value)  # pyright: ignore[reportUnknownVariableType]
    return value.item() if hasattr(value, "item") else value


def type_of(operator: Operator, inputs: Sequence[Node], attrs: Mapping[str, Any]) -> TensorType:
    """Return the type of a node; GraphError if the operator does not accept these arguments."""
    types = tuple(node.type for node in inputs)
    try:
        return _inferred(operator.name, operator.formula, types, tuple(attrs.items()))
    except (TVMError, TypeError, ValueError) as e:
        shown = ", ".join(map(str, types[:4])) + ", ..." * (len(types) > 4)
        what, fix = f"{operator.name} of {shown}", ""
        why = str(e)
        if isinstance(e, TVMError):
            what, why, fix = f"{what}: {e.args[0]}", e.args[1], e.args[2]
        raise GraphError(what, why, fix) from e


@cache
def _inferred(
    name: str,
    formula: Callable[..., te.Tensor],
    types: tuple[TensorType, ...],
    attrs: tuple[tuple[str, Any], ...],
) -> TensorType:
    tensors = [te.placeholder(t.shape, t.dtype, name=f"x{k}") for k, t in enumerate(types)]
    result = formula(*tensors, **dict(attrs))
    if not isinstance(result, te.Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GraphError(name, "its formula does not return one tensor")
    sizes = [n for n in result.shape if isinstance(n, int)]
    return TensorType(tuple(sizes), result.dtype)
