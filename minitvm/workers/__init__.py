"""Child processes that answer requests, so that a crash or a hang does not end the caller."""

# pyright: reportUnusedImport=false

from .serve import serve
from .wire import ClosedError, Message, WireError, receive, send
from .worker import Failure, FailureKind, Worker
