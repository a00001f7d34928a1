"""Instructions of the accelerator: passes that find them, and the emitter."""

# pyright: reportUnusedImport=false

from .emit import emit_vta
from .target import VTA
from .transfer import Dim, transfers
