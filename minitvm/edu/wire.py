"""Send messages between grader and student's process as JSON and raw numbers, without pickle."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import IO, Any, TypeAlias, cast

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
HEAD = struct.Struct(">QQ")  # bytes of JSON, bytes of arrays
MAX_FRAME = 256 << 20  # bytes


class ProtocolError(Exception):
    """Raised if the received bytes are not a frame, or if the other side closed the pipe."""


def send(stream: IO[bytes], message: Any, arrays: Sequence[Array] = ()) -> None:
    """Write one frame: `message` (JSON) and `arrays`."""
    blobs = [np.ascontiguousarray(a).tobytes() for a in arrays]
    shapes = [[a.dtype.str, len(blob)] for a, blob in zip(arrays, blobs, strict=True)]
    text = json.dumps({"message": message, "arrays": shapes}).encode()
    stream.write(HEAD.pack(len(text), sum(map(len, blobs))))
    stream.write(text)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[Any, list[Array]]:
    """Read one frame as (message, flat arrays); raise ProtocolError for anything else."""
    text_bytes, blob_bytes = HEAD.unpack(_exactly(stream, HEAD.size))
    if text_bytes + blob_bytes > MAX_FRAME:
        raise ProtocolError(f"{text_bytes + blob_bytes} bytes, at most {MAX_FRAME}")
    text, blob = _exactly(stream, text_bytes), _exactly(stream, blob_bytes)
    try:
        frame = json.loads(text)
        return frame["message"], _arrays(frame["arrays"], blob)
    except (ValueError, TypeError, KeyError, RecursionError) as e:
        raise ProtocolError(f"no frame: {type(e).__name__}") from None


def _arrays(shapes: Any, blob: bytes) -> list[Array]:
    """Split `blob` into flat arrays; `shapes` is [[dtype, bytes], ...]."""
    found: list[Array] = []
    at = 0
    for kind, size in cast("list[tuple[str, int]]", shapes):
        if np.dtype(kind).kind not in "biuf" or not 0 <= size <= len(blob) - at:
            raise ProtocolError(f"an array of {kind}, {size} bytes")
        found.append(np.frombuffer(blob[at : at + size], kind))
        at += size
    return found


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise ProtocolError("the other side is gone")
    return data
