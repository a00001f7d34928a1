"""AutoTVM: templates with knobs, tuners that choose their options, and contexts that apply them."""

# pyright: reportUnusedImport=false

from . import task
from .dispatch import ApplyConfig, ApplyFixedConfig, DispatchContext, FallbackContext, get_config
from .entities import AnnotateEntity, OtherOptionEntity, ReorderEntity, SplitEntity
from .space import ConfigEntity, ConfigSpace, FallbackConfigEntity, InstantiationError
from .task import Task
from .templates import Template, args_to_workload, clear, template
