"""Whatever happens by the rules is not accused; whatever single thing then goes wrong is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mainspring.core.cron import Cron
from mainspring.core.ids import JobId, RunId
from mainspring.core.model import Delivery, Overlap, Run
from mainspring.core.states import RunState
from mainspring.core.triggers import Once, Trigger
from mainspring.testing.factories import at
from tests.unit.judge.histories import SLACK, Story, every, grace, seconds
from tools.judge import judge

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]
END = 60
TRIES = st.sampled_from(
    [
        ("done",),
        ("done",),
        ("failed", "done"),
        ("timed_out", "done"),
        ("failed", "spent"),
        ("lost", "done"),
        ("handed_back", "done"),
        ("snoozed", "done"),
        ("lost", "snoozed", "failed", "handed_back", "done"),
        ("refused",),
    ]
)
LATE = st.sampled_from([0.0, 0.02, 0.7, 1.9])


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Some jobs of all sorts; each is deleted at the end, so nothing is owed from then to the read."""
    story = Story(read_at=120)
    for tell in draw(st.lists(st.sampled_from(SORTS), min_size=1, max_size=4)):
        job_id = tell(story, draw)
        story.delete(job_id, END + 0.5)
    return story


def fire_all(story: Story, draw: Draw, job_id: JobId, instants: range) -> None:
    for instant in instants:
        story.fire(job_id, instant, *draw(TRIES), late=draw(LATE))


def steady(story: Story, draw: Draw) -> JobId:
    period = draw(st.sampled_from([5, 12, 20, 30]))
    trigger: Trigger = draw(st.sampled_from([every(period), Cron(f"*/{period} * * * * *")]))
    job_id = story.job(trigger, when=0.5)
    fire_all(story, draw, job_id, range(period, END + 1, period))
    return job_id


def once(story: Story, draw: Draw) -> JobId:
    instant = draw(st.integers(-10, END))
    job_id = story.job(Once(at(instant)), when=0.5)
    story.fire(job_id, instant, *draw(TRIES), late=max(0.0, 0.5 - instant) + draw(LATE))
    return job_id


def submitted(story: Story, draw: Draw) -> JobId:
    job_id = story.job(when=0.5)
    for number in range(draw(st.integers(1, 4))):
        key = f"{job_id}-{number}" if draw(st.booleans()) else None
        run_id = story.submit(job_id, draw(st.integers(1, END)), *draw(TRIES), key=key)
        if key is not None and draw(st.booleans()):
            story.ask("submit", job_id, END, key=key, run_id=run_id)
    if draw(st.booleans()):
        story.ask("submit", job_id, END, "unknown")
    return job_id


def cancelled(story: Story, draw: Draw) -> JobId:
    job_id = story.job(when=0.5)
    when = draw(st.integers(1, 30))
    waiting = story.submit(job_id, when, "waiting", due_at=at(when + 20))
    story.cancel_waiting(waiting, when + 10)
    story.cancel(waiting, when + 10, "cancelled")
    under_way = story.submit(job_id, when, draw(st.sampled_from(["done", "cancelled"])))
    story.cancel(under_way, when + 0.3, "requested")
    story.cancel(under_way, when + 5, "finished")
    return job_id


def paused(story: Story, draw: Draw) -> JobId:
    begin = draw(st.integers(1, 40))
    end = draw(st.integers(begin + 1, END - 1))
    job_id = story.job(every(5), when=0.5)
    fire_all(story, draw, job_id, range(5, begin + 1, 5))
    story.pause(job_id, begin + 0.4)
    if begin // 5 != end // 5:
        story.gap(job_id, begin - begin % 5 + 5, end + 0.4, "paused", when=begin + 0.4)
    story.resume(job_id, end + 0.4)
    fire_all(story, draw, job_id, range(end - end % 5 + 5, END + 1, 5))
    return job_id


def edited(story: Story, draw: Draw) -> JobId:
    when = draw(st.integers(1, 50))
    job_id = story.job(every(6), when=0.5)
    fire_all(story, draw, job_id, range(6, when + 1, 6))
    if draw(st.booleans()):
        story.edit(job_id, when + 0.4, trigger=every(4))
        fire_all(story, draw, job_id, range(when - when % 4 + 4, END + 1, 4))
    else:
        story.edit(job_id, when + 0.4, timeout=seconds(9))
        fire_all(story, draw, job_id, range(when - when % 6 + 6, END + 1, 6))
    return job_id


def passed_over(story: Story, draw: Draw) -> JobId:
    job_id = story.job(every(10), when=0.5, overlap=Overlap.SKIP)
    free_at = 0.0
    for instant in range(10, END + 1, 10):
        if instant < free_at:
            story.fire(job_id, instant, late=0.0, reason="overlap")
            continue
        work = draw(st.sampled_from([1, 8, 15, 25]))
        story.attempt(story.fire(job_id, instant, "waiting", late=0.0), "done", work=seconds(work))
        free_at = instant + work + 0.1
    return job_id


def at_most_once(story: Story, draw: Draw) -> JobId:
    job_id = story.job(when=0.5, delivery=Delivery.AT_MOST_ONCE)
    for ending in draw(st.lists(st.sampled_from(["done", "killed", "spent"]), min_size=1, max_size=3)):
        story.submit(job_id, draw(st.integers(1, 50)), *draw(st.sampled_from([(), ("snoozed",)])), ending)
    return job_id


def out_of_order(story: Story, draw: Draw) -> JobId:
    """An outage, and each misfire policy's way of making up for it."""
    policy = draw(st.sampled_from(["skip", "fire_latest", "fire_all"]))
    most = draw(st.integers(1, 5))
    job_id = story.job(every(5), when=0.5, misfire=grace(2, policy, max_count=most))
    until = draw(st.integers(12, 40))
    story.fault(3, until + 0.5)
    last = until - until % 5  # due 0.6 to 4.6 seconds before it is found
    late = 0.6 + until - last
    missed = last - 5 if late <= 2 and policy != "fire_latest" else last
    if policy == "skip":
        story.gap(job_id, 5, missed, "misfire", when=until + 0.6)
    elif policy == "fire_latest":
        story.gap(job_id, 5, missed - 5, "misfire", when=until + 0.6)
        story.fire(job_id, missed, late=late)
    else:
        first = max(5, missed - 5 * (most - 1))
        if first > 5:
            story.gap(job_id, 5, first - 5, "misfire_limit", when=until + 0.6)
        fire_range = story.catch_up(job_id, first, missed, "misfire", when=until + 0.6)
        for instant in range(first, missed + 1, 5):
            story.make_up(job_id, fire_range, instant, until + 1)
    if missed < last:
        story.fire(job_id, last, *draw(TRIES), late=late)
    fire_all(story, draw, job_id, range(last + 5, END + 1, 5))
    return job_id


SORTS = (steady, once, submitted, cancelled, paused, edited, passed_over, at_most_once, out_of_order)


# -- what can go wrong -----------------------------------------------------------------------------------------


def pick(draw: Draw, candidates: list[T]) -> T:
    assume(candidates)
    picked: T = draw(st.sampled_from(candidates))
    return picked


def runs_that_ended(story: Story, *states: RunState) -> list[Run]:
    return [run for run in story.history.runs if run.state in states]


def forget(story: Story, run_id: RunId) -> None:
    history = story.history
    history.runs = [run for run in history.runs if run.id != run_id]
    history.effects = [effect for effect in history.effects if effect.run_id != run_id]
    history.events = [event for event in history.events if event.run_id != run_id]


def drop_run(story: Story, draw: Draw) -> None:
    named = {operation.run_id for operation in story.history.operations}
    owed = [run.id for run in story.history.runs if run.fire_at is not None or run.id in named]
    forget(story, pick(draw, owed))


def drop_record(story: Story, draw: Draw) -> None:
    run = pick(draw, story.history.runs)
    story.history.runs.remove(run)


def double_fire(story: Story, draw: Draw) -> None:
    run = pick(draw, [run for run in story.history.runs if run.fire_at is not None])
    story.history.runs.append(replace(run, id=RunId(run.id + 256 * 1000)))


def double_submission(story: Story, draw: Draw) -> None:
    unsure = {item.job_id for item in story.history.operations if item.outcome == "unknown"}
    candidates = [run for run in story.history.runs if run.fire_at is None and run.job_id not in unsure]
    run = pick(draw, candidates)
    story.history.runs.append(replace(run, id=RunId(run.id + 256 * 1000)))


def shift_fire(story: Story, draw: Draw) -> None:
    run = pick(draw, [run for run in story.history.runs if run.fire_at is not None])
    assert run.fire_at is not None
    story.alter(run.id, fire_at=run.fire_at + seconds(draw(st.sampled_from([-0.3, 0.3, 1]))))


def drop_fire_range(story: Story, draw: Draw) -> None:
    story.history.fire_ranges.remove(pick(draw, story.history.fire_ranges))


def drop_effect(story: Story, draw: Draw) -> None:
    tokens = {run.id: run.token for run in runs_that_ended(story, RunState.SUCCEEDED)}
    effects = [item for item in story.history.effects if tokens.get(item.run_id) == item.token]
    story.history.effects.remove(pick(draw, effects))


def repeat_token(story: Story, draw: Draw) -> None:
    story.history.effects.append(replace(pick(draw, story.history.effects)))


def drop_attempt(story: Story, draw: Draw) -> None:
    finals = {run.id: run.token for run in story.history.runs}
    rows = [row for rows in story.attempts.values() for row in rows if row.token != finals[row.run_id]]
    row = pick(draw, rows)
    story.attempts[row.run_id].remove(row)


def start_early(story: Story, draw: Draw) -> None:
    effect = pick(draw, story.history.effects)
    effect.started_at = story.run(effect.run_id).due_at - 2 * SLACK


def swap_result(story: Story, draw: Draw) -> None:
    run = pick(draw, runs_that_ended(story, RunState.SUCCEEDED))
    story.alter(run.id, result=str(run.token + 1).encode())


def swap_state(story: Story, draw: Draw) -> None:
    """The final read differs from what was committed."""
    run = pick(draw, runs_that_ended(story, RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED))
    others = [state for state in RunState if state not in {run.state, RunState.SKIPPED}]
    story.alter(run.id, state=draw(st.sampled_from(others)))


def drop_claim(story: Story, draw: Draw) -> None:
    story.history.events.remove(pick(draw, [item for item in story.history.events if item.what == "claimed"]))


def swap_token(story: Story, draw: Draw) -> None:
    indexes = [index for index, item in enumerate(story.history.events) if item.token]
    index = pick(draw, indexes)
    story.alter_event(index, token=story.history.events[index].token - 1)


def use_an_old_epoch(story: Story, draw: Draw) -> None:
    indexes = [
        index for index, grant in enumerate(story.history.grants) if grant.step == "used" and grant.epoch
    ]
    index = pick(draw, indexes)
    story.history.grants[index] = replace(story.history.grants[index], epoch=0)


def end_session(story: Story, draw: Draw) -> None:
    assume(any(grant.what == "session 1" and grant.step == "used" for grant in story.history.grants))
    story.history.grants.sort(key=lambda grant: grant.at)
    story.history.grants.insert(2, replace(story.history.grants[1], what="session 1", epoch=0, step="ended"))


def lose_count(story: Story, draw: Draw) -> None:
    run = pick(draw, story.history.runs)
    story.alter(run.id, crashes=run.crashes + 1)


BREAKS: tuple[Callable[[Story, Draw], None], ...] = (
    drop_run,
    drop_record,
    double_fire,
    double_submission,
    shift_fire,
    drop_fire_range,
    drop_effect,
    repeat_token,
    drop_attempt,
    start_early,
    swap_result,
    swap_state,
    drop_claim,
    swap_token,
    use_an_old_epoch,
    end_session,
    lose_count,
)
RELAXED = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


@given(story=stories())
@RELAXED
def test_good_history_is_not_accused(story: Story) -> None:
    assert story.broken == set(), story.told


@given(data=st.data(), story=stories(), go_wrong=st.sampled_from(BREAKS))
@settings(RELAXED, max_examples=300)
def test_bad_history_is_accused(
    data: st.DataObject, story: Story, go_wrong: Callable[[Story, Draw], None]
) -> None:
    go_wrong(story, data.draw)
    assert story.broken, go_wrong.__name__


@given(data=st.data(), story=stories(), go_wrong=st.sampled_from([None, *BREAKS]), seed=st.integers(0, 1000))
@RELAXED
def test_verdict_does_not_depend_on_what_has_no_order(
    data: st.DataObject, story: Story, go_wrong: Callable[[Story, Draw], None] | None, seed: int
) -> None:
    if go_wrong is not None:
        go_wrong(story, data.draw)
    before = accusations(story)
    random, history = Random(seed), story.history
    for unordered in (history.runs, history.effects, history.operations, history.fire_ranges, history.faults):
        random.shuffle(unordered)
    for rows in story.attempts.values():
        random.shuffle(rows)
    by_job: dict[JobId, list[int]] = {}
    for index, change in enumerate(history.changes):
        by_job.setdefault(change.job_id, []).append(index)
    jobs = list(by_job)
    random.shuffle(jobs)
    history.changes = [history.changes[index] for job in jobs for index in by_job[job]]
    assert accusations(story) == before


def accusations(story: Story) -> tuple[set[tuple[str, str]], dict[str, int]]:
    story.history.events.sort(key=lambda event: event.at)
    verdict = judge(story.history)
    return {(found.rule, found.subject) for found in verdict.violations}, dict(verdict.counts)
