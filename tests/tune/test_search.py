"""Searches on a fake machine: budgets, stopping, failures, events, threads, resuming."""

import io
import math
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from minitvm import tune
from minitvm.base import ArgumentError, MeasureError
from tests.tune.fakes import Machine, search, seconds, sketch, task


def failing(kind: str, detail: str = "what happened", every: int = 1):
    """Return a `wrong` for Machine: each `every`-th trial fails."""
    failure = tune.Result((), kind, detail)
    return lambda number: None if number % every else failure


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"trials": 0},
        {"trials": -3},
        {"seconds": 0},
        {"seconds": -1.0},
        {"seconds": math.nan},
        {"trials": 5, "early_stopping": 0},
        {"trials": 5, "failures": 0},
    ],
)
def test_an_impossible_budget_is_refused(limits) -> None:
    with pytest.raises(ArgumentError, match="budget of a search"):
        search(**limits)
    with pytest.raises(ArgumentError, match="budget of a search"):
        tune.Search(task(), **limits)


def test_a_task_without_sketches_and_an_empty_batch_are_refused() -> None:
    empty = tune.Task("matmul", (), task().target, task().args, 1.0, ())
    with pytest.raises(ArgumentError, match="no sketches"):
        tune.run(empty, trials=1)
    with pytest.raises(ArgumentError, match="batch of 0"):
        search(trials=1, batch=0)


@pytest.mark.parametrize("measure", [None, tune.MeasureOptions(repeat=3)])
def test_a_search_measures_as_it_is_told(monkeypatch, measure) -> None:
    used = []

    def opened(task, measurer, options, rng):
        used.append(options)
        raise MeasureError("no machine")

    monkeypatch.setattr(tune.search, "_opened", opened)
    with pytest.raises(MeasureError, match="no machine"):
        tune.run(task(), trials=1, measure=measure)
    assert used == [measure or tune.MeasureOptions()]


@pytest.mark.parametrize("ahead", [0, 3])
def test_exactly_the_trials_of_the_budget_are_made(ahead) -> None:
    machine = Machine(task(), ahead=ahead)
    outcome = search(machine.task, machine=machine, trials=37)
    assert outcome.ended == "trials"
    assert len(outcome.trials) == len(machine.asked) == 37


@pytest.mark.parametrize("ahead", [0, 3])
def test_no_program_is_started_after_the_time_is_over(ahead) -> None:
    machine = Machine(task(), ahead=ahead, cost=0.5)
    outcome = search(machine.task, machine=machine, seconds=10)
    assert outcome.ended == "seconds"
    assert len(outcome.trials) == 21 + ahead  # those that were started are finished


class Starting(Machine):
    """A machine that needs 100 seconds to start its processes."""

    def measure(self, programs):
        self.now += 100
        yield from super().measure(programs)


def test_the_time_of_a_budget_runs_from_the_first_result_on() -> None:
    machine = Starting(task(), cost=0.5)

    class Loading(tune.RandomPolicy):
        def propose(self, count):
            machine.now += 0 if machine.asked else 100
            return super().propose(count)

    events = list[tune.Event]()
    outcome = search(machine.task, Loading, machine=machine, seconds=10, on=events.append)
    assert (outcome.ended, len(outcome.trials)) == ("seconds", 21)
    assert [e.elapsed for e in events if isinstance(e, tune.Measured)][:2] == [0.0, 0.5]
    assert outcome.seconds == 210.5


@pytest.mark.parametrize("ahead", [0, 3])
def test_a_batch_is_measured_however_short_the_budget_is(ahead) -> None:
    machine = Machine(task(), ahead=ahead, cost=60.0)
    outcome = search(machine.task, machine=machine, seconds=1, trials=100, batch=8)
    assert (outcome.ended, len(outcome.trials)) == ("seconds", 8)


@pytest.mark.parametrize(("took", "trials"), [(5.0, 11), (65.0, 8)])
def test_the_time_of_building_the_policy_counts(monkeypatch, took, trials) -> None:
    machine = Machine(task(), cost=0.5)

    def building(found, rng):
        machine.now += took
        return tune.RandomPolicy(found, rng)

    monkeypatch.setattr("minitvm.tune.search.GuidedPolicy", building)
    outcome = tune.run(machine.task, measurer=machine, timer=machine.timer, seconds=10.0, batch=8)
    assert (outcome.ended, len(outcome.trials)) == ("seconds", trials)


def test_whatever_limit_is_reached_first_ends_the_search() -> None:
    machine = Machine(task(), cost=0.5)
    assert search(machine.task, machine=machine, seconds=10, trials=12).ended == "trials"
    machine = Machine(task(), cost=0.5)
    assert search(machine.task, machine=machine, seconds=10, trials=200).ended == "seconds"


def test_early_stopping_counts_trials_without_improvement() -> None:
    outcome = search(trials=10_000, early_stopping=50)
    assert outcome.ended == "early stopping"
    times = [trial.seconds for trial in outcome.trials]
    assert len(times) == times.index(min(times)) + 1 + 50


# --- failures ------------------------------------------------------------------------------------


def test_failures_are_values_and_the_search_goes_on() -> None:
    machine = Machine(task(), failing("crash", every=3))
    outcome = search(machine.task, machine=machine, trials=60)
    assert len(outcome.trials) == 60
    assert sum(trial.result.error == "crash" for trial in outcome.trials) == 20
    assert outcome.best.seconds < math.inf


def test_many_equal_failures_in_a_row_end_the_search() -> None:
    machine = Machine(task(), failing("run time-out"))
    outcome = search(machine.task, machine=machine, trials=1000, failures=20)
    assert outcome.ended == "failures"
    assert len(outcome.trials) == 20
    assert machine.finals == 0
    assert outcome.found is None


def test_different_failures_do_not_end_the_search() -> None:
    kinds = ["crash", "wrong answer"]
    machine = Machine(task(), lambda number: tune.Result((), kinds[number % 2], "x"))
    assert search(machine.task, machine=machine, trials=60, failures=20).ended == "trials"


def test_defect_11_the_first_failure_is_shown_in_full(tmp_path) -> None:
    detail = "line of a traceback\n" * 400 + "the end"
    machine = Machine(task(), failing("compile", detail))
    log = tmp_path / "log.jsonl"
    outcome = search(machine.task, machine=machine, trials=5, log=log)
    with pytest.raises(MeasureError, match="every candidate failed") as e:
        _ = outcome.best
    assert detail in str(e.value)
    assert "5 of 5 trials failed" in str(e.value)
    assert [r.result.detail for r in tune.Log(log).records()] == [detail] * 5


def test_failures_are_counted_by_kind() -> None:
    machine = Machine(
        task(), lambda n: tune.Result((), "crash" if n % 3 else "exit", f"number {n}")
    )
    text = tune.failures_text(search(machine.task, machine=machine, trials=9).trials)
    assert text.splitlines()[:3] == ["9 of 9 trials failed:", "     6  crash", "     3  exit"]
    assert text.endswith("crash: number 1")


@pytest.mark.parametrize("ahead", [0, 3])
def test_a_mistake_in_a_policy_is_raised(ahead) -> None:
    class Broken(tune.RandomPolicy):
        def learn(self, trials):
            if trials:
                raise KeyError("mistake")

    machine = Machine(task(), ahead=ahead)
    with pytest.raises(KeyError, match="mistake"):
        search(machine.task, Broken, machine=machine, trials=40)


# --- events --------------------------------------------------------------------------------------


def test_a_search_reports_what_happens() -> None:
    events = list[tune.Event]()
    outcome = search(trials=40, on=events.append)
    kinds = [type(event).__name__ for event in events]
    assert kinds[:3] == ["Started", "Round", "Measured"]
    assert kinds[-1] == "Finished"
    assert [kinds.count(kind) for kind in ("Started", "Round", "Measured")] == [1, 3, 40]
    rounds = [event for event in events if isinstance(event, tune.Round)]
    assert [r.trials for r in rounds] == [0, 16, 32]
    assert [r.accuracy is None for r in rounds] == [True, True, False]
    measured = [event for event in events if isinstance(event, tune.Measured)]
    assert [m.number for m in measured] == list(range(1, 41))
    assert measured[-1].best == min(outcome.trials, key=lambda t: t.seconds)
    assert isinstance(events[-1], tune.Finished)
    assert events[-1].outcome == outcome


def test_the_policy_learns_while_the_batch_ends() -> None:
    """With programs in flight, a round knows all trials but those; they are learned later."""
    events, machine = list[tune.Event](), Machine(task(), ahead=3)
    search(machine.task, machine=machine, trials=48, on=events.append)
    assert [event.trials for event in events if isinstance(event, tune.Round)] == [0, 13, 29]


def test_the_fastest_are_measured_again_interleaved_with_the_default() -> None:
    machine = Machine(task())
    outcome = search(machine.task, machine=machine, trials=40)
    fast = sorted(outcome.trials, key=lambda t: t.seconds)[:5]
    assert [t.candidate for t in outcome.final] == [t.candidate for t in fast]
    assert outcome.best.seconds == pytest.approx(fast[0].seconds * 1.01)
    assert outcome.default == tune.Result((2e-3,))
    assert "x the default" in str(outcome)


@pytest.mark.parametrize(
    ("n", "text"),
    [(7, "7"), (4096, "4,096"), (4_090_000, "4.1 million"), (3 * 10**9, "3.0 billion")],
)
def test_large_numbers_are_readable(n, text) -> None:
    assert tune.counted(n) == text


def test_the_line_in_the_terminal_shows_speed_trials_errors_and_time_left() -> None:
    text = io.StringIO()
    machine = Machine(task(), failing("crash", every=4))
    search(machine.task, machine=machine, trials=40, on=tune.ProgressLine(text))
    last = text.getvalue().replace("\n", "").split("\r")[-1]
    assert last.startswith("matmul(512, 512, 512, float32) |")
    assert "| best " in last
    assert "GFLOP/s, 40 trials, 10 errors" in last
    assert "s left" in text.getvalue()


# --- stopping ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [0, 3])
def test_a_stopped_search_finishes_what_it_began(ahead) -> None:
    stop, machine = threading.Event(), Machine(task(), ahead=ahead)

    def on(event) -> None:
        if isinstance(event, tune.Measured) and event.number == 20:
            stop.set()

    outcome = search(machine.task, machine=machine, trials=1000, stop=stop, on=on)
    assert outcome.ended == "stopped"
    assert len(outcome.trials) == len(machine.asked) == 20 + ahead
    assert len(outcome.final) == 5


@pytest.fixture
def in_the_foreground() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, also where a shell has this run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_the_foreground")
def test_the_first_interrupt_finishes_what_it_began(tmp_path, capsys) -> None:
    machine, log = Machine(task(), ahead=3), tmp_path / "log.jsonl"

    def on(event) -> None:
        if isinstance(event, tune.Measured) and event.number == 20:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    outcome = search(machine.task, machine=machine, trials=1000, log=log, on=on)
    assert signal.getsignal(signal.SIGINT) is before
    assert outcome.ended == "stopped"
    assert "stopping after the running programs" in capsys.readouterr().err
    assert len(outcome.trials) == 23
    assert len(tune.Log(log).read(machine.task).trials) == 23


def test_a_job_in_the_background_goes_on(tmp_path) -> None:
    machine = Machine(task(), ahead=3)

    def on(event) -> None:
        if isinstance(event, tune.Measured) and event.number == 20:
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        outcome = search(machine.task, machine=machine, trials=40, on=on)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (outcome.ended, len(outcome.trials)) == ("trials", 40)


@pytest.mark.usefixtures("in_the_foreground")
def test_the_second_interrupt_returns_the_best_so_far_at_once(tmp_path) -> None:
    machine, log = Machine(task(), ahead=3), tmp_path / "log.jsonl"

    def on(event) -> None:
        if isinstance(event, tune.Measured) and event.number == 20:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    outcome = search(machine.task, machine=machine, trials=1000, log=log, on=on)
    assert signal.getsignal(signal.SIGINT) is before
    assert outcome.ended == "stopped"
    assert len(outcome.trials) == len(tune.Log(log).read(machine.task).trials) == 20
    assert (machine.finals, outcome.final) == (0, ())
    assert outcome.best in outcome.trials


# --- in a thread ---------------------------------------------------------------------------------


class Slow(Machine):
    """A machine that takes a real millisecond for each trial."""

    def _result(self, candidate):
        time.sleep(1e-3)
        return super()._result(candidate)


def test_a_search_in_a_thread_returns_at_once_and_stops() -> None:
    machine = Slow(task())
    handle = tune.Search(machine.task, trials=100_000, measurer=machine).start()
    while handle.best is None:
        time.sleep(1e-3)
    assert handle.running
    with pytest.raises(MeasureError, match="not ended"):
        handle.wait(1e-3)
    handle.stop()
    outcome = handle.wait(30)
    assert outcome.ended == "stopped"
    assert not handle.running
    assert handle.outcome is outcome
    assert handle.best == outcome.best
    assert isinstance(handle.events[0], tune.Started)


def test_a_late_listener_gets_all_events() -> None:
    machine, early, late = Slow(task()), list[tune.Event](), list[tune.Event]()
    handle = tune.Search(machine.task, trials=40, measurer=machine, on=early.append).start()
    while len(early) < 10:
        time.sleep(1e-3)
    handle.listen(late.append)
    handle.wait(30)
    assert late == early == handle.events


def test_what_goes_wrong_in_the_thread_is_raised_by_wait() -> None:
    def on(event) -> None:
        raise ZeroDivisionError("in a listener")

    handle = tune.Search(task(), trials=4, measurer=Machine(task()), on=on).start()
    with pytest.raises(ZeroDivisionError, match="in a listener"):
        handle.wait(30)
    with pytest.raises(MeasureError, match="not started"):
        tune.Search(task(), trials=4).wait()


# --- resuming ------------------------------------------------------------------------------------


def test_defect_10_the_same_call_resumes(tmp_path) -> None:
    found, log = task(), tmp_path / "log.jsonl"
    first = search(found, trials=32, log=log)
    events, machine = list[tune.Event](), Machine(found)
    second = search(found, trials=64, log=log, machine=machine, seed=1, on=events.append)
    assert second.earlier == 32
    assert len(second.trials) == 64
    assert len(machine.asked) == 32
    assert {t.candidate for t in first.trials}.isdisjoint(machine.asked)
    rounds = [event for event in events if isinstance(event, tune.Round)]
    assert rounds[0].trials == 32  # the model knows them before it proposes
    assert min(t.seconds for t in second.trials[32:48]) < min(t.seconds for t in first.trials[:16])
    assert len(tune.Log(log).read(found).trials) == 64


def test_a_search_that_is_done_is_not_done_again(tmp_path) -> None:
    found, log = task(), tmp_path / "log.jsonl"
    first = search(found, trials=32, log=log)
    size, machine = log.stat().st_size, Machine(found)
    again = search(found, trials=32, log=log, machine=machine)
    assert machine.asked == []
    assert machine.finals == 0
    assert log.stat().st_size == size
    assert again.best.candidate == first.best.candidate
    assert [t.candidate for t in again.final] == [t.candidate for t in first.final]
    assert again.gain == first.gain == pytest.approx(2e-3 / first.best.seconds)


def test_the_fastest_are_measured_again_when_a_new_trial_is_faster(tmp_path) -> None:
    found, log = task(), tmp_path / "log.jsonl"
    search(found, trials=8, log=log)
    slow, fast = (Machine(found, lambda _, s=s: tune.Result((s,))) for s in (1.0, 1e-6))
    search(found, trials=9, log=log, machine=slow, seed=1)
    assert slow.finals == 0
    faster = search(found, trials=10, log=log, machine=fast, seed=1)
    assert fast.finals == 1
    assert faster.trials[-1].candidate in {trial.candidate for trial in faster.final}


def test_the_best_candidate_of_a_search_has_been_measured_again() -> None:
    """All trials are lucky: a program takes twice as long when it is measured again."""
    lucky = Machine(task())
    lucky.remeasure = lambda programs: [
        *(tune.Result((2 * seconds(lucky.task, p.candidate),)) for p in programs),
        tune.Result((2e-3,)),
    ]
    outcome = search(lucky.task, machine=lucky, trials=12)
    assert outcome.best.final
    assert len(outcome.final) > 5


def test_early_stopping_counts_the_trials_of_the_log(tmp_path) -> None:
    found, log = task(), tmp_path / "log.jsonl"
    first = search(found, trials=32, log=log)
    since = 32 - 1 - first.trials.index(min(first.trials, key=lambda t: t.seconds))
    worse = Machine(found, wrong=lambda number: tune.Result((1.0,)))
    second = search(found, trials=200, early_stopping=since + 5, log=log, machine=worse, seed=1)
    assert second.ended == "early stopping"
    assert len(second.trials) == 32 + 5
    again = search(found, trials=200, early_stopping=since + 5, log=log, machine=Machine(found))
    assert len(again.trials) == len(second.trials)


def test_a_log_says_in_which_batch_a_trial_was_and_how_fast_the_default_is(tmp_path) -> None:
    found, log = task(), tmp_path / "log.jsonl"
    search(found, trials=20, log=log)
    search(found, trials=30, log=log, seed=1)
    reading = tune.Log(log).read(found)
    assert reading.batches == (1,) * 16 + (2,) * 4 + (3,) * 10
    assert reading.default == 2e-3
    assert tune.Log(tmp_path / "none.jsonl").read(found).default is None


def test_a_second_sketch_is_found_in_the_log(tmp_path) -> None:
    found = task(sketch("a"), sketch("b"))
    log = tmp_path / "log.jsonl"
    outcome = search(found, trials=40, log=log)
    assert {t.candidate.sketch for t in outcome.trials} == {0, 1}
    assert list(tune.Log(log).read(found).trials) == list(outcome.trials)
    swapped = task(*reversed(found.sketches))
    again = tune.Log(log).read(swapped).trials
    assert [t.candidate.sketch for t in again] == [1 - t.candidate.sketch for t in outcome.trials]


def test_scores_of_random_rows_do_not_depend_on_the_seed_of_numpy() -> None:
    np.random.seed(0)
    first = search(trials=20)
    np.random.seed(1)
    assert search(trials=20).trials == first.trials
