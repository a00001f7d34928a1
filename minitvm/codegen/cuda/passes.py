"""The passes that lower a program for a GPU, in order."""

from minitvm import lowering

from .allreduce import lower_allreduce
from .async_copy import wait_for_copies
from .check_launch import check_launch
from .one_thread import one_thread
from .pad_tiles import pad_tiles
from .store_late import store_late
from .thread_sync import thread_sync

# Loops of kind "vectorize" and "unroll" stay as they are: the printer knows what to do with them.
PASSES: tuple[lowering.Pass, ...] = (
    *lowering.FIRST,
    lowering.flatten,  #              A[i, j]                   ->  A[i*n + j]
    lower_allreduce,  #               each thread adds its part ->  shuffles add all parts
    pad_tiles,  #                     if i < n: S[j] = A[i]     ->  S[j] = A[i] if i < n else 0
    lowering.tighten,
    lowering.inject_virtual_thread,
    lowering.inject_double_buffer,
    wait_for_copies,  #               cp_async(S, A); use S     ->  cp_async(S, A); wait; use S
    store_late,  #                    S[i + 1] = A[i + 1]; use  ->  R = A[i + 1]; use; S[i + 1] = R
    lowering.tidy,
    one_thread,  #                    S[0] = A[0]               ->  if t == 0: S[0] = A[0]
    thread_sync,  #                   S[t] = ...; ... = S[t+1]  ->  a barrier between them
    check_launch,
)
