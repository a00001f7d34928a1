"""The program that explore() runs in other processes: it evaluates a configuration on request."""

from __future__ import annotations

from minitvm import workers

from .designs import answer


def answer_message(message: workers.Message) -> workers.Message:
    """Return the cycles and tilings of a configuration, or why it is refused."""
    return workers.Message(answer(message.value))


if __name__ == "__main__":
    workers.serve(answer_message)
