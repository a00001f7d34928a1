"""The child's side of the fuzz driver: run the cases that the parent asks for."""

from __future__ import annotations

import pickle

from minitvm import workers

from .case import run_case


def answer(request: workers.Message) -> workers.Message:
    """Run the case that the request [seed, targets] names; return its pickled CaseResult."""
    seed, targets = request.value
    return workers.Message(None, (pickle.dumps(run_case(seed, targets)),))


if __name__ == "__main__":
    workers.serve(answer)
