"""The target "vta": passes that turn loops into its instructions, and the emitter."""

# pyright: reportUnusedImport=false

from .emit import emit_vta
from .target import VTA
from .transfer import Dim, transfers
