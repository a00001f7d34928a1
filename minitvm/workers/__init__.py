"""Child processes that answer requests, so that a crash or a hang does not end the caller."""

# pyright: reportUnusedImport=false

from .boot import limit_memory
from .pool import Pool
from .serve import serve
from .wire import ClosedError, Message, WireError, receive, send
from .worker import START_SECONDS, Failure, FailureKind, Worker
from .zygote import FORKS, die_with_parent
