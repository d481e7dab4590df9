"""Outlines of runs: the run that is made of one is the run that is made of the definition."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.clocks import NextFire
from mainspring.core.ids import JobId
from mainspring.core.model import JobSpec, Misfire, MisfireRule, Overlap, Priority, Target
from mainspring.core.outlines import is_on_time, outline_of
from mainspring.core.planning import next_fire
from mainspring.core.triggers import EPOCH, Interval, Once, Trigger
from mainspring.engine.scheduling.planner import make_fire
from mainspring.ports.codec import decode_outline, encode_outline
from mainspring.ports.store.schedule import DueClock, fire_of
from mainspring.testing.factories import START, at, make_spec

JOB = JobId(UUID(int=7))
INSTANTS = st.timedeltas(timedelta(0), timedelta(days=2_500_000)).map(lambda since: EPOCH + since)
DURATIONS = st.timedeltas(timedelta(0), timedelta(days=36500))


@st.composite
def definitions(draw: st.DrawFn) -> JobSpec:
    triggers: st.SearchStrategy[Trigger] = st.builds(Once, INSTANTS) | st.just(
        Interval(timedelta(seconds=60), START)
    )
    return make_spec(
        trigger=draw(triggers),
        queue=draw(st.text(min_size=1)),
        labels=tuple(sorted(draw(st.lists(st.text(min_size=1), max_size=3)))),
        priority=draw(st.sampled_from(Priority)),
        overlap=draw(st.sampled_from(Overlap)),
        timeout=draw(DURATIONS),
        jitter=draw(st.just(timedelta(0)) | DURATIONS),
        expires_after=draw(st.none() | DURATIONS),
        misfire=MisfireRule(policy=draw(st.sampled_from(Misfire)), grace=draw(DURATIONS)),
        target=draw(
            st.sampled_from([Target("function", {"function": "f"}), Target("http", {"url": "http://a"})])
        ),
        payload=draw(st.none() | st.just(b"{}")),
    )


@given(spec=definitions(), version=st.integers(1, 2**31 - 1), delay=DURATIONS)
def test_outlined_fire_is_the_planned_one(spec: JobSpec, version: int, delay: timedelta) -> None:
    """The clock as a store would read it, at any instant from its fire on."""
    outline = decode_outline(encode_outline(spec, version), version)
    assert outline == outline_of(spec, version)
    assert (outline is None) == (not isinstance(spec.trigger, Once) or spec.overlap is not Overlap.ALLOW)
    if outline is None:
        return
    assert isinstance(spec.trigger, Once)
    stands = next_fire(spec, JOB, spec.trigger.at)
    assert stands is not None
    clock = make_clock(spec, stands, version)
    clock = replace(clock, outline=outline)
    now = stands.due_at + delay
    planned = make_fire(clock, spec, now, {})
    assert planned is not None
    if is_on_time(outline, clock.due_at, now=now):
        assert fire_of(clock) == planned
    else:
        assert delay > spec.misfire.grace


def make_clock(spec: JobSpec, stands: NextFire, version: int) -> DueClock:
    return DueClock(
        job_id=JOB,
        tenant="tenant",
        version=version,
        priority=spec.priority,
        revision=1,
        fire_at=stands.fire_at,
        due_at=stands.due_at,
        fired_through=None,
    )


@given(early=st.timedeltas(timedelta(microseconds=1), timedelta(days=1)), late=DURATIONS, grace=DURATIONS)
def test_fire_is_on_time_from_its_instant_to_the_end_of_its_grace(
    early: timedelta, late: timedelta, grace: timedelta
) -> None:
    outline = outline_of(make_spec(trigger=Once(START), misfire=MisfireRule(grace=grace)), 1)
    assert outline is not None
    assert not is_on_time(outline, START, now=START - early)
    assert is_on_time(outline, START, now=START)
    assert is_on_time(outline, START, now=START + late) == (late <= grace)


def test_outline_of_another_version_says_nothing() -> None:
    """A program of an earlier release has edited the job, and knows nothing of outlines."""
    text = encode_outline(make_spec(trigger=Once(at(1))), 3)
    assert decode_outline(text, 3) is not None
    assert decode_outline(text, 2) is None
    assert decode_outline(text, 4) is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '[1,"q","r",1,1,1,null,"more"]', f'[1,"q","r",{10**30},1,1,null]']
)
def test_outline_that_cannot_be_read_is_none(text: str) -> None:
    """A later release may write another form."""
    assert decode_outline(text, 1) is None


def test_job_whose_type_of_target_is_unknown_has_none() -> None:
    assert outline_of(make_spec(trigger=Once(at(1)), target=Target("unknown", {})), 1) is None
