"""Child processes that answer requests: a crash, a hang or a leak ends them, never the caller."""

# pyright: reportUnusedImport=false

from .serve import serve
from .wire import Frame, WireError, receive, send
from .worker import Failure, Worker
