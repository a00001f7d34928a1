"""Images in all layouts, for the tests of operators."""

from __future__ import annotations

from typing import Any

import numpy as np

LAYOUTS = ("NCHW", "NHWC", "NCHW4c", "NCHW16c")


def to_layout(x: Any, layout: str) -> Any:
    """Images [N, C, H, W] in another layout."""
    if layout == "NHWC":
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    if layout == "NCHW":
        return x
    n, c, h, w = x.shape
    block = int(layout[4:-1])
    return np.ascontiguousarray(x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2))
