"""Schedules as data: a Step says what to do, `apply` does it to a State."""

# pyright: reportUnusedImport=false

from .apply import PRAGMAS, apply, ceildiv, loop, replay
from .attach import (
    effective_readers,
    legal_places,
    path,
    position,
    refuse_pending,
    without_pending,
)
from .dataflow import axis_names, layout_index, map_bodies, reread
from .initial import initial
from .memory import store_conditions
from .memory_steps import (
    Bind,
    DoubleBuffer,
    MemoryStep,
    Prefetch,
    SetStorePredicate,
    StorageAlign,
    StoreAt,
)
from .state import (
    At,
    AtRoot,
    Attach,
    FuseRelation,
    Inline,
    LoopNote,
    Pending,
    Relation,
    SplitRelation,
    Stage,
    State,
    readers,
    root_axes,
)
from .steps import (
    NAMES,
    STEPS,
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeInline,
    ComputeRoot,
    Fuse,
    Pragma,
    Reorder,
    RFactor,
    SetScope,
    Split,
    Step,
    Tensorize,
    TransformLayout,
    from_json,
    misfit,
    to_json,
)
from .tensorize import know
from .threads import TAGS, WARP, check_tag, is_shared_by, is_virtual, scope_rank, thread_rank
