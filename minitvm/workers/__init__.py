"""Child processes that answer requests, so that a crash or a hang does not end the caller."""

# pyright: reportUnusedImport=false

from .boot import limit, limit_memory
from .pool import Pool
from .process import FOLDER
from .seccomp import can_refuse_system_calls, refuse_system_calls
from .serve import serve
from .wall import Wall
from .wall import fault as wall_fault
from .wire import ClosedError, Message, WireError, receive, send
from .worker import START_SECONDS, Failure, FailureKind, Worker
from .zygote import FORKS, die_with_parent
