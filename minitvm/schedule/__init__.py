"""Schedules as data: `apply` takes a State and a Step and returns the next State."""

# pyright: reportUnusedImport=false

from .apply import apply, replay
from .attach import (
    effective_readers,
    legal_loops,
    legal_places,
    path,
    position,
    refuse_pending,
    without_pending,
)
from .dataflow import CacheRead, CacheWrite, map_bodies, reread
from .initial import initial
from .layout import TransformLayout, axis_names, layout_index
from .loops import FACTORS, Fuse, Reorder, Split, part_sizes
from .marks import PRAGMAS, SET_BY_STEPS, Annotate, Bind, Pragma, Tensorize, know
from .places import ComputeAt, ComputeInline, ComputeRoot, StoreAt
from .prefetch import Prefetch
from .rfactor import RFactor
from .sizes import program_sizes, with_sizes
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
    constants,
    from_constants,
    inputs,
    parts,
    readers,
    root_axes,
    singletons,
)
from .step import Step, is_loop
from .steps import STEPS, from_json, misfit, to_json
from .storage import (
    DoubleBuffer,
    SetScope,
    SetStorePredicate,
    StorageAlign,
    store_conditions,
)
from .threads import (
    BLOCKS,
    TAGS,
    THREADS,
    WARP,
    check_tag,
    is_hardware,
    is_shared_by,
    is_virtual,
    scope_kind,
    scope_rank,
    thread_rank,
)
