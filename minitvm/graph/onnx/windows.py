"""ONNX operators on windows of images: convolutions and poolings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub
from typing import Any

from .place import Place, Value, dtype_of, shape_of
from .shapes import cut

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A window and its steps, in the last dimensions of an image, and the padding around it."""

    kernel: Sizes
    strides: Sizes
    dilations: Sizes
    before: Sizes
    after: Sizes

    @property
    def edges(self) -> Sizes:
        """The padding before each dimension, then the padding after each dimension."""
        return (*self.before, *self.after)

    @property
    def reach(self) -> Sizes:
        """The pixels that the window spans, including gaps."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def short(values: Sizes) -> Any:
    """Return the numbers, or one of them if all are equal."""
    return values[0] if len(set(values)) == 1 else values


def options(**attrs: tuple[Sizes, int]) -> dict[str, Any]:
    """Return the attributes, each attrs as (value, default), that differ from their defaults."""
    return {k: short(v) for k, (v, default) in attrs.items() if short(v) != default}


def window_of(at: Place, shape: Sizes, kernel: Sizes) -> Window:
    """Return the window that the attributes of a node describe, for images of this shape."""
    rank, sizes = len(kernel), shape[2:]
    if at.attrs.get("kernel_shape", kernel) != kernel or len(sizes) != rank:
        raise at.refusal(f"its kernel {list(kernel)} does not fit images of size {list(sizes)}")
    ones = (1,) * rank
    strides, dilations = at.attrs.get("strides", ones), at.attrs.get("dilations", ones)
    pads = at.attrs.get("pads", (0,) * (2 * rank))
    lengths = (len(strides), len(dilations), len(pads)) != (rank, rank, 2 * rank)
    if lengths or min((*kernel, *strides, *dilations)) < 1 or min(pads) < 0:
        why = f"kernel {kernel}, strides {strides}, dilations {dilations} and pads {pads}"
        raise at.refusal(f"{why} do not fit {rank} dimensions")
    before, after = pads[:rank], pads[rank:]
    match at.attrs.get("auto_pad", "NOTSET"):
        case "NOTSET":
            pass
        case "VALID":
            before = after = (0,) * rank
        case "SAME_UPPER" | "SAME_LOWER" as auto:
            reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
            whole = [
                max(0, (-(-n // s) - 1) * s + r - n)
                for n, s, r in zip(sizes, strides, reach, strict=True)
            ]
            before, after = _halves(whole, auto)
        case other:
            raise at.refusal(f"its attribute auto_pad={other!r} is not one of ONNX's")
    at.limit([*shape[:2], *map(sum, zip(sizes, before, after, strict=True))])
    return Window(kernel, strides, dilations, before, after)


def _halves(padding: Sequence[int], auto: str) -> tuple[Sizes, Sizes]:
    """Return the padding before and after; SAME_UPPER puts an odd row after."""
    less, more = tuple(n // 2 for n in padding), tuple(n - n // 2 for n in padding)
    return (less, more) if auto == "SAME_UPPER" else (more, less)


def flat(w: Window) -> Window:
    """Return a window of one dimension as one of images of height 1."""
    return Window((1, *w.kernel), (1, *w.strides), (1, *w.dilations), (0, *w.before), (0, *w.after))


def _images(at: Place, x: Value) -> Value:
    """Return x [N, C, W] as [N, C, 1, W]."""
    n, c, wide = shape_of(x)
    return at.reshape(x, (n, c, 1, wide))


def _rank(at: Place, x: Value, allowed: str, highest: int) -> int:
    """Return how many dimensions an image has; refuse 0, and more than `highest`."""
    rank = len(shape_of(x)) - 2
    if not 1 <= rank <= highest:
        why = f"its input has shape {list(shape_of(x))}; images have {allowed} dimensions"
        raise at.refusal(why + " after batch and channels")
    return rank


def conv(at: Place, x: Value, w: Value, bias: Value | None = None) -> Value:
    """Conv of 1, 2 or 3 dimensions; in float16, products are summed in float32."""
    if dtype_of(x) == "float16":
        x, w = (at.make("cast", v, dtype="float32") for v in (x, w))
        bias = bias if bias is None else at.make("cast", bias, dtype="float32")
        return at.make("cast", conv(at, x, w, bias), dtype="float16")
    rank = _rank(at, x, "1 to 3", 3)
    if len(shape_of(w)) != rank + 2:
        raise at.refusal(f"kernel {list(shape_of(w))} does not fit input {list(shape_of(x))}")
    window = window_of(at, shape_of(x), shape_of(w)[2:])
    groups = at.attrs.get("group", 1)
    if shape_of(x)[1] != shape_of(w)[1] * groups or shape_of(w)[0] % groups:
        why = f"kernel {list(shape_of(w))} does not fit input {list(shape_of(x))}"
        raise at.refusal(f"{why} with {groups} groups")
    if rank == 3:
        parts = _groups(at, x, w, groups)
        return _bias(at, _joined(at, [_conv3d(at, *part, window) for part in parts]), bias)
    if rank == 1:
        x, w, window = _images(at, x), _images(at, w), flat(window)
    attrs = options(
        strides=(window.strides, 1), dilation=(window.dilations, 1), groups=((groups,), 1)
    )
    y = _bias(at, at.make("conv2d", x, w, **attrs, **_padding(window)), bias)
    return _lines(at, y) if rank == 1 else y


def _padding(w: Window) -> dict[str, Any]:
    """Return the attribute `padding` of images; no attribute if nothing is padded."""
    if any(w.edges):
        is_symmetric = w.before == w.after
        return {"padding": short(w.before) if is_symmetric else w.edges}
    return {}


def _groups(at: Place, x: Value, w: Value, groups: int) -> list[tuple[Value, Value]]:
    """Return the channels of x, and the first dimension of w, in groups."""
    if groups == 1:
        return [(x, w)]
    c, o = shape_of(x)[1] // groups, shape_of(w)[0] // groups
    return [
        (cut(at, x, {1: (k * c, k * c + c, 1)}), cut(at, w, {0: (k * o, k * o + o, 1)}))
        for k in range(groups)
    ]


def _joined(at: Place, parts: list[Value]) -> Value:
    return parts[0] if len(parts) == 1 else at.make("concatenate", *parts, axis=1)


def _conv3d(at: Place, x: Value, w: Value, window: Window) -> Value:
    if window.before != window.after:
        x = at.make("pad", x, pad_before=(0, 0, *window.before), pad_after=(0, 0, *window.after))
        pads: Sizes = (0, 0, 0)
    else:
        pads = window.before
    attrs = options(strides=(window.strides, 1), padding=(pads, 0), dilation=(window.dilations, 1))
    return at.make("conv3d", x, w, **attrs)


def _bias(at: Place, y: Value, bias: Value | None) -> Value:
    """Add a number to each channel."""
    if bias is None:
        return y
    _, channels, *sizes = shape_of(y)
    if shape_of(bias) != (channels,):
        raise at.refusal(f"its bias has shape {list(shape_of(bias))}, not [{channels}]")
    return at.make("add", y, at.reshape(bias, (channels, *([1] * len(sizes)))))


def _lines(at: Place, y: Value) -> Value:
    """Return images [N, C, 1, W] as [N, C, W]."""
    n, c, _, wide = shape_of(y)
    return at.reshape(y, (n, c, wide))


def conv_transpose(at: Place, x: Value, w: Value, bias: Value | None = None) -> Value:
    """ConvTranspose of 1, 2 or 3 dimensions."""
    rank, groups = _rank(at, x, "1 to 3", 3), at.attrs.get("group", 1)
    if len(shape_of(w)) != rank + 2 or shape_of(x)[1] != shape_of(w)[0]:
        raise at.refusal(f"kernel {list(shape_of(w))} does not fit input {list(shape_of(x))}")
    if groups < 1 or shape_of(x)[1] % groups:
        raise at.refusal(f"{shape_of(x)[1]} channels are not {groups} groups")
    window, missing = _transposed_window(at, shape_of(x), shape_of(w)[2:])
    w = spread(at, w, window.dilations)
    parts = _groups(at, x, w, groups)
    y = _joined(at, [_transposed(at, *part, window, missing) for part in parts])
    return _bias(at, y, bias)


def _transposed_window(at: Place, shape: Sizes, kernel: Sizes) -> tuple[Window, Sizes]:
    """Return the window of a ConvTranspose, and the rows at the end that no pixel reaches."""
    rank, sizes = len(kernel), shape[2:]
    window = window_of(at, shape, kernel)
    strides, before, after = window.strides, window.before, window.after
    stretched = zip(sizes, strides, window.reach, strict=True)
    at.limit([*shape[:2], *((n - 1) * s + 2 * k for n, s, k in stretched)])
    extra = at.attrs.get("output_padding", (0,) * rank)
    auto = at.attrs.get("auto_pad", "NOTSET")
    out = at.attrs.get("output_shape")
    if out is None and auto.startswith("SAME"):
        out = tuple(n * s for n, s in zip(sizes, strides, strict=True))
    if out is not None:
        full = zip(sizes, strides, window.reach, extra, out[-rank:], strict=True)
        before, after = _halves([s * (n - 1) + e + k - m for n, s, k, e, m in full], auto)
    after = tuple(a - e for a, e in zip(after, extra, strict=True))
    missing = tuple(max(0, -a) for a in after)
    after = tuple(max(0, a) for a in after)
    return Window(window.kernel, strides, window.dilations, before, after), missing


def _transposed(at: Place, x: Value, w: Value, window: Window, missing: Sizes) -> Value:
    rank = len(window.kernel)
    if rank == 3:
        y = _conv3d_transpose(at, x, w, window)
    else:
        if rank == 1:
            x, w, window, missing = _images(at, x), _images(at, w), flat(window), (0, *missing)
        attrs = options(strides=(window.strides, 1))
        y = at.make("conv2d_transpose", x, w, **attrs, **_padding(window))
    if any(missing):
        zeros = (0,) * len(shape_of(y))
        y = at.make("pad", y, pad_before=zeros, pad_after=(0, 0, *missing))
    return _lines(at, y) if rank == 1 else y


def _conv3d_transpose(at: Place, x: Value, w: Value, window: Window) -> Value:
    """Convolve x, with zeros between its pixels, with the flipped kernel."""
    x = spread(at, x, window.strides)
    w = at.make("transpose", w, axes=(1, 0, 2, 3, 4))
    w = cut(at, w, {d: (n - 1, -1, -1) for d, n in enumerate(shape_of(w)) if d > 1})
    x = at.make("pad", x, pad_before=(0, 0, *(k - 1 for k in window.reach)))
    y = at.make("conv3d", x, w)
    edges = zip(window.before, window.after, shape_of(y)[2:], strict=True)
    return cut(at, y, {d: (b, n - a, 1) for d, (b, a, n) in enumerate(edges, 2)})


def spread(at: Place, x: Value, steps: Sizes) -> Value:
    """Put steps[d] - 1 zeros between the elements of each dimension d after the second."""
    for d, (n, step) in enumerate(zip(shape_of(x)[2:], steps, strict=True), 2):
        if step > 1:
            shape = shape_of(x)
            x = at.reshape(x, (*shape[: d + 1], 1, *shape[d + 1 :]))
            after = [step - 1 if e == d + 1 else 0 for e in range(len(shape) + 1)]
            x = at.make("pad", x, pad_before=[0] * len(after), pad_after=after)
            x = at.reshape(x, (*shape[:d], n * step, *shape[d + 1 :]))
            x = cut(at, x, {d: (0, (n - 1) * step + 1, 1)})
    return x


def pool(at: Place, x: Value, op: str) -> Value:
    """MaxPool and AveragePool of 1 to 3 dimensions."""
    rank = _rank(at, x, "1 to 3", 3)
    kernel = at.attrs["kernel_shape"]
    window = window_of(at, shape_of(x), kernel)
    ceil, counts_padding = at.flag("ceil_mode"), at.flag("count_include_pad")
    outer = ceiled(window, shape_of(x)[2:]) if ceil else window
    if op == "avg_pool2d" and ceil and counts_padding and any(window.edges):
        # means count this padding, but not what a last step reads after it
        after = tuple(map(min, window.after, outer.after))
        x = at.make("pad", x, pad_before=(0, 0, *window.before), pad_after=(0, 0, *after))
        rest = tuple(map(sub, outer.after, after))
        outer = Window(kernel, window.strides, window.dilations, (0,) * rank, rest)
    attrs: dict[str, Any] = {}
    if op == "avg_pool2d" and any(outer.edges) and (ceil or not counts_padding):
        attrs["count_include_pad"] = False
    return pooled(at, x, outer, op, **attrs)


def pooled(at: Place, x: Value, window: Window, op: str, **attrs: Any) -> Value:
    """Apply a pooling operator to images of 1 to 3 dimensions."""
    match len(window.kernel):
        case 1:
            return _lines(at, _pool2d(at, _images(at, x), flat(window), op, **attrs))
        case 2:
            return _pool2d(at, x, window, op, **attrs)
        case _:
            return _pool3d(at, x, window, op, **attrs)


def ceiled(w: Window, sizes: Sizes) -> Window:
    """Return the window with padding for a last step that goes past the end of the image.

    A step that begins past the end, in the padding, is left out.
    """
    after: list[int] = []
    parts = zip(sizes, w.reach, w.strides, w.before, w.after, strict=True)
    for n, k, s, b, a in parts:
        steps = -(-(n + b + a - k) // s)
        steps -= steps * s >= n + b
        after.append(max(0, steps * s + k - n - b))
    return Window(w.kernel, w.strides, w.dilations, w.before, tuple(after))


def _pool2d(at: Place, x: Value, window: Window, op: str, **attrs: Any) -> Value:
    sizes: dict[str, Any] = {"kernel": short(window.kernel), "strides": short(window.strides)}
    gaps = options(dilation=(window.dilations, 1))
    return at.make(op, x, **sizes, **gaps, **attrs, **_padding(window))


def _pool3d(at: Place, x: Value, window: Window, op: str, **attrs: Any) -> Value:
    """Pool height and width, then depth: a maximum or a mean of equal windows allows this."""
    n, c, d, h, w = shape_of(x)
    parts = (window.kernel, window.strides, window.dilations, window.before, window.after)
    y = _pool2d(
        at, at.reshape(x, (n, c * d, h, w)), Window(*(each[1:] for each in parts)), op, **attrs
    )
    h, w = shape_of(y)[2:]
    depth = Window(*((each[0], k) for each, k in zip(parts, (1, 1, 1, 0, 0), strict=True)))
    y = _pool2d(at, at.reshape(y, (n, c, d, h * w)), depth, op, **attrs)
    return at.reshape(y, (n, c, shape_of(y)[2], h, w))


def global_pool(at: Place, x: Value, op: str) -> Value:
    """Reduce all dimensions after batch and channels."""
    return at.make(op, x, axis=tuple(range(2, len(shape_of(x)))), keepdims=True)
