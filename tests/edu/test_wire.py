"""Frames: what is sent is received, and anything else is an error, not a guess."""

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.edu.wire import HEAD, MAX_FRAME, ProtocolError, receive, send


def frame(text: bytes, blob: bytes = b"") -> io.BytesIO:
    return io.BytesIO(HEAD.pack(len(text), len(blob)) + text + blob)


def test_messages_and_arrays_arrive_in_order() -> None:
    stream = io.BytesIO()
    send(stream, {"a": [1, None]}, [np.arange(3), np.zeros(2, "float32")])
    send(stream, "second")
    stream.seek(0)
    message, (first, second) = receive(stream)
    assert message == {"a": [1, None]}
    assert first.tolist() == [0, 1, 2]
    assert second.dtype == np.float32
    assert receive(stream) == ("second", [])


def test_the_end_of_the_stream_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="the other side is gone"):
        receive(io.BytesIO())


def test_a_frame_that_claims_to_be_huge_is_not_read() -> None:
    with pytest.raises(ProtocolError, match=f"at most {MAX_FRAME}"):
        receive(io.BytesIO(HEAD.pack(2**60, 0)))


@pytest.mark.parametrize(
    "arrays",
    [
        [["O", 8]],
        [["float32", 9]],
        [["float32", -4]],
        [["float32", 3]],
        "float32",
        [[]],
        [["?!", 1]],
    ],
    ids=str,
)
def test_arrays_that_do_not_fit_their_bytes_are_refused(arrays) -> None:
    text = json.dumps({"message": None, "arrays": arrays}).encode()
    with pytest.raises(ProtocolError):
        receive(frame(text, b"12345678"))


@given(st.binary(max_size=200))
def test_random_bytes_never_do_more_than_raise(data: bytes) -> None:
    for stream in (io.BytesIO(data), frame(data)):
        with pytest.raises(ProtocolError):
            receive(stream)
