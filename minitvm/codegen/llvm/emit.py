"""Emit LLVM IR text for loop IR: statements, memory, parallel loops and whole functions."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import assert_never

from minitvm import tir
from minitvm.base import BOOL, INT64, BuildError, Dot2, Dot4

from ..common import clean, flat, is_c_function, parameters, refuse_threads
from . import prefetch, tiles
from .calls import call_packed
from .code import Code, Module, Value, is_tile
from .expr import NO_FUNCTION, address, in_bounds, index, type_of_element, value
from .interleave import in_rows, store_row
from .math import invert, select
from .memory import read, write

STACK_BYTES = 64 << 10  # stack limit per function; larger buffers are on the heap
LIKELY = '!0 = !{!"branch_weights", i32 1000, i32 1}'
AS_IT_IS = '!1 = distinct !{!1, !2}\n!2 = !{!"llvm.loop.unroll.disable"}'


def emit_llvm(
    f: tir.PrimFunc,
    *,
    vector_bytes: int = 0,
    parallel_launch: str = "",
    dot4: tuple[Dot4, ...] = (),
    dot2: tuple[Dot2, ...] = (),
    amx: frozenset[str] = frozenset(),
) -> str:
    """Return LLVM IR text that defines `i32 @name(params...)`, where name is clean(f.name).

    Buffers are passed as `ptr`, scalars as `i64`, in the order of f.params; symbolic sizes that
    are not parameters follow. The function returns 0, or 1 if it ran out of memory or a Python
    function that it called raised. Buffers must not overlap.

    vector_bytes      the vector width that LLVM should prefer, in bytes; 0 is its default
    parallel_launch   name of a C function that runs parallel loops ("" makes them serial):
                      void launch(void (*body)(void *closure, int64_t begin, int64_t end),
                                  void *closure, int64_t extent)
    dot4              the CPU's instructions for four products of bytes, widest first
    dot2              those for two products of int16, which serve where there are no others
    amx               the products of the CPU's matrix unit: "int8", "bf16"

    Needs flat buffers (pass `flatten`). Raises BuildError for what LLVM code cannot express.
    """
    module = Module(clean(f.name), vector_bytes, (dot4, dot2), amx)
    c = Code(module, parallel_launch)
    declared = [_parameter(c, p, set(f.outputs)) for p in parameters(f)]
    statement(c, f.body)
    _finish(c, f"define i32 @{module.name}({', '.join(declared)})")
    width = f' "prefer-vector-width"="{8 * vector_bytes}"' if vector_bytes else ""
    attributes = f'attributes #0 = {{ nounwind "no-trapping-math"="true"{width} }}'
    functions = (*module.functions, *module.helpers.values())
    parts = (*functions, "\n".join(module.declarations.values()), attributes, LIKELY, AS_IT_IS)
    return "\n\n".join(part for part in parts if part) + "\n"


def _parameter(c: Code, p: tir.Buffer | tir.Var, written: set[tir.Buffer]) -> str:
    """Name a parameter and return its declaration; buffers are declared not to overlap."""
    name = c.name(clean(p.name))
    if isinstance(p, tir.Var):
        c.vars[p] = Value(name, INT64)
        return f"i64 {name}"
    c.pointers[p] = name
    access = "" if p in written else " readonly"
    return f"ptr noalias{access} align {p.dtype.bytes} {name}"


def _finish(c: Code, head: str) -> None:
    """Add the finished function to the module; `head` is its line "define ..."."""
    tiles.configure(c)
    lines = [f"{head} #0 {{", "entry:", *c.entry, *c.lines, "  ret i32 0", "}"]
    c.module.functions.append("\n".join(lines))


# --- statements ----------------------------------------------------------------------------------


def statement(c: Code, s: tir.Stmt) -> None:
    """Emit the statement `s`."""
    match s:
        case tir.For():
            _loop(c, s)
        case tir.Store(buffer, indices, e):
            _store(c, buffer, flat(buffer, indices), e)
        case tir.If():
            _if(c, s)
        case tir.Seq(parts):
            for row in in_rows(parts):
                if len(row) > 1 and c.mask is None:
                    store_row(c, row)
                else:
                    for part in row:
                        statement(c, part)
        case tir.Allocate():
            _allocate(c, s)
        case tir.Evaluate(tir.Call(prefetch.KEY, (tir.Load() as e, tir.Const() as level))):
            prefetch.request(c, e, level)
        case tir.Evaluate(tir.Call(name) as e) if name in tiles.CALLS:
            tiles.instruction(c, e)
        case tir.Evaluate(e):
            if isinstance(e, tir.Call) and tir.is_opaque(e) and not is_c_function(e, NO_FUNCTION):
                _give_up_if(c, c.op(f"icmp ne {call_packed(c, e)}, 0", BOOL))
            else:
                value(c, e)
        case tir.Pragma(prefetch.KEY) if c.mask is None:
            statement(c, prefetch.with_requests(s))
        case tir.Pragma(_, _, body):
            statement(c, body)
        case _:
            assert_never(s)


def _store(c: Code, buffer: tir.Buffer, i: tir.Index, e: tir.Expr) -> None:
    v = value(c, e)
    at = address(c, buffer, i)
    if c.mask is not None and buffer in c.private and at.lanes > 1 and in_bounds(buffer, i):
        # only whole stores let LLVM keep a local buffer in registers
        v = select(c, c.mask, v, read(c, buffer.dtype, at, None))
        write(c, at, v, None)
    else:
        write(c, at, v, c.mask)


def _if(c: Code, s: tir.If) -> None:
    cond = value(c, s.cond)
    if cond.lanes > 1:
        with c.where(cond):
            statement(c, s.body)
        if s.orelse is not None:
            with c.where(invert(c, cond)):
                statement(c, s.orelse)
        return
    then_label, end = c.label("then"), c.label("end")
    else_label = end if s.orelse is None else c.label("else")
    c.branch(cond, then_label, else_label, s.likely)
    for label, body in ((then_label, s.body), (else_label, s.orelse)):
        if body is not None:
            c.block(label)
            with c.scope():
                statement(c, body)
            c.jump(end)
    c.block(end)


# --- loops ---------------------------------------------------------------------------------------


def _loop(c: Code, s: tir.For) -> None:
    refuse_threads(s)
    end = index(c, s.extent)
    if end.lanes > 1:
        raise BuildError(f"loop {s.var.name!r}", "its extent differs between lanes")
    if isinstance(s.extent, int) and s.extent <= 1:
        if s.extent == 1:
            c.vars[s.var] = Value("0", INT64)
            statement(c, s.body)
            del c.vars[s.var]
        return
    with _unless_empty(c, s.extent, end):
        if s.kind == "parallel" and c.launch and c.mask is None:
            _parallel(c, s, end)
        else:
            _count(c, s.var, Value("0", INT64), end, s.body)


@contextmanager
def _unless_empty(c: Code, extent: tir.Index, end: Value) -> Generator[None]:
    """Make the code emitted inside run only if the loop has at least one iteration."""
    if tir.lower_bound(extent) >= 1:
        yield
        return
    some_label, none_label = c.label("some"), c.label("none")
    c.branch(c.op(f"icmp sgt {end}, 0", BOOL), some_label, none_label)
    c.block(some_label)
    with c.scope():
        yield
    c.jump(none_label)
    c.block(none_label)


def _count(c: Code, var: tir.Var, begin: Value, end: Value, body: tir.Stmt) -> None:
    """Emit a loop that runs `body` for var = begin .. end-1, where begin < end.

    LLVM must not unroll the innermost loop of a register tile: it would hoist loads for the next
    iteration, and spill accumulators for which the tile has reserved the registers.
    """
    hint, before = clean(var.name), c.here
    loop, done_label = c.label(f"{hint}.loop"), c.label(f"{hint}.done")
    i, next_value = c.name(hint), c.name(f"{hint}.next")
    c.jump(loop)
    c.block(loop)
    start = len(c.lines)
    c.vars[var] = Value(i, INT64)
    with c.scope():
        statement(c, body)
    del c.vars[var]
    sources = f"[ {begin.text}, %{before} ], [ {next_value}, %{c.here} ]"
    c.lines.insert(start, f"  {i} = phi i64 {sources}")
    c.emit(f"{next_value} = add nuw nsw i64 {i}, 1")
    c.branch(c.op(f"icmp slt i64 {next_value}, {end.text}", BOOL), loop, done_label)
    if is_tile(c.lines[start + 1 :]):
        c.lines[-1] += ", !llvm.loop !1"
    c.block(done_label)


# --- parallel loops ------------------------------------------------------------------------------


def _parallel(c: Code, s: tir.For, extent: Value) -> None:
    """Move the loop into a function that threads call, each for a range of its iterations.

    This makes two functions. The worker has the signature that `launch` expects, unpacks the
    closure and calls the body. The body's parameters declare again that buffers do not overlap.
    """
    name = f"{c.module.name}_parallel_{c.module.workers}"
    c.module.workers += 1
    body_code = Code(c.module, launch="")  # a parallel loop inside this one is serial
    captured = _captured(c, s)
    written = {n.buffer for n in tir.walk(s.body) if isinstance(n, tir.Store)}
    written |= {n.first.buffer for n in tir.walk(s) if tir.is_written(n)}  # by functions it calls
    declared = [_parameter(body_code, x, written) for x in captured]
    begin, end = (Value(body_code.name(hint), INT64) for hint in ("begin", "end"))
    _count(body_code, s.var, begin, end, s.body)
    declared += [str(begin), str(end)]
    # noinline, because inlining would lose `noalias`
    _finish(body_code, f"define internal i32 @{name}_body({', '.join(declared)}) noinline")
    kinds = ["ptr" if isinstance(x, tir.Buffer) else "i64" for x in captured]
    c.module.functions.append(_worker(name, kinds))
    names = [c.pointers[x] if isinstance(x, tir.Buffer) else c.vars[x].text for x in captured]
    _launch(c, name, [f"{kind} {text}" for kind, text in zip(kinds, names, strict=True)], extent)


def _captured(c: Code, s: tir.For) -> list[tir.Buffer | tir.Var]:
    """Return the outer buffers and variables that the body of `s` uses, in order of first use."""
    used: dict[tir.Buffer | tir.Var, None] = {}
    for n in tir.walk(s.body):
        if isinstance(n, tir.Load | tir.Store):
            used[n.buffer] = None
        elif isinstance(n, tir.Var):
            used[n] = None
        elif isinstance(n, tir.Allocate):
            used |= {v: None for v in tir.walk(tir.elements(n.buffer)) if isinstance(v, tir.Var)}
    return [x for x in used if x in (c.pointers if isinstance(x, tir.Buffer) else c.vars)]


def _worker(name: str, kinds: list[str]) -> str:
    """Return the text of the function that a thread calls with its range of a parallel loop.

    The closure has one 8-byte slot for each captured value, and a last one, which is set to 1 if
    the body fails.
    """
    unpack: list[str] = []
    for n, kind in enumerate(kinds):
        unpack.append(f"  %slot.{n} = getelementptr i64, ptr %closure, i64 {n}")
        unpack.append(f"  %x.{n} = load {kind}, ptr %slot.{n}, align 8")
    arguments = [f"{kind} %x.{n}" for n, kind in enumerate(kinds)]
    lines = [
        f"define internal void @{name}(ptr %closure, i64 %begin, i64 %end) #0 {{",
        "entry:",
        *unpack,
        f"  %failed = getelementptr i64, ptr %closure, i64 {len(kinds)}",
        f"  %status = call i32 @{name}_body({', '.join([*arguments, 'i64 %begin', 'i64 %end'])})",
        "  %fine = icmp eq i32 %status, 0",
        "  br i1 %fine, label %leave, label %tell",
        "tell:",
        "  store atomic i64 1, ptr %failed monotonic, align 8",
        "  br label %leave",
        "leave:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def _launch(c: Code, name: str, captured: list[str], extent: Value) -> None:
    """Emit code that fills the closure, runs the parallel loop, and returns 1 if it failed."""
    closure = c.name("closure")
    c.entry.append(f"  {closure} = alloca [{len(captured) + 1} x i64], align 8")
    slots = [
        c.op(f"getelementptr i64, ptr {closure}, i64 {n}", INT64, 1, "slot").text
        for n in range(len(captured) + 1)
    ]
    for x, slot in zip([*captured, "i64 0"], slots, strict=True):
        c.emit(f"store {x}, ptr {slot}, align 8")
    c.run(c.launch, ("ptr", f"@{name}"), ("ptr", closure), extent)
    failed = c.op(f"load i64, ptr {slots[-1]}, align 8", INT64)
    _give_up_if(c, c.op(f"icmp ne {failed}, 0", BOOL))


# --- memory --------------------------------------------------------------------------------------


def _allocate(c: Code, s: tir.Stmt) -> None:
    """Emit an Allocate: memory aligned to a cache line, on the stack if small and constant.

    Nested allocations are handled in a loop, not by recursion.
    """
    with ExitStack() as ends:
        while isinstance(s, tir.Allocate):
            n = tir.elements(s.buffer)
            if s.buffer.scope == tir.amx.SCOPE:
                tiles.allocate(c, s.buffer)
            elif s.buffer in c.private or (isinstance(n, int) and _fits(c, s.buffer, n)):
                _on_stack(c, s.buffer, n)
            else:
                c.heap.append(_on_heap(c, s.buffer, n))
                ends.callback(lambda: c.run("free", ("ptr", c.heap.pop())))
            ends.callback(c.pointers.pop, s.buffer, None)
            ends.enter_context(c.scope())
            s = s.body
            if isinstance(s, tir.Seq) and s.body and isinstance(s.body[-1], tir.Allocate):
                statement(c, tir.seq(*s.body[:-1]))
                s = s.body[-1]
        statement(c, s)


def _fits(c: Code, buffer: tir.Buffer, n: int) -> bool:
    """Return whether a buffer of `n` elements fits on the stack."""
    return c.stack_bytes + n * buffer.dtype.bytes <= stack_limit(buffer)


def stack_limit(buffer: tir.Buffer) -> int:
    """Return how many bytes of a function's buffers, including `buffer`, may be on the stack.

    Half of the stack is reserved for "local" buffers, which LLVM can keep in registers.
    """
    return STACK_BYTES if buffer.scope == "local" else STACK_BYTES // 2


def _on_stack(c: Code, buffer: tir.Buffer, n: tir.Index) -> None:
    """Allocate a buffer on the stack, only once even if unrolling has copied its Allocate."""
    assert isinstance(n, int)
    if buffer not in c.private:
        name = c.name(clean(buffer.name))
        kind = type_of_element(buffer)
        c.entry.append(f"  {name} = alloca [{n} x {kind}], align {prefetch.CACHE_LINE}")
        c.stack_bytes += n * buffer.dtype.bytes
        c.private[buffer] = name
    c.pointers[buffer] = c.private[buffer]


def _on_heap(c: Code, buffer: tir.Buffer, n: tir.Index) -> str:
    """Emit a malloc of `n` elements and return the name of the pointer that must be freed."""
    name, count = clean(buffer.name), index(c, n)
    if not isinstance(n, int):
        most = tir.ADDRESSABLE // buffer.dtype.bytes
        _give_up_if(c, c.op(f"icmp ugt {count}, {most}", BOOL))
    data = c.op(f"mul nsw {count}, {buffer.dtype.bytes}", INT64)
    size = c.op(f"add nsw {data}, {prefetch.CACHE_LINE}", INT64)  # space for the alignment
    c.module.declarations["malloc"] = "declare noalias ptr @malloc(i64)"
    raw = c.op(f"call ptr @malloc({size})", INT64, 1, f"{name}.raw").text
    _give_up_if(c, c.op(f"icmp eq ptr {raw}, null", BOOL))
    raised_address = c.op(f"getelementptr i8, ptr {raw}, i64 {prefetch.CACHE_LINE - 1}", INT64).text
    c.module.declare("llvm.ptrmask.p0.i64", "ptr", "ptr, i64")
    aligned = f"call ptr @llvm.ptrmask.p0.i64(ptr {raised_address}, i64 -{prefetch.CACHE_LINE})"
    c.pointers[buffer] = c.op(aligned, INT64, 1, name).text
    return raw


def _give_up_if(c: Code, failed: Value) -> None:
    """Emit code that frees all heap memory and returns 1 if the bool `failed` is true."""
    leave, fine = c.label("failed"), c.label("fine")
    c.branch(failed, leave, fine)
    c.block(leave)
    for raw in reversed(c.heap):
        c.run("free", ("ptr", raw))
    c.emit("ret i32 1")
    c.block(fine)
