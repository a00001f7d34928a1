"""The layers for which tilings are searched: their formulas, and the data of one tile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from minitvm import accel, codegen, te
from minitvm.base import ArgumentError, check_flag, check_text, is_count

from .environment import get_env
from .top import Tiling, conv2d, dense, requantize, schedule

MAX_DIMENSION = 1 << 16  # limit of rows, channels, ...: more than any layer needs
Box = tuple[codegen.Dim, ...]  # dimensions of an array in main memory, in elements, outermost first


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer(ABC):
    """A quantised layer from int8 to int8. It shifts and clips sums of products.

    channels         the numbers of (input, output) channels, not in blocks
    bias, residual   whether a bias is added before the shift, and a residual after it
    residual_dtype   "int32", or "int8" like the results of layers (a quarter of the bytes)
    residual_shift   if given, the residual is shifted left so far and added before the shift
    """

    channels: tuple[int, int]
    bias: bool = False
    residual: bool = False
    residual_dtype: str = "int32"
    residual_shift: int | None = None
    shift: int = 8

    def blocks(self, config: accel.Config) -> tuple[int, int]:
        """Return the numbers of blocks of (input, output) channels; the last may be padded."""
        ic, oc = self.channels
        return -(-ic // config.block_in), -(-oc // config.block_out)

    def scheduled(self, tiling: Tiling) -> tuple[te.Schedule, list[te.Tensor]]:
        """Return the tiled schedule and the arguments of the layer, for vta.build."""
        args = self.tensors()
        return schedule(args[-1], tiling), args

    def tensors(self) -> list[te.Tensor]:
        """Return data, weight, bias and residual (if any), and the result, as packed tensors."""
        env, (data, weight, total) = get_env(), self.product()
        element = (total.shape[1], env.BATCH, env.BLOCK_OUT)
        bias = te.placeholder(element, env.acc_dtype, "bias") if self.bias else None
        residual = None
        if self.residual:
            residual = te.placeholder(total.shape, self.residual_dtype, "residual")
        result = requantize(
            total, bias, residual, shift=self.shift, residual_shift=self.residual_shift
        )
        return [data, weight, *(t for t in (bias, residual) if t is not None), result]

    @abstractmethod
    def product(self) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
        """Return the tensors data, weight, and the int32 sums of their products."""

    @property
    @abstractmethod
    def macs(self) -> int:
        """Return the number of multiply-adds of the layer, without those on padded channels."""

    @property
    @abstractmethod
    def window(self) -> int:
        """Return how many products each input channel contributes to one output number."""

    @abstractmethod
    def grid(self, config: accel.Config) -> tuple[int, int]:
        """Return the result's (rows, columns) in elements; tiles divide both."""

    @abstractmethod
    def data_box(self, config: accel.Config, at: Tiling, y: int, x: int) -> Box:
        """Return the box of data loaded for one step of the tile in tile row y and column x."""

    def weight_box(self, config: accel.Config, at: Tiling) -> Box:
        """Return the box of weights loaded for one step of a tile."""
        ic, window = self.blocks(config)[0], self.window
        return codegen.Dim(at.oc, ic * window), codegen.Dim(at.ic, window), codegen.Dim(window, 1)

    @abstractmethod
    def result_box(self, config: accel.Config, at: Tiling) -> Box:
        """Return the box of main memory that one tile of the result occupies."""

    @abstractmethod
    def loops(self, at: Tiling) -> tuple[int, ...]:
        """Return the extents of the loops around the matrix unit in one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution(Layer):
    """A convolution of one image with square kernels, as a Layer.

    size   (rows, columns) of the data
    """

    size: tuple[int, int]
    kernel: int = 3
    stride: int = 1
    pad: int = 1

    def __post_init__(self) -> None:
        pairs: tuple[object, object] = self.size, self.channels
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):  # pyright: ignore
            raise ArgumentError(f"{self}", "size and channels must be pairs", "size=(14, 14)")
        counts = (*self.size, *self.channels, self.kernel, self.stride)
        whole = all(map(_is_size, counts)) and _is_size(self.pad, 0)
        if not whole or min(self.out) < 1:
            why = (
                f"expected ints up to {MAX_DIMENSION}, and a kernel that fits into the padded data"
            )
            raise ArgumentError(f"{self}", why, "pad=1")
        _check_options(self)

    @property
    def out(self) -> tuple[int, int]:
        """Return the rows and columns of the result."""
        h, w = ((n + 2 * self.pad - self.kernel) // self.stride + 1 for n in self.size)
        return h, w

    @property
    def macs(self) -> int:
        """Return the number of multiply-adds; as in papers, it includes those on padded pixels."""
        (h, w), (ic, oc) = self.out, self.channels
        return h * w * ic * oc * self.window

    @property
    def window(self) -> int:
        """Return the number of weights in a kernel of one channel."""
        return self.kernel**2

    def product(self) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
        """Return the tensors data, weight and their convolution."""
        env, k = get_env(), self.kernel
        ic, oc = self.blocks(env.config)
        data_shape = (1, ic, *self.size, env.BATCH, env.BLOCK_IN)
        weight_shape = (oc, ic, k, k, env.BLOCK_OUT, env.BLOCK_IN)
        data = te.placeholder(data_shape, env.inp_dtype, "data")
        weight = te.placeholder(weight_shape, env.wgt_dtype, "weight")
        return data, weight, conv2d(data, weight, self.stride, self.pad)

    def grid(self, config: accel.Config) -> tuple[int, int]:
        """Return the rows and columns of the output image."""
        del config
        return self.out

    def data_box(self, config: accel.Config, at: Tiling, y: int, x: int) -> Box:
        """Return the box that one step reads: channels, rows and columns, padded at the border."""
        del config
        height, width = self.size
        return (
            codegen.Dim(at.ic, height * width),
            self._rows(height, y * at.h, at.h, width),
            self._rows(width, x * at.w, at.w, 1),
        )

    def _rows(self, size: int, first: int, n: int, stride: int) -> codegen.Dim:
        """Return the rows or columns of data that result rows first .. first + n - 1 read."""
        begin = first * self.stride - self.pad
        end = begin + (n - 1) * self.stride + self.kernel
        before, after = max(0, -begin), max(0, end - size)
        return codegen.Dim(end - begin - before - after, stride, before, after)

    def result_box(self, config: accel.Config, at: Tiling) -> Box:
        """Return the box of one tile of the result: its channels, rows and columns."""
        del config
        h, w = self.out
        return codegen.Dim(at.oc, h * w), codegen.Dim(at.h, w), codegen.Dim(at.w, 1)

    def loops(self, at: Tiling) -> tuple[int, ...]:
        """Return the extents of the loops over ic, w, kernel rows, kernel columns, oc and h."""
        return at.ic, at.w, self.kernel, self.kernel, at.oc, at.h


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense(Layer):
    """A dense layer: the product of `batch` rows of data with a matrix of weights.

    It is tiled like a 1 x 1 convolution of an image with one row, and one column per row of the
    batch, so tilings use w, not h. In memory, channels are contiguous instead of columns.
    """

    batch: int = 1

    def __post_init__(self) -> None:
        pair: object = self.channels
        if not isinstance(pair, tuple) or len(pair) != 2:  # pyright: ignore
            raise ArgumentError(f"{self}", "channels must be a pair", "channels=(512, 1024)")
        if not all(map(_is_size, (*self.channels, self.batch))):
            raise ArgumentError(f"{self}", f"expected ints from 1 to {MAX_DIMENSION}", "batch=1")
        _check_options(self)

    @property
    def macs(self) -> int:
        """Return the number of multiply-adds, without those on padding."""
        ic, oc = self.channels
        return self.batch * ic * oc

    @property
    def window(self) -> int:
        """Return 1: each input channel contributes one product to an output number."""
        return 1

    def product(self) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
        """Return the tensors data, weight and their product."""
        env = get_env()
        (_, n), (ic, oc) = self.grid(env.config), self.blocks(env.config)
        data = te.placeholder((n, ic, env.BATCH, env.BLOCK_IN), env.inp_dtype, "data")
        weight = te.placeholder((oc, ic, env.BLOCK_OUT, env.BLOCK_IN), env.wgt_dtype, "weight")
        return data, weight, dense(data, weight)

    def grid(self, config: accel.Config) -> tuple[int, int]:
        """Return (1, number of blocks of the batch); the last block may be padded."""
        return 1, -(-self.batch // config.batch)

    def data_box(self, config: accel.Config, at: Tiling, y: int, x: int) -> Box:
        """Return the box of one step: a tile's part of the batch, and its input channels."""
        del y, x
        return codegen.Dim(at.w, self.blocks(config)[0]), codegen.Dim(at.ic, 1)

    def result_box(self, config: accel.Config, at: Tiling) -> Box:
        """Return the box of a tile of the result: a part of the batch, and output channels."""
        return codegen.Dim(at.w, self.blocks(config)[1]), codegen.Dim(at.oc, 1)

    def loops(self, at: Tiling) -> tuple[int, ...]:
        """Return the extents of the loops over ic, oc and w (the batch)."""
        return at.ic, at.oc, at.w


def _is_size(n: object, least: int = 1) -> bool:
    return type(n) is int and least <= n <= MAX_DIMENSION


def _check_options(layer: Layer) -> None:
    check_flag("bias", layer.bias)
    check_flag("residual", layer.residual)
    for shift in (layer.shift, 0 if layer.residual_shift is None else layer.residual_shift):
        if not is_count(shift, 0) or shift > 31:
            what = f"shift={shift!r:.60} of a layer"
            raise ArgumentError(what, "not an int from 0 to 31", "shift=8")
    if check_text("residual_dtype", layer.residual_dtype, '"int8"') not in ("int8", "int32"):
        what = f"residual_dtype={layer.residual_dtype!r} of {layer}"
        raise ArgumentError(what, "accumulators are loaded from int8 or int32", '"int8" or "int32"')
