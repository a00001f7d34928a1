"""Builders of LLVM IR text: typed values, instructions, blocks and scopes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import numpy as np

from minitvm import tir
from minitvm.base import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    BuildError,
    Dot2,
    Dot4,
    DType,
)

TYPES: dict[str, str] = {
    BOOL: "i1", INT8: "i8", INT16: "i16", INT32: "i32", INT64: "i64",
    UINT8: "i8", UINT16: "i16", UINT32: "i32", UINT64: "i64",
    FLOAT16: "half", FLOAT32: "float", FLOAT64: "double",
    BFLOAT16: "i16",  # its bits: math.py converts them to float32 and back
}  # fmt: skip
# how overloaded intrinsics spell their types
TILE = 8  # vector multiply-adds from which on the body of a loop is an unrolled register tile
SUFFIXES = {"half": "f16", "float": "f32", "double": "f64"}


def type_of(dtype: DType, lanes: int = 1) -> str:
    """Return LLVM's name of a scalar or vector type: type_of(FLOAT32, 16) = "<16 x float>"."""
    return TYPES[dtype] if lanes == 1 else f"<{lanes} x {TYPES[dtype]}>"


def suffix_of(dtype: DType, lanes: int = 1) -> str:
    """Return the type's suffix in an intrinsic's name: suffix_of(FLOAT32, 16) = "v16f32"."""
    scalar = SUFFIXES.get(TYPES[dtype], TYPES[dtype])
    return scalar if lanes == 1 else f"v{lanes}{scalar}"


class Value(NamedTuple):
    """A typed operand: `text` is a name (%x) or a literal; str() gives "type text"."""

    text: str
    dtype: DType
    lanes: int = 1

    @property
    def type(self) -> str:
        return type_of(self.dtype, self.lanes)

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


Operand: TypeAlias = Value | tuple[str, str]  # (type, text) for pointers


def constant(value: float | bool, dtype: DType) -> Value:
    """Return the literal `value`.

    A float without a short exact decimal is written as the bits of a double, or of a half if
    `dtype` is float16.
    """
    if dtype is BOOL:
        return Value("true" if value else "false", dtype)
    if not dtype.is_float:
        return Value(str(int(value)), dtype)
    rounded = dtype.numpy.type(value)
    if dtype == BFLOAT16:
        return Value(str(rounded.view(np.int16)), dtype)
    number = np.float64(rounded)
    if abs(number) < 1 << 20 and (16 * number).is_integer():
        return Value(repr(float(number)), dtype)
    if dtype is FLOAT16:
        return Value(f"0xH{int(rounded.view(np.uint16)):04X}", dtype)
    return Value(f"0x{int(number.view(np.uint64)):016X}", dtype)


def vector(values: list[int], dtype: DType = INT64) -> Value:
    """Return a literal vector of the integers `values`."""
    kind = TYPES[dtype]
    return Value("<" + ", ".join(f"{kind} {v}" for v in values) + ">", dtype, len(values))


class Module:
    """One LLVM module: declarations, helpers, and the functions finished so far."""

    def __init__(
        self,
        name: str,
        vector_bytes: int,
        dots: tuple[tuple[Dot4, ...], tuple[Dot2, ...]],
        amx: frozenset[str],
    ) -> None:
        self.name = name
        self.vector_bytes = vector_bytes  # of one register; 0 if this is not known
        self.dot4, self.dot2 = dots  # instructions for products of bytes and int16, widest first
        self.amx = amx  # the products of the CPU's matrix unit: "int8", "bf16"
        self.declarations: dict[str, str] = {}
        self.helpers: dict[str, str] = {}  # the text of helper functions, by name
        self.functions: list[str] = []
        self.workers = 0

    def declare(self, name: str, returns: str, types: str) -> None:
        """Declare a function that LLVM or the process provides."""
        if name not in self.declarations and name not in self.helpers:
            self.declarations[name] = f"declare {returns} @{name}({types})"


class Code:
    """The text of an LLVM function while it is being written.

    `vars` and `pointers` map the variables and buffers of the loop IR to LLVM names. `mask` is the
    current condition of loads and stores, a vector of bools, or None. `known` caches index values
    that the current block, or a block that dominates it, has computed.
    """

    def __init__(self, module: Module, launch: str) -> None:
        self.module = module
        self.launch = launch  # the function that runs parallel loops; "" if they are serial
        self.entry: list[str] = []  # allocas; LLVM promotes only those of the first block
        self.lines: list[str] = []
        self.here = "entry"  # the label of the block that is being written
        self.vars: dict[tir.Var, Value] = {}
        self.pointers: dict[tir.Buffer, str] = {}
        self.private: dict[tir.Buffer, str] = {}  # stack memory that no other thread sees
        self.stack_bytes = 0
        self.tiles: dict[tir.Buffer, int] = {}  # the first tile register of a buffer
        self.tile_shapes: list[tuple[int, int]] = []  # rows of a tile register, bytes of a row
        self.calls_python = False
        self.heap: list[str] = []  # memory to be freed on an early return
        self.mask: Value | None = None
        self.certainty: Value | None = None  # a bool that is true, though LLVM does not know it
        self.known: dict[object, Value] = {}
        self._taken: dict[str, int] = {}
        self._lanes: dict[int, int] = {}
        self._steady: dict[tir.Expr, bool] = {}

    # --- names and instructions ---

    def name(self, hint: str) -> str:
        """Return a fresh local name made of `hint`: %i, then %i.1, %i.2, ..."""
        n = self._taken.get(hint, 0)
        self._taken[hint] = n + 1
        return f"%{hint}.{n}" if n else f"%{hint}"

    def emit(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def op(self, text: str, dtype: DType, lanes: int = 1, hint: str = "v") -> Value:
        """Emit the instruction `text` and return its result."""
        name = self.name(hint)
        self.lines.append(f"  {name} = {text}")
        return Value(name, dtype, lanes)

    def _called(self, name: str, returns: str, operands: tuple[Operand, ...]) -> str:
        pairs = [(o.type, o.text) if isinstance(o, Value) else o for o in operands]
        self.module.declare(name, returns, ", ".join(kind for kind, _ in pairs))
        return f"call {returns} @{name}({', '.join(f'{kind} {text}' for kind, text in pairs)})"

    def call(self, name: str, result: Value | DType, *operands: Operand) -> Value:
        """Declare and call the function `name`; return its result, of the type of `result`."""
        dtype, n = (result, 1) if isinstance(result, DType) else (result.dtype, result.lanes)
        return self.op(self._called(name, type_of(dtype, n), operands), dtype, n)

    def run(self, name: str, *operands: Operand) -> None:
        """Declare and call the function `name`, which returns nothing."""
        self.emit(self._called(name, "void", operands))

    def intrinsic(self, name: str, *operands: Operand) -> Value:
        """Call LLVM's intrinsic `name`, whose result has the type of the first operand."""
        first = operands[0]
        assert isinstance(first, Value)
        return self.call(f"llvm.{name}.{suffix_of(first.dtype, first.lanes)}", first, *operands)

    def splat(self, v: Value, lanes: int) -> Value:
        """Return a vector of `lanes` copies of the scalar `v`, or `v` if it has `lanes` lanes.

        Raises BuildError for a vector with another number of lanes.
        """
        if v.lanes == lanes:
            return v
        if v.lanes != 1:
            why = f"the statement around it has {lanes} lanes"
            raise BuildError(f"a vector of {v.lanes} lanes", why)
        if not v.text.startswith("%"):
            return Value(f"splat ({v})", v.dtype, lanes)
        key = ("splat", v.text, lanes)
        if key not in self.known:
            kind = type_of(v.dtype, lanes)
            one_lane = self.op(f"insertelement {kind} poison, {v}, i64 0", v.dtype, lanes)
            zeros = f"<{lanes} x i32> zeroinitializer"
            spread = f"shufflevector {one_lane}, {kind} poison, {zeros}"
            self.known[key] = self.op(spread, v.dtype, lanes)
        return self.known[key]

    def broadcast(self, *values: Value) -> tuple[Value, ...]:
        """Return the values, with each scalar copied into all lanes if another is a vector."""
        n = max(v.lanes for v in values)
        return values if n == 1 else tuple(self.splat(v, n) for v in values)

    # --- facts about expressions, computed once ---

    def lanes(self, e: tir.Expr | int) -> int:
        """Return how many lanes the expression `e` has, cached by its id."""
        if isinstance(e, int):
            return 1
        if id(e) not in self._lanes:
            self._lanes[id(e)] = tir.lanes(e)
        return self._lanes[id(e)]

    def steady(self, e: tir.Expr) -> bool:
        """Return whether an index depends only on variables, not on data in memory."""
        if e not in self._steady:
            self._steady[e] = not any(isinstance(n, tir.AsIndex) for n in tir.walk(e))
        return self._steady[e]

    # --- blocks ---

    def label(self, hint: str) -> str:
        """Return a fresh label."""
        return self.name(hint)[1:]

    def block(self, label: str) -> None:
        """Start the block `label`."""
        self.lines.append(f"{label}:")
        self.here = label

    def jump(self, to: str) -> None:
        self.emit(f"br label %{to}")

    def branch(self, cond: Value, yes: str, no: str, likely: bool = False) -> None:
        """Branch to `yes` if the scalar `cond` is true, else to `no`.

        `likely` tells LLVM that the condition is usually true.
        """
        weights = ", !prof !0" if likely else ""
        self.emit(f"br i1 {cond.text}, label %{yes}, label %{no}{weights}")

    @contextmanager
    def scope(self) -> Generator[None]:
        """On exit, drop the index values cached inside, because their block may not have run."""
        before = self.known
        self.known = dict(before)
        yield
        self.known = before

    @contextmanager
    def where(self, cond: Value) -> Generator[None]:
        """Restrict loads and stores inside to lanes where the mask and `cond` are both true."""
        before = self.mask
        both_conds = (
            cond if before is None else self.op(f"and {before}, {cond.text}", BOOL, cond.lanes)
        )
        self.mask = both_conds
        yield
        self.mask = before

    def any_lane(self, mask: Value) -> Value:
        """Return whether `mask` is true in any lane."""
        return self.call(f"llvm.vector.reduce.or.v{mask.lanes}i1", BOOL, mask)

    def choose(
        self,
        cond: Value,
        then: Callable[[], Value],
        other: Callable[[], Value],
        likely: bool = False,
    ) -> Value:
        """Emit a branch on the scalar `cond` and return the value of the branch that runs.

        `then` and `other` emit the two branches; `likely` marks `then` as the usual one.
        """
        yes, no, end = (self.label(hint) for hint in ("then", "else", "end"))
        self.branch(cond, yes, no, likely)
        arms: list[tuple[Value, str]] = []
        for label, arm in ((yes, then), (no, other)):
            self.block(label)
            with self.scope():
                arms.append((arm(), self.here))
            self.jump(end)
        self.block(end)
        v = arms[0][0]
        sources = ", ".join(f"[ {arm.text}, %{label} ]" for arm, label in arms)
        return self.op(f"phi {v.type} {sources}", v.dtype, v.lanes)


def is_tile(body: list[str]) -> bool:
    """Return whether the instructions of a loop are an unrolled register tile, without loops."""
    if any(" = phi " in line for line in body):
        return False
    sums = sum(" fadd contract <" in line for line in body)
    return sums >= TILE and sum(" fmul contract <" in line for line in body) >= TILE
