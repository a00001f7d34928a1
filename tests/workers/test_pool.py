"""A pool asks several workers at a time, and leaves no process behind."""

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from minitvm.workers import Failure, Message, Pool, Worker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    others = {p.pid for p in psutil.Process().children(recursive=True)}
    with Pool("echo", 2) as pool:
        yield pool
    assert {p.pid for p in psutil.Process().children(recursive=True)} <= others


def answer(worker: Worker, request: object) -> object:
    reply = worker.ask(request, seconds=60)
    return reply.value if isinstance(reply, Message) else str(reply)


def test_every_item_is_answered_once(pool: Pool) -> None:
    assert sorted(pool.map(answer, range(10))) == list(range(10))  # type: ignore[type-var]


def test_an_error_ends_the_other_requests(pool: Pool) -> None:
    def refuse(worker: Worker, item: int) -> None:
        if item == 1:
            raise ValueError("item 1")
        worker.ask(["sleep", 60.0], seconds=120)

    with pytest.raises(ValueError, match="item 1"):
        list(pool.map(refuse, range(2)))


def test_a_killed_pool_fails_its_requests_and_answers_later_ones(pool: Pool) -> None:
    with pool.idle() as worker:
        pool.kill()
        assert not isinstance(worker.ask("hello", seconds=60), Failure)
