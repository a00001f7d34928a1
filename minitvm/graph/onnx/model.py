"""The records of an ONNX model, which read.py makes from a file and convert.py makes a Graph of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from minitvm.base import BFLOAT16, GraphError

from ..node import Array

TYPES = {  # TensorProto.DataType -> element type; the others have none here
    **{1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64"},
    **{9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: BFLOAT16},
}
# what definitions of operators call them, where it is not the name above
DTYPES = {"tensor(float)": "float32", "tensor(double)": "float64"}


@dataclass(slots=True)
class Budget:
    """The bytes that a model may take; they are counted before memory is allocated."""

    total: int
    used: int = 0

    def check(self, what: str, size: int, tensor: str = "it") -> None:
        """Raise GraphError if there are no `size` bytes left for `what`, or for a tensor of it."""
        if self.used + size > self.total:
            used = f", of which {self.used:,} are in use" if self.used else ""
            why = f"{tensor} needs {size:,} bytes; a model may take {self.total:,}{used}"
            raise GraphError(what, why, "smaller shapes, or from_onnx(model, budget=...)")

    def spend(self, what: str, size: int) -> None:
        """Count `size` bytes for `what`; raise GraphError if they are not left."""
        self.check(what, size)
        self.used += size


@dataclass(frozen=True, slots=True)
class Declared:
    """An input or output as the model declares it.

    sizes   a string is the name of a dimension that is not fixed; "" has no name. None if the
            model does not say how many dimensions there are
    """

    name: str
    dtype: str
    sizes: tuple[int | str, ...] | None


@dataclass(frozen=True, slots=True)
class Formal:
    """What ONNX's definition of an operator says of one input.

    dtypes  the element types that it may have
    kind    the name of its type in the definition; inputs of the same kind have the same type
    """

    dtypes: frozenset[str]
    kind: str
    optional: bool


@dataclass(frozen=True, slots=True)
class Body:
    """Nodes with inputs and outputs of their own: a subgraph, or the definition of an operator."""

    inputs: tuple[str, ...]
    constants: Mapping[str, Array]
    calls: tuple[Call, ...]
    outputs: tuple[str, ...]


# the element type and the shape of each input of a node; None if it is left out
Types: TypeAlias = Sequence[tuple[str, tuple[int, ...]] | None]


@dataclass(frozen=True, slots=True)
class Call:
    """One node of the model; an input or output with an empty name is left out.

    formals      what its operator's definition says of each input
    definition   returns the nodes that ONNX defines the operator by; None if there are none
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    formals: tuple[Formal, ...]
    definition: Callable[[Types], Body] | None = None

    def __str__(self) -> str:
        return f"node {self.name!r} ({self.op})"


@dataclass(frozen=True, slots=True)
class Model:
    """A model: its inputs, constants and nodes in the order of the file, and its outputs."""

    name: str
    inputs: tuple[Declared, ...]
    constants: Mapping[str, Array]
    calls: tuple[Call, ...]
    outputs: tuple[Declared, ...]
