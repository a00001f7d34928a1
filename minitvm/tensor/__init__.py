"""Formulas: tensors, the operations that define them, their axes and reductions."""

# pyright: reportUnusedImport=false

from .bounds import Facts, facts_of, guarded_loads, inside
from .broadcast import broadcast_index, broadcast_shape
from .compute import (
    MAX,
    MIN,
    PROD,
    SUM,
    comm_reducer,
    compute,
    max,
    max_value,
    min,
    min_value,
    placeholder,
    prod,
    reduce,
    reduce_axis,
    size_var,
    sum,
    var,
)
from .evaluate import evaluate
from .extern import bound_to, extern, symbols
from .intrin import TensorIntrin, decl_tensor_intrin
from .scan import body_of, check_past, rescan, scan, scan_state, states_of
from .tensor import (
    ELEMENTWISE,
    LAYOUT_FREE,
    Axis,
    AxisKind,
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    Range,
    Reduce,
    Reducer,
    ScanOp,
    Slice,
    Tensor,
    axis,
    extent_loads,
    is_from_data,
    loads,
    parts,
    producers_first,
    tensor_of,
    variable_reduce_ranges,
)
