"""Several workers, and threads that ask them."""

from __future__ import annotations

import queue
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from .worker import Worker

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Pool:
    """`count` workers that run `module`, each started with the given options of Worker.

    Use it in a `with` statement, or close() it.
    """

    def __init__(self, module: str, count: int, **options: Any) -> None:
        self._workers = [Worker(module, **options) for _ in range(count)]
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()  # few start if few are used
        for worker in reversed(self._workers):
            self._idle.put(worker)

    def __len__(self) -> int:
        return len(self._workers)

    @contextmanager
    def idle(self) -> Generator[Worker]:
        """Wait for an idle worker; in the `with` statement, no other thread gets it."""
        worker = self._idle.get()
        try:
            yield worker
        finally:
            self._idle.put(worker)

    def map(self, ask: Callable[[Worker, Item], Answer], items: Sequence[Item]) -> Iterator[Answer]:
        """Yield ask(worker, item) for all items, as each one is done; it runs in threads.

        If the caller stops early, by an error or Ctrl-C, the requests under way end at once, and
        the pool is closed.
        """

        def answer(item: Item) -> Answer:
            with self.idle() as worker:
                return ask(worker, item)

        threads = ThreadPoolExecutor(max(1, len(self)), "minitvm-ask")
        is_done = False
        try:
            for future in as_completed([threads.submit(answer, item) for item in items]):
                yield future.result()
            is_done = True
        finally:
            if not is_done:
                self.retire()
            threads.shutdown(cancel_futures=True)

    def kill(self) -> None:
        """Make the requests that wait in other threads fail; later ones start new processes."""
        for worker in self._workers:
            worker.kill()

    def retire(self) -> None:
        """Make the requests that wait in other threads fail, and later ones raise ClosedError."""
        for worker in self._workers:
            worker.retire()

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
