"""Operators of neural networks, and `schedule`, which schedules a network without search."""

from typing import Any as _Any

from minitvm.base import name_missing as _name_missing

from . import (
    along_axis,
    amx,  # pyright: ignore[reportUnusedImport]  topi.amx.matmul, for one kind of CPU
    attend,
    conv,
    conv_nd,
    depthwise,
    dispatch,
    elementwise,
    functions,
    indexing,
    int8_weights,
    linear,
    nn,
    norm,
    pool,
    quantised,
    recurrent,
    reduction,
    sampling,
    shape,
)
from .along_axis import *
from .attend import *
from .conv import *
from .conv_nd import *
from .depthwise import *
from .elementwise import *
from .flops import flops  # pyright: ignore[reportUnusedImport]
from .formulas import (
    Formula,  # pyright: ignore[reportUnusedImport]  what formulas and best_formula return
    best_formula,
    formulas,
)
from .functions import *
from .indexing import *
from .int8_weights import *
from .layout_transform import layout_transform
from .linear import *
from .norm import *
from .options import Options  # pyright: ignore[reportUnusedImport]  what choose(options) takes
from .pool import *
from .quantised import *
from .recurrent import *
from .reduction import *
from .sampling import *
from .schedule import schedule
from .shape import *
from .tensor_intrin import gemm_intrin
from .winograd import WINOGRAD, conv2d_winograd  # pyright: ignore[reportUnusedImport]

# and the operators that each file lists in its own __all__
__all__ = [
    "best_formula", "conv2d_winograd", "dispatch", "formulas", "gemm_intrin", "layout_transform",
    "nn", "schedule",
]  # fmt: skip
__all__ += attend.__all__
__all__ += along_axis.__all__
__all__ += conv.__all__
__all__ += conv_nd.__all__
__all__ += int8_weights.__all__
__all__ += depthwise.__all__
__all__ += elementwise.__all__
__all__ += functions.__all__
__all__ += indexing.__all__
__all__ += linear.__all__
__all__ += norm.__all__
__all__ += pool.__all__
__all__ += quantised.__all__
__all__ += recurrent.__all__
__all__ += reduction.__all__
__all__ += sampling.__all__
__all__ += shape.__all__


def __getattr__(name: str) -> _Any:
    """Raise AttributeError for the unknown operator `name`, suggesting one with a similar name."""
    raise _name_missing("topi", name, __all__)
