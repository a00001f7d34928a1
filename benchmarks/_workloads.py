"""The workloads of Ansor's evaluation as torch computes them; import after arguments()."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from _conv import Run

Inputs: TypeAlias = dict[str, np.ndarray]


def by_torch(torch: Any, case: str, shape: Sequence[int], inputs: Inputs) -> Run | None:
    """A call of torch for a case, whose result has our layout; None if torch has no operator.

    Torch gets images and weights of NHWC cases in channels_last, without a copy in the call.
    """
    f = torch.nn.functional
    given = [torch.from_numpy(a) for a in inputs.values()]
    x, w, *others = *given, None
    match case, shape:
        case "C1D", (*_, stride, pad):
            return lambda: f.conv1d(x, w, None, stride, pad)
        case "C3D", (*_, stride, pad):
            return lambda: f.conv3d(x, w, None, stride, pad)
        case "T2D", (*_, stride, pad):
            return lambda: f.conv_transpose2d(x, w, None, stride, pad)
        case "GRP" | "DIL", (_, _, _, _, _, _, stride, pad, dilation, *groups):
            return _nhwc(torch, x, w, (stride, pad, dilation, *groups))
        case "DEP", (_, _, _, c, _, stride, pad):
            return _nhwc(torch, x, w.permute(0, 1, 3, 2), (stride, pad, 1, c))
        case "ConvLayer", (*_, stride, pad):
            gamma, beta, mean, variance, _ = others

            def layer(y: Any) -> Any:
                return f.relu(f.batch_norm(y, mean, variance, gamma, beta))

            return _nhwc(torch, x, w, (stride, pad), layer)
        case "NRM", _:
            return lambda: torch.linalg.norm(x, dim=(1, 2))
        case "TBS", (b, length, heads, _):
            rows = (b * heads, length, length)
            q, k = x.permute(0, 2, 1, 3), w.permute(0, 2, 3, 1)
            return lambda: f.softmax(q @ k, dim=-1).reshape(rows)
        case _:
            return None


def _nhwc(
    torch: Any, x: Any, w: Any, options: Sequence[int], then: Callable[[Any], Any] = lambda y: y
) -> Run:
    images = x.permute(0, 3, 1, 2)  # a view: the memory is that of NHWC
    taps = w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    conv = torch.nn.functional.conv2d
    return lambda: then(conv(images, taps, None, *options)).permute(0, 2, 3, 1)
