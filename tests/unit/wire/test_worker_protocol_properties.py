"""What a worker says arrives as it was said, and so does what it is told: through JSON and back, for any values."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ids import JobId, RunId, SessionId, format_run_id
from mainspring.core.model import INLINE_LIMIT, Delivery, JobSpec, Overlap, Priority, Target
from mainspring.core.outcomes import MAX_RETRY_AFTER, Failure
from mainspring.core.triggers import Interval, Once
from mainspring.errors import InvalidInput
from mainspring.ports.executor import Snooze, Success
from mainspring.ports.gateway import (
    MAX_SLOTS,
    BeatReply,
    ClaimCall,
    ClaimReply,
    Ending,
    FunctionLimit,
    HandedBack,
    Lease,
    Registration,
    Report,
    Stopped,
)
from mainspring.wire import protocol

INSTANTS = st.datetimes(
    min_value=datetime(1971, 1, 1),  # noqa: DTZ001 -- hypothesis adds the zone
    max_value=datetime(2200, 1, 1),  # noqa: DTZ001 -- hypothesis adds the zone
    timezones=st.just(UTC),
)
# What every store can hold: no NUL, no lone surrogates.
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
RUN_IDS = st.integers(0, 2**63 - 1).map(RunId)
TOKENS = st.integers(0, 2**31 - 1)
KEYS = st.tuples(RUN_IDS, TOKENS)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS, below, max_size=3),
    max_leaves=8,
)
# A JSON null stands for no payload and no result on the wire, so it is not among them.
JSON = st.none() | VALUES.map(msgspec.json.encode)
DELAYS = st.timedeltas(timedelta(0), timedelta(days=365))
ENDINGS: st.SearchStrategy[Ending] = st.one_of(
    st.builds(Success, result=JSON, output=st.none() | TEXTS),
    st.builds(
        Failure,
        error=TEXTS.filter(bool),
        output=st.none() | TEXTS,
        result=JSON,
        is_retryable=st.booleans(),
        is_timeout=st.booleans(),
        retry_after=st.none() | st.timedeltas(timedelta(0), MAX_RETRY_AFTER),
    ),
    st.builds(Snooze, DELAYS),
    st.builds(HandedBack, was_started=st.booleans(), is_preempted=st.booleans()),
    st.builds(Stopped, error=st.none() | TEXTS, output=st.none() | TEXTS),
)
SPECS = st.builds(
    JobSpec,
    name=TEXTS.filter(bool),
    target=st.builds(Target, st.just("function"), st.fixed_dictionaries({"function": TEXTS.filter(bool)})),
    trigger=st.one_of(
        st.none(),
        st.builds(Once, INSTANTS),
        st.builds(Interval, st.timedeltas(timedelta(seconds=1), timedelta(days=3650)), INSTANTS),
    ),
    payload=JSON,
    priority=st.sampled_from(Priority),
    overlap=st.sampled_from(Overlap),
    delivery=st.sampled_from(Delivery),
    timeout=st.timedeltas(timedelta(milliseconds=1), timedelta(days=30)),
    soft_timeout=st.none() | st.timedeltas(timedelta(milliseconds=1), timedelta(days=30)),
)


@st.composite
def lease_batches(draw: st.DrawFn) -> tuple[Lease, ...]:
    """Draw leases of few definitions, so that several share one; a version never has two definitions."""
    ids = draw(st.lists(st.integers(0, 2**128 - 1), min_size=1, max_size=3, unique=True))
    specs = {(JobId(UUID(int=number)), version): draw(SPECS) for number in ids for version in (1, 2)}
    leases = []
    for job_id, version in draw(st.lists(st.sampled_from(sorted(specs)), max_size=6)):
        leases.append(
            Lease(
                run_id=draw(RUN_IDS),
                token=draw(TOKENS),
                job_id=job_id,
                version=version,
                tenant="default",
                attempt=draw(st.integers(1, 1000)),
                fire_at=draw(st.none() | INSTANTS),
                due_at=draw(INSTANTS),
                payload=draw(JSON),
                target_key=draw(TEXTS),
                is_quarantined=draw(st.booleans()),
                is_cancel_requested=draw(st.booleans()),
                spec=specs[job_id, version],
            )
        )
    return tuple(leases)


def through_json(value: object, kind: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value), type=kind)


@given(run_id=RUN_IDS, token=TOKENS, ending=ENDINGS, took=st.none() | st.floats(0, 1e6))
def test_report_arrives_as_it_was_said(run_id: RunId, token: int, ending: Ending, took: float | None) -> None:
    report = Report(run_id=run_id, token=token, ending=ending, took=took)
    item = through_json(protocol.from_report(report), protocol.ReportItem)
    assert protocol.to_report(item, 0) == report


@given(
    leases=lease_batches(),
    is_session_live=st.booleans(),
    is_quarantined_waiting=st.booleans(),
)
def test_claim_reply_arrives_as_it_was_said(
    leases: tuple[Lease, ...], is_session_live: bool, is_quarantined_waiting: bool
) -> None:
    reply = ClaimReply(
        leases=leases, is_session_live=is_session_live, is_quarantined_waiting=is_quarantined_waiting
    )
    answer = through_json(protocol.from_claim_reply(reply), protocol.ClaimAnswerIn)
    assert protocol.to_claim_reply(answer) == reply


@given(leases=lease_batches())
def test_claim_answer_holds_each_definition_once(leases: tuple[Lease, ...]) -> None:
    view = protocol.from_claim_reply(ClaimReply(leases=leases))
    sent = [(item.job_id, item.version) for item in view.definitions]
    assert len(sent) == len(set(sent)) == len({(lease.job_id, lease.version) for lease in leases})


@given(
    number=st.integers(1, 2**62),
    limit=st.integers(0, MAX_SLOTS),
    wait=st.timedeltas(timedelta(0), timedelta(seconds=30)),
    session=st.integers(0, 10**18 - 1),
    is_idle=st.booleans(),
    bound=st.none()
    | st.builds(
        FunctionLimit, functions=st.frozensets(st.sampled_from("abc")), limit=st.integers(0, MAX_SLOTS)
    ),
)
def test_claim_arrives_as_it_was_said(
    number: int, limit: int, wait: timedelta, session: int, is_idle: bool, bound: FunctionLimit | None
) -> None:
    call = ClaimCall(
        session_id=SessionId(session),
        number=number,
        limit=limit,
        wait=wait,
        is_idle=is_idle,
        function_limit=bound,
    )
    assert protocol.to_claim(through_json(protocol.from_claim(call), protocol.ClaimBody)) == call


@given(
    lost=st.lists(KEYS, max_size=5).map(tuple),
    cancel=st.lists(KEYS, max_size=5).map(tuple),
    is_session_live=st.booleans(),
)
def test_beat_reply_arrives_as_it_was_said(
    lost: tuple[tuple[RunId, int], ...], cancel: tuple[tuple[RunId, int], ...], is_session_live: bool
) -> None:
    reply = BeatReply(is_session_live=is_session_live, lost=lost, cancel=cancel)
    view = through_json(protocol.from_beat_reply(reply), protocol.BeatView)
    assert protocol.to_beat_reply(view) == reply


@given(held=st.lists(KEYS, max_size=5).map(tuple))
def test_held_leases_arrive_as_they_were_said(held: tuple[tuple[RunId, int], ...]) -> None:
    body = protocol.BeatBody(session_id="ses_1", held=protocol.from_keys(held))
    assert protocol.to_keys(through_json(body, protocol.BeatBody).held) == held


@given(
    registration=st.builds(
        Registration,
        name=TEXTS.filter(bool),
        host=TEXTS,
        pid=st.integers(0, 2**31 - 1),
        slots=st.integers(1, MAX_SLOTS),
        queues=st.lists(TEXTS, max_size=3).map(tuple),
        types=st.lists(TEXTS, max_size=3).map(tuple),
        functions=st.lists(TEXTS, max_size=3).map(tuple),
        labels=st.lists(TEXTS, max_size=3).map(tuple),
    )
)
def test_registration_arrives_as_it_was_said(registration: Registration) -> None:
    body = through_json(protocol.from_registration(registration), protocol.RegisterBody)
    protocol.check_protocol(body.protocol)
    assert protocol.to_registration(body) == registration


@given(number=st.none() | st.integers() | st.text() | st.floats())
def test_only_the_protocol_that_is_spoken_passes(number: object) -> None:
    if number == protocol.WORKER_PROTOCOL:
        protocol.check_protocol(number)
        return
    with pytest.raises(InvalidInput) as refused:
        protocol.check_protocol(number)
    assert refused.value.field == "protocol"


def test_result_of_the_largest_size_arrives_whole() -> None:
    result = b'"' + b"x" * (INLINE_LIMIT - 2) + b'"'
    report = Report(run_id=RunId(263), token=1, ending=Success(result=result))
    item = through_json(protocol.from_report(report), protocol.ReportItem)
    assert protocol.to_report(item, 0) == report


@pytest.mark.parametrize("outcome", ["", "SUCCESS", "lost", "succeeded"])
def test_report_is_refused_by_its_place_for_an_unknown_outcome(outcome: str) -> None:
    item = protocol.ReportItem(run_id=format_run_id(RunId(263)), token=1, outcome=outcome)
    with pytest.raises(InvalidInput) as refused:
        protocol.to_report(item, 7)
    assert refused.value.field == "reports[7].outcome"


@pytest.mark.parametrize("text", ["", "run_", "263", "run_" + "z" * 13, "job_" + "0" * 26])
def test_report_is_refused_by_its_place_for_what_is_no_run_id(text: str) -> None:
    item = protocol.ReportItem(run_id=text, token=1, outcome="success")
    with pytest.raises(InvalidInput) as refused:
        protocol.to_report(item, 3)
    assert refused.value.field == "reports[3].run_id"


def test_snooze_is_refused_without_its_delay() -> None:
    item = protocol.ReportItem(run_id=format_run_id(RunId(263)), token=1, outcome="snooze")
    with pytest.raises(InvalidInput) as refused:
        protocol.to_report(item, 0)
    assert refused.value.field == "reports[0].delay_seconds"


@pytest.mark.parametrize("session", ["", "17", "ses_", "ses_-1", "ses_1x", "ses_" + "9" * 19, "xses_1"])
def test_claim_is_refused_for_what_is_no_session(session: str) -> None:
    body = {"session_id": session, "number": 1, "limit": 1}
    with pytest.raises(msgspec.ValidationError):
        through_json(body, protocol.ClaimBody)
