"""Layouts of images: where the pixel (n, c, y, x) of a batch of images is in a tensor.

NCHW     [batch, channel, height, width]
NHWC     [batch, height, width, channel]
NCHW16c  [batch, channel // 16, height, width, channel % 16], with any block size in place of 16
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError

from .operands import check_rank

PATTERN = re.compile(r"NCHW|NHWC|NCHW([1-9][0-9]*)c")


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout of images.

    name         "NCHW", "NHWC" or, for example, "NCHW16c"
    block        how many channels are adjacent in NCHWc; 0 in the other layouts
    height_axis  the dimension of the height in a tensor with this layout; the width follows it
    """

    name: str
    block: int
    height_axis: int

    @property
    def rank(self) -> int:
        """The number of dimensions of a tensor with this layout."""
        return 5 if self.block else 4

    def channels(self, t: te.Tensor) -> tir.Index:
        """Return the number of channels of the images `t`."""
        if self.block:
            return tir.mul(t.shape[1], self.block)
        return t.shape[3 if self.name == "NHWC" else 1]

    def shape(self, n: Any, c: Any, height: Any, width: Any) -> tuple[Any, ...]:
        """Return the shape of `n` images with `c` channels of `height` rows and `width` columns.

        Raises ExprError if the blocks of the layout do not divide the channels.
        """
        if not self.block:
            return self.index(n, c, height, width)
        if not tir.prove_equal(tir.floormod(c, self.block), 0):
            raise ExprError(
                f"layout {self.name}",
                f"{tir.text(c)} channels cannot be divided into blocks of {self.block}",
                "NHWC, or a block that divides the channels",
            )
        return n, tir.floordiv(c, self.block), height, width, self.block

    def index(self, n: Any, c: Any, y: Any, x: Any) -> tuple[Any, ...]:
        """Return the indices of the pixel (n, c, y, x) in a tensor with this layout."""
        if self.block:
            return n, c // self.block, y, x, c % self.block
        return (n, y, x, c) if self.name == "NHWC" else (n, c, y, x)

    def indexed(self, f: Callable[[Any, Any, Any, Any], Any]) -> Callable[..., Any]:
        """Return f(n, c, y, x) as a function of the indices of a tensor with this layout."""

        def in_blocks(n: Any, block: Any, y: Any, x: Any, c: Any) -> Any:
            return f(n, block * self.block + c, y, x)

        def channels_last(n: Any, y: Any, x: Any, c: Any) -> Any:
            return f(n, c, y, x)

        if self.block:
            return in_blocks
        return channels_last if self.name == "NHWC" else f

    def kernel_sizes(self, kernel: te.Tensor) -> tuple[tir.Index, ...]:
        """Return (outputs, channels of a group, height, width) of the kernel of a convolution.

        Its dimensions are [KH, KW, C / groups, O] in NHWC, and [O, C / groups, KH, KW] otherwise.
        """
        if self.name == "NHWC":
            height, width, inner, outputs = kernel.shape
            return outputs, inner, height, width
        return kernel.shape

    def weight(self, o: Any, c: Any, ky: Any, kx: Any) -> tuple[Any, ...]:
        """Return the indices of an element of such a kernel."""
        return (ky, kx, c, o) if self.name == "NHWC" else (o, c, ky, kx)

    def __str__(self) -> str:
        return self.name


NCHW = Layout("NCHW", 0, 2)
NHWC = Layout("NHWC", 0, 1)


def layout_of(what: str, name: str, *images: te.Tensor) -> Layout:
    """Return the layout called `name`; raise ExprError if `images` do not have its rank.

    what: the operator, for error messages.
    """
    parts = PATTERN.fullmatch(name)
    if parts is None:
        why = "no such layout"
        raise ExprError(f"{what}: layout {name!r}", why, "'NCHW', 'NHWC' or 'NCHW16c'")
    layout = Layout(name, int(parts.group(1) or 0), 1 if name == "NHWC" else 2)
    for t in images:
        check_rank(what, t, layout.rank)
    return layout
