"""What all packages share: errors, dtypes, targets, host facts, the node decorator, debugging."""

# pyright: reportUnusedImport=false

from . import processor, target
from .arguments import check_count, check_flag, check_kind, check_text, check_unmasked, is_count
from .brief import brief, plural
from .divisors import divisors
from .dtype import (
    BFLOAT16,
    BOOL,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
    dtype,
    holds_floats,
    promote,
)
from .errors import (
    ArgumentError,
    BuildError,
    ExprError,
    GraphError,
    LoweringError,
    MeasureError,
    NameMissingError,
    Reason,
    ScheduleError,
    TVMError,
    VerifyError,
    importing,
    name_missing,
    raise_first,
    users_line,
)
from .front_end import front_end
from .functions import named
from .host import Dot2, Dot4, Host, amx_permitted, amx_products, host
from .node import CHECK, node
from .target import Target
from .trace import debug, debug_level
from .tuples import as_tuple
