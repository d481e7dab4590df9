"""Which runs are traced, and the spans of submissions and fires."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import RunId
from mainspring.core.outlines import outline_of
from mainspring.core.tracing import (
    make_trace,
    must_be_linked,
    show_trace_id,
    show_traceparent,
    span_id_of,
    trace_id_of,
)
from mainspring.core.triggers import Once
from mainspring.engine.common.traces import RunTraces
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.usecases.runs import Runs
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.store.schedule import FireResult, FireStatus
from mainspring.ports.tracing import Span, SpanKind
from mainspring.stores.memory import MemoryStore
from mainspring.testing import FakeClock
from mainspring.testing.conformance.firing_outlined import read_clocks
from mainspring.testing.factories import START, add_job, at, make_spec

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
UNSAMPLED = GIVEN.removesuffix("1") + "0"


class Draws:
    """Random numbers in an order of the test's; it counts how many were drawn."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = list(numbers)
        self.drawn = 0

    def random(self) -> float:
        self.drawn += 1
        return self.numbers.pop(0) if self.numbers else 0.0


class KeptSpans:
    """A tracer that keeps spans, and counts its ids and its time."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.number = 0

    def _next(self) -> int:
        self.number += 1
        return self.number

    def new_trace(self) -> bytes:
        return make_trace(b"%016d" % self._next(), b"%08d" % self._next())

    def new_span(self, trace: bytes) -> bytes:
        return make_trace(trace_id_of(trace), b"%08d" % self._next())

    def now(self) -> int:
        return self._next()

    def record(self, span: Span) -> None:
        self.spans.append(span)


def test_without_a_tracer_only_what_callers_pass_on_is_traced() -> None:
    draws = Draws()
    traces = RunTraces(None, random=draws, sample=1.0)
    assert traces.begin(None) is None
    begun = traces.begin(GIVEN)
    assert begun is not None
    assert (show_traceparent(begun.trace), begun.began) == (GIVEN, None)
    assert (traces.begin(UNSAMPLED), traces.begin("nonsense")) == (None, None)
    assert draws.drawn == 0


def test_the_sampler_decides_only_what_no_caller_has_decided() -> None:
    draws, tracer = Draws(0.009, 0.01, 0.0), KeptSpans()
    traces = RunTraces(tracer, random=draws, sample=0.01)
    assert traces.begin(UNSAMPLED) is None
    assert traces.begin(GIVEN) is not None
    assert draws.drawn == 0
    assert [traces.begin(text) is not None for text in (None, None, "nonsense")] == [True, False, True]


def test_a_share_of_nothing_draws_nothing() -> None:
    draws = Draws()
    traces = RunTraces(KeptSpans(), random=draws, sample=0.0)
    assert not traces.is_sampling
    assert traces.begin(None) is None
    assert draws.drawn == 0


async def submitted(tracer: KeptSpans, *submissions: dict[str, Any]) -> tuple[list[bytes | None], str]:
    """Submit runs, alone or together, and return their traces and the first one's id."""
    clock = FakeClock(START)
    store = MemoryStore(time=clock.now)
    await store.open()
    job = await add_job(store, make_spec(name="pay", queue="bank"))
    traces = RunTraces(tracer, random=Draws(*[0.5] * 9), sample=0.6)
    runs = Runs(store, clock=clock, wakeups=Wakeups(), traces=traces)
    made = [Submission(job_id=job.id, **facts) for facts in submissions]
    if len(made) == 1:
        ids = [(await runs.submit(job.tenant, made[0])).run_id]
    else:
        ids = [result.run_id or RunId(0) for result in await runs.submit_many(job.tenant, made)]
    found = await store.get_runs(ids)
    return [None if run is None else run.trace for run in found], str(ids[0])


async def test_a_submission_is_a_span_below_its_callers() -> None:
    tracer = KeptSpans()
    [trace], _ = await submitted(tracer, {"traceparent": GIVEN, "payload": b'"private"'})
    [span] = tracer.spans
    assert trace == span.trace
    assert show_trace_id(span.trace) == GIVEN.split("-")[1]
    assert span.parent == bytes.fromhex(GIVEN.split("-")[2])
    assert (span.name, span.kind, span.began < span.ended) == ("submit", SpanKind.PRODUCER, True)
    assert span.attributes["mainspring.job"] == "pay"
    assert span.attributes["mainspring.queue"] == "bank"
    assert "private" not in str(span)


async def test_one_call_of_many_is_one_span_below_its_callers() -> None:
    tracer = KeptSpans()
    found, _ = await submitted(tracer, *[{"traceparent": GIVEN}] * 3)
    [span] = tracer.spans
    assert found == [span.trace] * 3
    assert span.attributes["mainspring.runs"] == 3


async def test_runs_of_one_call_are_chosen_each_for_itself() -> None:
    tracer = KeptSpans()
    found, _ = await submitted(tracer, *[{}] * 3)
    assert [span.trace for span in tracer.spans] == found
    assert len(set(found)) == 3
    assert all(span.parent is None for span in tracer.spans)


async def test_what_the_caller_does_not_record_is_not_traced() -> None:
    tracer = KeptSpans()
    found, _ = await submitted(tracer, *[{"traceparent": UNSAMPLED}] * 2)
    assert (found, tracer.spans) == ([None, None], [])


@pytest.mark.parametrize(("delay", "is_linked"), [(timedelta(hours=1), False), (timedelta(hours=2), True)])
async def test_one_for_later_is_marked(delay: timedelta, is_linked: bool) -> None:
    [trace], _ = await submitted(KeptSpans(), {"traceparent": GIVEN, "delay": delay})
    assert trace is not None
    assert must_be_linked(trace) is is_linked


async def test_fires_that_make_runs_are_spans() -> None:
    tracer = KeptSpans()
    store = MemoryStore(time=FakeClock(START).now)
    await store.open()
    jobs = [await add_job(store, make_spec(trigger=Once(at(60))), next_fire_at=at(60)) for _ in range(4)]
    clocks = await read_clocks(store, *jobs)
    assert clocks[0].outline == outline_of(jobs[0].spec, 1)
    traces = RunTraces(tracer, random=Draws(0.0, 0.0, 0.0, 0.9), sample=0.5)
    sampled, began = traces.sample_clocks(clocks)
    assert [clock.trace is not None for clock in sampled] == [True, True, True, False]
    results = [
        FireResult(FireStatus.FIRED, (RunId(257),)),
        FireResult(FireStatus.LOST),
        FireResult(FireStatus.FIRED, ()),  # it was skipped
        FireResult(FireStatus.FIRED, (RunId(258),)),
    ]
    traces.end_fires(sampled, results, began, {(jobs[0].id, 1): make_spec(name="nightly")})
    [span] = tracer.spans
    assert (span.trace, span.parent, span.name) == (sampled[0].trace, None, "fire")
    assert (span.attributes["mainspring.job"], span.began) == ("nightly", began)
    assert span_id_of(span.trace) != bytes(8)
