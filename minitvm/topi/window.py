"""Windows: the positions of a kernel that moves over an image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError, Reason, as_tuple, raise_first

from .layouts import Layout
from .operands import integers

WINDOW = "window"  # the tag of reductions over windows that keep channels apart
SHARED = "shared"  # the attribute of dot products: the rows of the result that read the same pixels


@dataclass(frozen=True, slots=True)
class Window:
    """A kernel that moves along one dimension of an image, and the resulting output size.

    size      the pixels of the image along this dimension
    kernel    the elements of the kernel, which read pixels that are `dilation` apart
    stride    the pixels by which the kernel moves
    before    the padding before the first pixel; after: the padding after the last pixel
    """

    size: int
    kernel: int
    stride: int
    before: int
    after: int
    dilation: int

    @staticmethod
    def over(
        t: te.Tensor,
        d: int,
        kernel: tir.Index,
        stride: int,
        around: tuple[int, int],
        dilation: int = 1,
    ) -> Window:
        """Make the window of a kernel along dimension `d` of `t`; raise ExprError if it is illegal.

        kernel: the number of its elements. around: the padding before and after the image.
        """
        window = Window(constant(t.shape[d], t), constant(kernel, t), stride, *around, dilation)
        raise_first(ExprError, f"a window over {t.name}", _window_errors(window))
        return window

    @property
    def reach(self) -> int:
        """The number of pixels that the kernel spans at one position, including gaps."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def out(self) -> int:
        """The number of positions of the kernel: the output size."""
        return (self.size + self.before + self.after - self.reach) // self.stride + 1

    @property
    def span(self) -> int:
        """The number of pixels that all positions of the kernel span, including padding."""
        return (self.out - 1) * self.stride + self.reach

    @property
    def phases(self) -> int:
        """The number of different values of p % stride among the pixels p of one position."""
        return min(self.stride, self.reach)

    @property
    def shifts(self) -> int:
        """The distance from the first to the last kernel element in strides, rounded down."""
        return (self.reach - 1) // self.stride


def _window_errors(w: Window) -> Iterator[Reason]:
    """Yield an error for a size below its minimum, or a window larger than the padded image."""
    for name, n in (("kernel", w.kernel), ("stride", w.stride), ("dilation", w.dilation)):
        if n < 1:
            yield (f"the {name} is {n}, but must be at least 1",)
    if min(w.before, w.after) < 0:
        yield (f"the padding is {w.before} and {w.after}, but must not be negative",)
    if w.out < 1:
        have = w.size + w.before + w.after
        yield (f"it spans {w.reach} pixels, but the image has {have}, including the padding",)


def pair(x: Any, what: str) -> tuple[int, int]:
    """Return (height, width), given a pair or one number for both; `what` names `x` in errors."""
    high, wide = one_per_dimension(x, 2, f"{what} = ", "one for height and one for width")
    return high, wide


def one_per_dimension(x: Any, rank: int, what: str, several: str) -> tuple[int, ...]:
    """Return `rank` integers; `x` is one integer for all dimensions, or one for each of them.

    what, several: parts of the error message if `x` is neither.
    """
    numbers = as_tuple(x)
    numbers = numbers * rank if len(numbers) == 1 else numbers
    if len(numbers) != rank or not all(isinstance(n, int) for n in numbers):
        raise ExprError(f"{what}{x!r}", f"it must be one integer, or {several}")
    return numbers


def margins(padding: Any) -> tuple[int, int, int, int]:
    """Return the padding as (top, left, bottom, right).

    `padding` is one number for all sides, (height, width), or all four numbers.
    """
    if len(as_tuple(padding)) == 4:
        top, left, bottom, right = integers("padding", padding)
        return top, left, bottom, right
    high, wide = pair(padding, "padding")
    return high, wide, high, wide


def windows(
    data: te.Tensor,
    kernel: tuple[tir.Index, ...],
    strides: Any,
    padding: Any,
    dilation: Any = 1,
    height_axis: int = 2,
) -> tuple[Window, Window]:
    """Return the windows of a kernel of shape `kernel` along the height and the width of `data`.

    height_axis: the dimension of `data` that is the height; the next one is the width. Raises
    ExprError if a window is larger than the padded image.
    """
    top, left, bottom, right = margins(padding)
    (sy, sx), (dy, dx) = pair(strides, "strides"), pair(dilation, "dilation")
    return (
        Window.over(data, height_axis, kernel[0], sy, (top, bottom), dy),
        Window.over(data, height_axis + 1, kernel[1], sx, (left, right), dx),
    )


def constant(n: tir.Index, t: te.Tensor) -> int:
    """Return the size `n`; raise ExprError that names `t` if it is symbolic."""
    if not isinstance(n, int):
        raise ExprError(f"{t.name}: size {tir.text(n)}", "heights and widths must be constants")
    return n


def padded_pixel(
    data: te.Tensor, layout: Layout, high: Window, wide: Window, value: int = 0
) -> Any:
    """Return a function that reads the pixel (n, c, y, x) of the image padded with `value`."""

    def read(n: Any, c: Any, y: Any, x: Any) -> Any:
        y, x = y - high.before, x - wide.before
        is_inside = te.all(y >= 0, y < high.size, x >= 0, x < wide.size)
        pixel = data(*layout.index(n, c, y, x))
        return te.if_then_else(is_inside, pixel, te.const(value, data.dtype))

    return read


def window_attrs(layout: Layout, high: Window, wide: Window) -> dict[str, Any]:
    """Return the attributes that the schedule of an operation with tag WINDOW needs."""
    return {"layout": layout, "windows": (high, wide)}
