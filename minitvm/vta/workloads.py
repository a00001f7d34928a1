"""The layers that tilings are sought for: their formulas, and what of their data is in a tile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from minitvm import accel, codegen, te
from minitvm.base import ArgumentError, check_flag, check_text

from .arguments import is_count
from .environment import get_env
from .top import Tiling, conv2d, dense, requantize, schedule

MOST = 1 << 16  # rows, channels, ...: more than any layer has
Box = tuple[
    codegen.Dim, ...
]  # dimensions of an array in main memory, the outermost first, in elements


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer(ABC):
    """A quantised layer of a network: int8 to int8; products are added up, shifted and limited.

    channels         (input, output), not in blocks
    bias, residual   is one added before, or after, the shift?
    residual_dtype   "int32", or "int8" as the layer before has left it: a quarter of the bytes
    """

    channels: tuple[int, int]
    bias: bool = False
    residual: bool = False
    residual_dtype: str = "int32"
    shift: int = 8

    def blocks(self, config: accel.Config) -> tuple[int, int]:
        """(input, output) channels in blocks, the last of which may be filled up with zeros."""
        ic, oc = self.channels
        return -(-ic // config.block_in), -(-oc // config.block_out)

    @property
    def residual_memory(self) -> accel.Memory:
        """The elements that a residual is loaded as."""
        return accel.Memory.ACC_8BIT if self.residual_dtype == "int8" else accel.Memory.ACC

    def scheduled(self, tiling: Tiling) -> tuple[te.Schedule, list[te.Tensor]]:
        """What vta.build takes."""
        args = self.tensors()
        return schedule(args[-1], tiling), args

    def tensors(self) -> list[te.Tensor]:
        """Data, weight, perhaps bias and residual, and the result: packed for the machine now."""
        env, (data, weight, total) = get_env(), self.product()
        element = (total.shape[1], env.BATCH, env.BLOCK_OUT)
        bias = te.placeholder(element, env.acc_dtype, "bias") if self.bias else None
        residual = None
        if self.residual:
            residual = te.placeholder(total.shape, self.residual_dtype, "residual")
        result = requantize(total, bias, residual, shift=self.shift)
        return [data, weight, *(t for t in (bias, residual) if t is not None), result]

    @abstractmethod
    def product(self) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
        """Data, weight, and the int32 sums of their products."""

    @property
    @abstractmethod
    def macs(self) -> int:
        """Useful multiply-adds."""

    @property
    @abstractmethod
    def window(self) -> int:
        """Products that one input channel adds to a result."""

    @abstractmethod
    def grid(self, config: accel.Config) -> tuple[int, int]:
        """Rows and columns of the result, in elements: what tiles divide beside its channels."""

    @abstractmethod
    def pixels(self, config: accel.Config) -> int:
        """Elements of one block of input channels that are read at all."""

    @abstractmethod
    def data_box(self, config: accel.Config, at: Tiling, y: int, x: int) -> Box:
        """What of the data is loaded for one step of the tile at row y and column x of tiles."""

    def weight_box(self, config: accel.Config, at: Tiling) -> Box:
        """What of the weights is loaded for one step of a tile."""
        ic, window = self.blocks(config)[0], self.window
        return codegen.Dim(at.oc, ic * window), codegen.Dim(at.ic, window), codegen.Dim(window, 1)

    @abstractmethod
    def result_box(self, config: accel.Config, at: Tiling) -> Box:
        """A tile of the result."""

    @abstractmethod
    def loops(self, at: Tiling) -> tuple[int, ...]:
        """The extents of the loops around the matrix unit in one step, as large as they can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution(Layer):
    """A convolution of one image.

    size   (rows, columns) of the data
    """

    size: tuple[int, int]
    kernel: int = 3
    stride: int = 1
    pad: int = 1

    def __post_init__(self) -> None:
        pairs: tuple[object, object] = self.size, self.channels
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):  # pyright: ignore
            raise ArgumentError(f"{self}", "size and channels are pairs", "size=(14, 14)")
        counts = (*self.size, *self.channels, self.kernel, self.stride)
        whole = all(map(_is_size, counts)) and _is_size(self.pad, 0)
        if not whole or min(self.out) < 1:
            raise ArgumentError(
                f"{self}", f"its sizes are counts up to {MOST}, and its kernel fits", "pad=1"
            )
        _check_options(self)

    @property
    def out(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        h, w = ((n + 2 * self.pad - self.kernel) // self.stride + 1 for n in self.size)
        return h, w

    @property
    def macs(self) -> int:
        """Useful multiply-adds: those with zeros around the data count, as in every paper."""
        (h, w), (ic, oc) = self.out, self.channels
        return h * w * ic * oc * self.window

    @property
    def window(self) -> int:
        """The numbers of the kernel."""
        return self.kernel**2

    def product(self) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
        """Data, weight and their convolution."""
        env, k = get_env(), self.kernel
        ic, oc = self.blocks(env.config)
        data_shape = (1, ic, *self.size, env.BATCH, env.BLOCK_IN)
        weight_shape = (oc, ic, k, k, env.BLOCK_OUT, env.BLOCK_IN)
        data = te.placeholder(data_shape, env.inp_dtype, "data")
        weight = te.placeholder(weight_shape, env.wgt_dtype, "weight")
        return data, weight, conv2d(data, weight, self.stride, self.pad)

    def grid(self, config: accel.Config) -> tuple[int, int]:
        """Those of the result's image."""
        del config
        return self.out

    def pixels(self, config: accel.Config) -> int:
        """Pixels; with a stride, some are not read."""
        del config
        return self._touched(0) * self._touched(1)

    def _touched(self, d: int) -> int:
        """How many rows (or columns) of the data are read at all."""
        starts = range(-self.pad, self.out[d] * self.stride - self.pad, self.stride)
        read = {y for a in starts for y in range(a, a + self.kernel)}
        return len(read & {*range(self.size[d])})

    def data_box(self, config: accel.Config, at: Tiling, y: int, x: int) -> Box:
        """Some channels of a window; at the border less of it, and zeros."""
        del config
        height, width = self.size
        return (
            codegen.Dim(at.ic, height * width),
            self._rows(height, y * at.h, at.h, width),
            self._rows(width, x * at.w, at.w, 1),
        )

    def _rows(self, size: int, first: int, n: int, stride: int) -> codegen.Dim:
        """The rows (or columns) of the data for n of the result from `first` on."""
        begin = first * self.stride - self.pad
        end = begin + (n - 1) * self.stride + self.kernel
        before, after = max(0, -begin), max(0, end - size)
        return codegen.Dim(end - begin - before - after, stride, before, after)

    def result_box(self, config: accel.Config, at: Tiling) -> Box:
        """Some channels of a rectangle."""
        del config
        h, w = self.out
        return codegen.Dim(at.oc, h * w), codegen.Dim(at.h, w), codegen.Dim(at.w, 1)

    def loops(self, at: Tiling) -> tuple[int, ...]:
        """Channels, columns, the kernel; then what is made of micro-operations."""
        return at.ic, at.w, self.kernel, self.kernel, at.oc, at.h


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense(Layer):
    """A dense layer, of `batch` rows of data: a product with a matrix of weights.

    Its tiles are those of a 1 x 1 convolution of an image of one row, a column for each of the
    batch: tilings have w and no h. Only in memory channels are side by side, not columns.
    """

    batch: int = 1

    def __post_init__(self) -> None:
        pair: object = self.channels
        if not isinstance(pair, tuple) or len(pair) != 2:  # pyright: ignore
            raise ArgumentError(f"{self}", "channels are a pair", "channels=(512, 1024)")
        if not all(map(_is_size, (*self.channels, self.batch))):
            raise ArgumentError(f"{self}", f"its sizes are counts up to {MOST}", "batch=1")
        _check_options(self)

    @property
    def macs(self) -> int:
        """Useful multiply-adds."""
        ic, oc = self.channels
        return self.batch * ic * oc

    @property
    def window(self) -> int:
        """One."""
        return 1

    def product(self) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
        """Data, weight and their product."""
        env = get_env()
        (_, n), (ic, oc) = self.grid(env.config), self.blocks(env.config)
        data = te.placeholder((n, ic, env.BATCH, env.BLOCK_IN), env.inp_dtype, "data")
        weight = te.placeholder((oc, ic, env.BLOCK_OUT, env.BLOCK_IN), env.wgt_dtype, "weight")
        return data, weight, dense(data, weight)

    def grid(self, config: accel.Config) -> tuple[int, int]:
        """One row; the batch in blocks, the last of which may be filled up with zeros."""
        return 1, -(-self.batch // config.batch)

    def pixels(self, config: accel.Config) -> int:
        """The batch in blocks."""
        return self.grid(config)[1]

    def data_box(self, config: accel.Config, at: Tiling, y: int, x: int) -> Box:
        """Some channels of some of the batch."""
        del y, x
        return codegen.Dim(at.w, self.blocks(config)[0]), codegen.Dim(at.ic, 1)

    def result_box(self, config: accel.Config, at: Tiling) -> Box:
        """Some channels of some of the batch."""
        return codegen.Dim(at.w, self.blocks(config)[1]), codegen.Dim(at.oc, 1)

    def loops(self, at: Tiling) -> tuple[int, ...]:
        """Input channels, output channels, the batch."""
        return at.ic, at.oc, at.w


def _is_size(n: object, least: int = 1) -> bool:
    return type(n) is int and least <= n <= MOST


def _check_options(layer: Layer) -> None:
    check_flag("bias", layer.bias)
    check_flag("residual", layer.residual)
    if not is_count(layer.shift, 0) or layer.shift > 31:
        raise ArgumentError(
            f"shift={layer.shift!r:.60} of a layer", "it is from 0 to 31", "shift=8"
        )
    if check_text("residual_dtype", layer.residual_dtype, '"int8"') not in ("int8", "int32"):
        raise ArgumentError(
            f"residual_dtype={layer.residual_dtype!r} of {layer}",
            "the accumulators are loaded from int8 or int32",
            'residual_dtype="int8"',
        )
