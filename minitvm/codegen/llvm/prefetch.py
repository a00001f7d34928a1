"""Request data before a loop reads it: the step `prefetch` of a schedule.

for j in range(32):               # pragma prefetch = ('B', 1)
  for i in range(4):
    for k in range(64): ... B[j*1024 + k*16 : +16] ...

An iteration of j reads 64 cache lines of B. Requests for the lines of iteration j + 1 are spread
evenly over the 256 iterations of the loops inside, because the CPU can only wait for a few lines at
a time:

for j in range(32):
  for i in range(4):
    for k in range(64):
      prefetch B[(j + 1)*1024 + (i*64 + k)*4]
      ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from minitvm import tir
from minitvm.base import INT32

from ..common import flat
from .code import Code
from .expr import address

KEY = "prefetch"  # the pragma, and the name of the call that requests one line
CACHE_LINE = 64
FEW = 16  # lines; up to this many are requested for the first-level cache, more for the second

Terms = tuple[tuple[tir.Atom, int], ...]


def with_requests(s: tir.Pragma) -> tir.Stmt:
    """Return the loop in `s` with prefetches of what it reads some iterations later.

    `s` is a prefetch pragma: its value is the name of a buffer and the number of iterations.

    Only parts of the buffer that are contiguous in memory are requested, and only if it has the
    same memory in the next iteration.
    """
    loop, (name, offset) = s.body, s.value
    if not isinstance(loop, tir.For):  # it has one iteration, or is unrolled
        return loop
    inner = {n.var: n.extent for n in tir.walk(loop.body) if isinstance(n, tir.For)}
    local = {n.buffer for n in tir.walk(loop.body) if isinstance(n, tir.Allocate)}
    parts: dict[tuple[tir.Buffer, Terms, Terms], list[tuple[int, int]]] = {}
    for e in tir.walk(loop.body):
        if isinstance(e, tir.Load) and e.buffer.name == name and e.buffer not in local:
            later = tir.substitute(flat(e.buffer, e.indices), {loop.var: loop.var + offset})
            base, moving_terms, begin, end = _split(later, inner)
            if not any(isinstance(n, tir.Load) for atom, _ in base for n in tir.walk(atom)):
                parts.setdefault((e.buffer, base, moving_terms), []).append((begin, end))
    regions: list[Region] = []
    for (buffer, base, moving_terms), ranges in parts.items():
        for begin, end in _merged(buffer, ranges):
            length = _contiguous(end - begin, moving_terms, inner)
            if length:
                regions.append((buffer, base, begin, begin + length))
    return replace(loop, body=_insert(loop.body, (), regions))


def _split(i: tir.Index, inner: Mapping[tir.Var, tir.Index]) -> tuple[Terms, Terms, int, int]:
    """Split the index `i` into fixed terms, terms that move with the loops inside, and a range.

    The constant and the lanes give the range: A[j*64 + k*16 + 2 : +16] has the range 2 .. 17.
    """
    terms, begin = tir.split_terms(i)
    width = 1 + sum((atom.lanes - 1) * k for atom, k in terms if isinstance(atom, tir.Lane))
    scalar = [t for t in terms if not isinstance(t[0], tir.Lane)]
    fixed = [tir.lanes(atom) == 1 and tir.free_of(atom, inner) for atom, _ in scalar]
    base = tuple(t for t, is_fixed in zip(scalar, fixed, strict=True) if is_fixed)
    moving_terms = tuple(t for t, is_fixed in zip(scalar, fixed, strict=True) if not is_fixed)
    return base, moving_terms, begin, begin + width


def _merged(buffer: tir.Buffer, parts: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Merge ranges that overlap or are at most one cache line apart; yield them in order."""
    begin, end = min(parts)
    for a, b in sorted(parts):
        if a > end + CACHE_LINE // buffer.dtype.bytes:
            yield begin, end
            begin = a
        end = max(end, b)
    yield begin, end


def _contiguous(length: int, moving: Terms, inner: Mapping[tir.Var, tir.Index]) -> int:
    """Return the length of the range that `length` elements cover while the loops inside run.

    Return 0 if the range has gaps, or if its length is not known.
    """
    for atom, step in sorted(moving, key=lambda term: term[1]):
        extent = inner.get(atom) if isinstance(atom, tir.Var) else None
        if not isinstance(extent, int) or not 0 < step <= length:
            return 0
        length += step * (extent - 1)
    return length


Region = tuple[tir.Buffer, Terms, int, int]


def _insert(s: tir.Stmt, around: tuple[tir.For, ...], regions: Sequence[Region]) -> tir.Stmt:
    """Insert requests into the innermost loop with the most iterations; `around` encloses `s`."""
    match s:
        case tir.For(_, extent, body, kind) if kind == "serial" and isinstance(extent, int):
            return replace(s, body=_insert(body, (*around, s), regions))
        case tir.Allocate() | tir.Pragma() | tir.If():
            return replace(s, body=_insert(s.body, around, regions))
        case tir.Seq(parts) if max(map(_iterations, parts)) > 0:
            heaviest = max(parts, key=_iterations)
            return tir.seq(*(_insert(p, around, regions) if p is heaviest else p for p in parts))
        case _:
            return tir.seq(*(r for region in regions for r in _requests(around, *region)), s)


def _iterations(s: tir.Stmt) -> int:
    """Return the total iterations of the innermost loop that runs most; 0 if `s` has no loop."""
    match s:
        case tir.For(_, extent, body, kind):
            count = isinstance(extent, int) and kind == "serial"
            return extent * max(1, _iterations(body)) if count else 0
        case tir.Allocate() | tir.Pragma() | tir.If():
            return _iterations(s.body)
        case tir.Seq(parts):
            return max(map(_iterations, parts))
        case _:
            return 0


def _requests(
    around: Sequence[tir.For], buffer: tir.Buffer, base: Terms, begin: int, end: int
) -> Iterator[tir.Stmt]:
    """Yield the requests of one iteration; all iterations together cover the region."""
    count: tir.Index = 0
    total = 1
    for loop in around:
        assert isinstance(loop.extent, int)  # _insert enters no other loops
        count = tir.add(tir.mul(count, loop.extent), loop.var)
        total *= loop.extent
    line = CACHE_LINE // buffer.dtype.bytes
    lines = -(-(end - begin) // line)
    per_iteration = -(-lines // total)
    step = per_iteration * line if per_iteration > 1 else max(1, (end - begin) // total)
    offset = tir.add(tir.mul(count, step), begin)
    for atom, k in base:
        offset = tir.add(offset, tir.mul(atom, k))
    level = tir.const(3 if lines <= FEW else 2, "int32")  # LLVM's numbers for L1 and L2
    for n in range(per_iteration):
        element = tir.Load(buffer, (tir.add(offset, n * line),), buffer.dtype)
        yield tir.Evaluate(tir.Call(KEY, (element, level), INT32))


def request(c: Code, e: tir.Load, level: tir.Const) -> None:
    """Emit the instruction that requests the cache line of the element that `e` reads."""
    c.module.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
    where = address(c, e.buffer, e.indices[0]).pointer
    c.emit(f"call void @llvm.prefetch.p0(ptr {where}, i32 0, i32 {level.value}, i32 1)")
