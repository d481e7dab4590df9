"""From files and the store to a history, and from a verdict to figures."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring.core.cron import Cron
from mainspring.core.ids import format_job_id, format_run_id, make_run_id
from mainspring.core.model import Attempt, Run, RunKind, Target
from mainspring.core.states import RunState
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.factories import at, lane_of, make_new_job, make_new_run, make_spec
from tests.chaos.client import Log, Noted
from tests.chaos.collect import make_history, read_sqlite, with_token_as_result
from tests.chaos.effects import Pen, parse_effects, read_effects
from tests.chaos.report import longest_delay, longest_silence, name_violation, ticks, why_void
from tools.judge import Change, ChangeKind, Effect, Fault, History, Violation, judge

JOB = make_new_job(spec=make_spec(name="tick-one"))
RUN = make_run_id(1, 7)


def line(what: str, token: int, instant: float, word: str = "-") -> str:
    return f"{what} {format_run_id(RUN)} {format_job_id(JOB.id)} {token} 1 {instant} w1 {word}\n"


def test_effect_has_its_start_and_its_end() -> None:
    (effect,) = parse_effects(line("start", 1, 10.5) + line("end", 1, 11.25, "done"))
    assert (effect.run_id, effect.job_id, effect.token, effect.ending) == (RUN, JOB.id, 1, "done")
    assert effect.started_at == datetime.fromtimestamp(10.5, UTC)
    assert effect.ended_at == datetime.fromtimestamp(11.25, UTC)


def test_effect_of_a_killed_attempt_has_no_end() -> None:
    (effect,) = parse_effects(line("start", 1, 10.0))
    assert (effect.ended_at, effect.ending) == (None, None)


def test_attempt_that_started_twice_is_two_effects() -> None:
    text = line("start", 1, 10.0) + line("start", 1, 11.0) + line("end", 1, 12.0, "done")
    assert [effect.ending for effect in parse_effects(text)] == ["done", None]


def test_last_line_may_be_cut_short() -> None:
    assert len(parse_effects(line("start", 1, 10.0) + line("end", 1, 11.0, "done")[:20])) == 1


def test_end_without_a_start_is_not_accepted() -> None:
    with pytest.raises(ValueError, match="without a start"):
        parse_effects(line("end", 1, 11.0, "done"))


def test_what_a_pen_writes_is_read_in_order_of_starts(tmp_path: Path) -> None:
    for name in ("b", "a"):
        pen = Pen(tmp_path / f"{name}.effects", format_run_id(RUN), format_job_id(JOB.id), 3, 1, name)
        pen.start()
        pen.end("failed")
    assert [(effect.worker, effect.ending) for effect in read_effects(tmp_path)] == [
        ("b", "failed"),
        ("a", "failed"),
    ]


async def read_back(path: Path, target: Target) -> tuple[History, Noted]:
    """Return the history of one job with one submitted run, read from a file."""
    job = make_new_job(spec=make_spec(name="one", target=target))
    store = SqliteStore(path)
    await store.open()
    await store.add_jobs([job], now=at(0))
    await store.submit_runs([make_new_run(job)], now=at(1))
    await store.close()
    noted = Noted(job_id=job.id, kind=ChangeKind.CREATED, at=at(-1), until=at(1), version=1)
    final = await read_sqlite(path, [noted])
    return make_history(Log(changes=[noted]), [], final, beat_period=0.5, slots=4), noted


async def test_history_holds_what_the_file_holds(tmp_path: Path) -> None:
    history, noted = await read_back(tmp_path / "data" / "mainspring.db", Target("http", {"url": "http://x"}))
    (run,) = history.runs
    (change,) = history.changes
    assert (run.job_id, run.version, history.attempts) == (noted.job_id, 1, {run.id: []})
    assert (change.at, change.until, change.spec.name) == (noted.at, noted.until, "one")


async def test_version_that_the_store_has_lost_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data" / "mainspring.db"
    _, noted = await read_back(path, Target("http", {"url": "http://x"}))
    unheard_of = Noted(job_id=noted.job_id, kind=ChangeKind.EDITED, at=at(2), until=at(3), version=2)
    final = await read_sqlite(path, [unheard_of])
    with pytest.raises(KeyError):
        make_history(Log(changes=[unheard_of]), [], final, beat_period=0.5, slots=4)


def make_run(*, number: int = 1, output: str | None = None, fire: float | None = None) -> Run:
    instant = at(fire or 0)
    return Run(
        id=make_run_id(number, 7),
        job_id=JOB.id,
        version=1,
        tenant="default",
        lane=lane_of(JOB),
        kind=RunKind.MANUAL if fire is None else RunKind.SCHEDULED,
        state=RunState.SUCCEEDED,
        fire_at=None if fire is None else instant,
        due_at=instant,
        ready_at=instant,
        created_at=instant,
        started_at=instant,
        finished_at=instant + timedelta(seconds=9),
        attempt=1,
        token=1,
        crashes=0,
        session_id=None,
        is_cancel_requested=False,
        reason=None,
        error=None,
        payload=None,
        result=b"1",
        output=output,
        idempotency_key=None,
        fire_range_id=None,
        redrive_of=None,
    )


@pytest.mark.parametrize(
    ("kind", "output", "result"),
    [("shell", "5\n", b"5"), ("http", None, None), ("function", "5", b"1")],
)
def test_commands_and_callbacks_say_their_token_as_output(
    kind: str, output: str | None, result: bytes | None
) -> None:
    specs = {(JOB.id, 1): make_spec(target=Target(kind, {}))}
    assert with_token_as_result(make_run(output=output), specs).result == result


def history_of(*runs: Run, effects: tuple[Effect, ...] = ()) -> History:
    """Return the history of a job that fires every second, read a few seconds after its start."""
    spec = replace(JOB.spec, trigger=Cron("* * * * * *"))
    created = Change(
        job_id=JOB.id, kind=ChangeKind.CREATED, at=at(-0.5), until=at(-0.5), version=1, spec=spec
    )
    return History(
        changes=[created],
        runs=list(runs),
        effects=list(effects),
        read_at=at(4.5),
        healed_at=at(0),
        slack=timedelta(milliseconds=50),
        lease=timedelta(seconds=3),
        slots=1,
    )


def effect_of(run: Run, token: int, seconds: float) -> Effect:
    return Effect(
        run_id=run.id,
        job_id=JOB.id,
        token=token,
        attempt=1,
        worker="w1",
        started_at=at(seconds),
        ended_at=at(seconds),
        ending="done",
    )


def names_of(history: History) -> set[str]:
    return {name_violation(violation) for violation in judge(history).violations}


def test_fire_without_a_record_is_missed() -> None:
    run = make_run(fire=0)
    assert names_of(history_of(run, effects=(effect_of(run, 1, 0.1),))) == {"missed"}


def test_fire_with_two_records_is_doubled() -> None:
    runs = [make_run(number=number, fire=fire) for number, fire in ((1, 0), (2, 0), (3, 1))]
    effects = tuple(effect_of(run, 1, 1.1) for run in runs)
    assert names_of(history_of(*runs, effects=effects)) == {"doubled"}


def test_success_that_nobody_did_is_lost() -> None:
    runs = [make_run(number=1, fire=0), make_run(number=2, fire=1)]
    assert names_of(history_of(*runs, effects=(effect_of(runs[0], 1, 0.1),))) == {"lost"}


def test_repeat_without_a_recorded_loss_is_unexplained() -> None:
    runs = [make_run(number=1, fire=0), make_run(number=2, fire=1)]
    effects = [effect_of(runs[0], 1, 0.1), effect_of(runs[0], 1, 0.2), effect_of(runs[1], 1, 1.1)]
    assert names_of(history_of(*runs, effects=tuple(effects))) == {"unexplained"}


@pytest.mark.parametrize(("stopped_at", "is_explained"), [(0.2, True), (0.9, True), (1.6, False)])
def test_late_start_is_explained_by_a_stop_right_after_the_claim_only(
    stopped_at: float, is_explained: bool
) -> None:
    runs = [replace(make_run(number=1, fire=0), token=3, result=b"3"), make_run(number=2, fire=1)]
    rows = [
        Attempt(
            run_id=runs[0].id,
            token=token,
            number=1,
            outcome=outcome,
            worker="worker-1",
            started_at=at(start),
            finished_at=at(end),
            error=None,
            output=None,
        )
        for token, outcome, start, end in ((1, "lost", 0, 2.0), (3, "succeeded", 2.1, 9))
    ]
    late = [effect_of(runs[0], 3, 2.5), effect_of(runs[0], 1, 3.1), effect_of(runs[1], 1, 1.1)]
    history = history_of(*runs, effects=tuple(late))
    history.attempts = {runs[0].id: rows}
    history.faults = [Fault(kind="zombie", target="worker-1", at=at(stopped_at), until=at(3))]
    assert ("unexplained" not in names_of(history)) == is_explained


def test_rule_of_another_kind_has_a_name_too() -> None:
    assert name_violation(Violation("S19", "run_1", ())) == "other"


def test_delay_is_from_the_last_kill_to_the_next_sign_of_life() -> None:
    assert longest_delay([at(1), at(5), at(6)], [at(0), at(3.5), at(4), at(8)]) == 2.5


def test_delay_after_a_kill_that_nothing_follows_is_not_known() -> None:
    assert longest_delay([at(9)], [at(1)]) == 0.0


def test_silence_is_the_longest_time_between_two_signs() -> None:
    assert (longest_silence([at(4), at(1), at(2)]), longest_silence([])) == (2.0, 0.0)


def test_ticks_are_told_from_other_jobs_by_name() -> None:
    run = make_run(fire=1)
    history = history_of(run, effects=(effect_of(run, 1, 1.5), effect_of(run, 3, 2.5)))
    assert ticks(history) == ([at(1)], [at(1.5)])


@pytest.mark.parametrize(("zombies", "stale", "is_void"), [(0, 0, False), (5, 3, False), (5, 0, True)])
def test_zombies_of_which_nothing_was_refused_prove_nothing(zombies: int, stale: int, is_void: bool) -> None:
    assert (why_void({"zombies": zombies, "stale_writes_refused": stale}) is not None) == is_void
