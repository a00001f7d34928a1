"""Operators that read an axis in order: cumulative sums and products, and the largest elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError, is_count, named

from .loop_nest import nest
from .operands import checks_arguments, dimension

__all__ = ["cumprod", "cumsum", "topk"]


def _cumulative(
    name: str, fold: Callable[[Any, Any], Any], start: int, doc: str
) -> Callable[..., te.Tensor]:
    """Return an operator called `name` that folds all elements up to each place of an axis."""

    def apply(x: te.Tensor, axis: int, exclusive: bool = False, reverse: bool = False) -> te.Tensor:
        d = dimension(name, x, axis)
        size = x.shape[d]

        def statement(ins: list[Any], outs: list[Any]) -> Any:
            ib = tir.ir_builder.create()
            source, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
            with nest(ib, [*x.shape[:d], *x.shape[d + 1 :]]) as i:

                def at(k: Any) -> tuple[Any, ...]:
                    return (*i[:d], size - 1 - k if reverse else k, *i[d:])

                out[at(0)] = te.const(start, x.dtype) if exclusive else source[at(0)]
                with ib.for_range(1, size, name="k") as k:
                    out[at(k)] = fold(out[at(k - 1)], source[at(k - 1 if exclusive else k)])
            return ib.get()

        return te.extern(x.shape, [x], statement, name=f"T_{name}", dtype=x.dtype)

    return checks_arguments(named(apply, name, doc))


cumsum = _cumulative(
    "cumsum",
    lambda a, b: a + b,
    0,
    "Sum the elements of `axis` up to each place: with `exclusive` those before it, with `reverse` "
    "from the end.",
)
cumprod = _cumulative(
    "cumprod", lambda a, b: a * b, 1, "Multiply the elements of `axis` up to each; see `cumsum`."
)


@checks_arguments
def topk(x: te.Tensor, k: int, axis: int = -1, largest: bool = True) -> te.Tensor:
    """Return the places of the k largest elements along `axis` as int64, the largest first.

    With largest=False, the smallest ones. Of equal elements, the first one comes first. The k best
    elements so far are kept in order, so each better one takes k steps (insertion sort).
    """
    d = dimension("topk", x, axis)
    size = x.shape[d]
    if not isinstance(size, int) or not is_count(k) or k > size:
        raise ExprError(
            f"topi.topk of {x.name}: k={k!r}", f"its axis has {tir.text(size)} elements"
        )

    def statement(ins: list[Any], outs: list[Any]) -> Any:
        ib = tir.ir_builder.create()
        source, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with nest(ib, [*x.shape[:d], *x.shape[d + 1 :]]) as i:
            best = ib.allocate(x.dtype, (k,), name="best")

            def put(place: Any, value: Any, number: Any) -> None:
                best[place] = value
                out[(*i[:d], place, *i[d:])] = number

            with ib.for_range(0, k, name="place") as place:
                put(place, te.const(0, x.dtype), 0)
            with ib.for_range(0, size, name="n") as n:
                value = source[(*i[:d], n, *i[d:])]

                def precedes(place: Any) -> Any:  # places from n on are still empty
                    better = value > best[place] if largest else value < best[place]
                    return te.any(place >= n, better)

                with ib.if_scope(precedes(k - 1)):
                    with ib.for_range(0, k - 1, name="back") as back:
                        place = k - 1 - back
                        with ib.if_scope(precedes(place - 1)):
                            put(place, best[place - 1], out[(*i[:d], place - 1, *i[d:])])
                        with ib.else_scope(), ib.if_scope(precedes(place)):
                            put(place, value, tir.cast_to(n, "int64"))
                    with ib.if_scope(precedes(0)):
                        put(0, value, tir.cast_to(n, "int64"))
        return ib.get()

    shape = [k if e == d else n for e, n in enumerate(x.shape)]
    return te.extern(shape, [x], statement, name="T_topk", dtype="int64")
