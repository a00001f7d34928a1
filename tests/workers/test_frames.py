"""Frames survive a pipe; bytes that are no frame are refused."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.workers import Message, WireError, receive, send
from minitvm.workers.wire import HEAD


def written(value: object, *blobs: bytes) -> bytes:
    stream = io.BytesIO()
    send(stream, value, blobs)
    return stream.getvalue()


def frame(text: bytes, blob: bytes = b"") -> bytes:
    return HEAD.pack(len(text), len(blob)) + text + blob


def test_frames_follow_one_another() -> None:
    stream = io.BytesIO(written([1, "a"], b"x", b"", b"yz") + written(None))
    assert receive(stream) == Message([1, "a"], (b"x", b"", b"yz"))
    assert receive(stream) == Message(None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"short",
        written("cut off")[:-1],
        frame(b"not json"),
        frame(b"[]"),
        frame(b'{"value": 1}'),
        frame(b'{"value": 1, "blobs": 3}'),
        frame(b'{"value": 1, "blobs": [4]}', b"xyz"),
        frame(b'{"value": 1, "blobs": [2]}', b"xyz"),
        frame(b'{"value": 1, "blobs": [-1, 4]}', b"xyz"),
        frame(json.dumps("[" * 10).encode()),
    ],
)
def test_bytes_that_are_no_frame_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        receive(io.BytesIO(data))


@given(st.binary(max_size=200))
def test_random_bytes_never_do_more_than_raise(data: bytes) -> None:
    for stream in (data, frame(data)):
        with pytest.raises(WireError):
            receive(io.BytesIO(stream))


def test_a_frame_that_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(WireError, match=r"a frame of 1000000000000 bytes; the limit is 1073741824"):
        receive(io.BytesIO(HEAD.pack(10**12, 0)))
