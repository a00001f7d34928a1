"""Send messages between two processes as JSON and raw bytes, without pickle.

A message is sent as one frame:

8 bytes   length of the text, big-endian
8 bytes   length of all blobs together
text      JSON: {"value": ..., "blobs": [length, ...]}
blobs     one after the other
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import IO, Any, NamedTuple, cast

HEAD = struct.Struct(">QQ")
MAX_BYTES = 1 << 30  # bytes of one frame
MAX_BYTES_APART = 1 << 28  # the same, from a process that is not trusted
MAX_TEXT_APART = 1 << 25  # bytes of its text: JSON such as [[],[],...] takes 25 times the memory


class Message(NamedTuple):
    """One message: a value that JSON can express, and byte strings (blobs) sent with it."""

    value: Any
    blobs: tuple[bytes, ...] = ()


class WireError(Exception):
    """Raised if the received bytes are not a frame, or if the other side closed the pipe."""


class ClosedError(WireError):
    """Raised if the other side closed the pipe, between two frames or inside one."""


def send(stream: IO[bytes], value: Any, blobs: Sequence[bytes] = ()) -> None:
    """Write one message to `stream` as a frame."""
    text = json.dumps({"value": value, "blobs": [len(b) for b in blobs]}).encode()
    stream.write(HEAD.pack(len(text), sum(map(len, blobs))))
    stream.write(text)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def receive(stream: IO[bytes], limit: int = MAX_BYTES, text_limit: int = MAX_BYTES) -> Message:
    """Read one frame; raise WireError if it is malformed or longer than `limit` bytes.

    text_limit   the limit of its text alone, in bytes
    """
    text_bytes, blob_bytes = HEAD.unpack(_exactly(stream, HEAD.size))
    if text_bytes + blob_bytes > limit:
        raise WireError(f"a frame of {text_bytes + blob_bytes} bytes; the limit is {limit}")
    if text_bytes > text_limit:
        raise WireError(f"a text of {text_bytes} bytes; the limit is {text_limit}")
    try:
        text, rest = _exactly(stream, text_bytes), _exactly(stream, blob_bytes)
        frame = json.loads(text)
        return Message(frame["value"], _split(rest, frame["blobs"]))
    except (ValueError, TypeError, KeyError, RecursionError, MemoryError) as e:
        raise WireError(f"not a frame: {type(e).__name__}") from None


def _split(data: bytes, lengths: object) -> tuple[bytes, ...]:
    """Cut `data` into blobs; `lengths` are their sizes in bytes."""
    if not isinstance(lengths, list):
        raise TypeError("the lengths of blobs are not a list")
    sizes = cast("list[object]", lengths)
    blobs: list[bytes] = []
    at = 0
    for size in sizes:
        if not isinstance(size, int) or not 0 <= size <= len(data) - at:
            raise ValueError("a blob does not fit into the frame")
        blobs.append(data[at : at + size])
        at += size
    if at < len(data):
        raise ValueError("bytes are left after the last blob")
    return tuple(blobs)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise ClosedError("the other side closed the pipe")
    return data
