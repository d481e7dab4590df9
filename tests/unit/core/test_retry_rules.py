"""Rules of a retry policy: which one a failure gets, what it does, and when retries follow."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.causes import Cause, read_pattern
from mainspring.core.definition import edit_definition, plain_from_spec, read_definition, spec_from_plain
from mainspring.core.definition.retry import put_rules
from mainspring.core.ids import RunId, SessionId
from mainspring.core.model import Delivery, JobSpec
from mainspring.core.outcomes import AttemptFacts, AttemptOutcome, Failure, Transition, failed, lost
from mainspring.core.retry import Backoff, RetryPolicy, preview, retry_delay
from mainspring.core.retry_words import tell_retries, tell_rule
from mainspring.core.states import RunState
from mainspring.errors import InvalidInput
from mainspring.testing.factories import START

FACTS = AttemptFacts(
    run_id=RunId(1),
    token=1,
    session_id=SessionId(1),
    attempt=1,
    is_quarantined=False,
    quarantined_crashes=0,
    is_cancel_requested=False,
)
KEY_ERROR = Cause(exceptions=("builtins.KeyError", "builtins.LookupError", "builtins.Exception"))
TARGETS: dict[str, dict[str, Any]] = {
    "function": {"function": "f"},
    "http": {"callback_url": "https://example.com"},
    "shell": {"command": ["true"]},
}


def job(*rules: Any, target: str = "function", **fields: Any) -> JobSpec:
    retry = {"delay": 10, "jitter": 0, "rules": list(rules)}
    return read_definition({"name": "x", **TARGETS[target], "retry": retry, **fields}, now=START)


def end(spec: JobSpec, cause: Cause | None = None, facts: AttemptFacts = FACTS, **failure: Any) -> Transition:
    return failed(facts, spec, Failure(error="x", cause=cause, **failure), now=START, random=lambda: 0.5)


def wait(end: Transition) -> float | None:
    return None if end.ready_at is None else (end.ready_at - START).total_seconds()


# -- causes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fitting", "others"),
    [
        ("KeyError", [KEY_ERROR], [Cause(), Cause(exceptions=("a.MyKeyError",)), Cause(status=500)]),
        ("LookupError", [KEY_ERROR], [Cause(exceptions=("builtins.IndexError",))]),
        ("builtins.KeyError", [KEY_ERROR], [Cause(exceptions=("mine.KeyError",))]),
        ("errors.Gone", [Cause(exceptions=("shop.errors.Gone",))], [Cause(exceptions=("shop.Gone",))]),
        ("Gone", [Cause(exceptions=("shop.test.<locals>.Gone",))], []),
        ("status 429", [Cause(status=429)], [Cause(status=428), Cause(exit_code=129)]),
        ("status 5xx", [Cause(status=500), Cause(status=599)], [Cause(status=499)]),
        ("status 500-503", [Cause(status=500), Cause(status=503)], [Cause(status=504)]),
        ("exit 64-78", [Cause(exit_code=64), Cause(exit_code=78)], [Cause(exit_code=79), Cause(status=200)]),
        ("exit 1", [Cause(exit_code=1)], [Cause(exit_code=-1)]),
        ("signal KILL", [Cause(exit_code=-9)], [Cause(exit_code=9), Cause(exit_code=137)]),
        ("signal SIGTERM", [Cause(exit_code=-15)], []),
        ("signal 42", [Cause(exit_code=-42)], []),
        ("connection", [Cause(is_connection=True)], [Cause(status=503)]),
        ("any", [Cause(), KEY_ERROR, Cause(status=503)], []),
        ("timeout", [], [Cause(), KEY_ERROR]),
        ("crash", [], [Cause(), KEY_ERROR]),
    ],
)
def test_text_names_causes(text: str, fitting: list[Cause], others: list[Cause]) -> None:
    pattern = read_pattern(text, "on")
    assert all(pattern.fits(cause) for cause in fitting)
    assert not any(pattern.fits(cause) for cause in others)


@pytest.mark.parametrize("text", ["timeout", "TimeoutError", "builtins.TimeoutError", "any"])
def test_time_limit_has_names_of_its_own(text: str) -> None:
    pattern = read_pattern(text, "on")
    assert pattern.fits(None, is_timeout=True)
    assert not read_pattern("KeyError", "on").fits(None, is_timeout=True)


@given(st.text(max_size=30))
def test_any_text_is_a_cause_or_refused_by_name(text: str) -> None:
    refused = None
    try:
        read_pattern(text, "retry.rules[0].on")
    except InvalidInput as error:
        refused = error
    assert refused is None or refused.field == "retry.rules[0].on"


@pytest.mark.parametrize(
    ("rules", "field", "message"),
    [
        ({"on": "KeyError"}, "retry.rules", "must be a list of at most 32 rules"),
        (["KeyError"], "retry.rules[0]", "must be an object of on, then"),
        ([{"then": "fail"}], "retry.rules[0].on", "is missing"),
        ([{"on": []}], "retry.rules[0].on", "a list of 1 to 32, not 0 of them"),
        ([{"on": 503}], "retry.rules[0].on", "must be a cause"),
        ([{"on": ["KeyError", 503]}], "retry.rules[0].on[1]", "must be text"),
        ([{"on": "503"}], "retry.rules[0].on", "write 'status 503' or 'exit 503'"),
        ([{"on": "timeouts"}], "retry.rules[0].on", "did you mean 'timeout'?"),
        ([{"on": "status 600"}], "retry.rules[0].on", "from 100 to 599"),
        ([{"on": "status 503-500"}], "retry.rules[0].on", "write 'status 500-503'"),
        ([{"on": "exit 0"}], "retry.rules[0].on", "0 is a success"),
        ([{"on": "signal NOPE"}], "retry.rules[0].on", "is no signal"),
        ([{"on": "what ever"}], "retry.rules[0].on", "or the name of an exception"),
        ([{"on": "KeyError", "then": "stop"}], "retry.rules[0].then", "retry, fail, snooze"),
        ([{"on": "KeyError", "then": "fail", "delay": 1}], "retry.rules[0].delay", "goes with"),
        (
            [{"on": "KeyError", "then": "fail", "jitter": 0}],
            "retry.rules[0].jitter",
            "goes with then 'retry'",
        ),
        ([{"on": "KeyError", "max_snoozes": 3}], "retry.rules[0].max_snoozes", "goes with then 'snooze'"),
        ([{"on": "KeyError", "then": "snooze"}], "retry.rules[0].delay", "how long it lasts"),
        ([{"on": "KeyError", "backoff": "list"}], "retry.rules[0].delays", "at least one"),
        ([{"on": "KeyError", "backoff": "fixed", "delays": [1]}], "retry.rules[0].delays", "goes with"),
        ([{"on": "KeyError", "delay": "2h"}], "retry.rules[0].delay", "the cap of 1h"),
        ([{"on": "KeyError", "wait": 1}], "retry.rules[0].wait", "there is no such field"),
        ([{"on": "any"}, {"on": "KeyError"}], "retry.rules[1].on", "retry.rules[0] comes first"),
        ([{"on": "KeyError"}, {"on": ["a.B", "KeyError"]}], "retry.rules[1].on", "names 'KeyError' already"),
        ([{"on": "status 503"}], "retry.rules[0].on", "is a cause of targets of the type 'http'"),
        ([{"on": "exit 3"}], "retry.rules[0].on", "of the type 'shell'; this one is 'function'"),
    ],
)
def test_rule_that_cannot_be_meant_is_refused(rules: Any, field: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_definition({"name": "x", "function": "f", "retry": {"rules": rules}}, now=START)
    assert refused.value.field == field
    assert message in refused.value.message


def test_rules_go_with_their_target() -> None:
    job({"on": ["status 503", "connection", "TimeoutError"]}, target="http")
    job({"on": ["exit 3", "signal KILL", "timeout", "crash"]}, target="shell")
    with pytest.raises(InvalidInput, match=r"^target: 'exit 3' is a cause"):
        edit_definition(job({"on": "exit 3"}, target="shell"), TARGETS["http"], now=START)


def test_rules_are_kept_and_replaced_as_a_whole() -> None:
    spec = job(
        {"on": ["timeout", "KeyError"], "then": "retry", "max_retries": 9, "delays": [1, "1m"]},
        {"on": "a.B", "then": "snooze", "delay": "1h", "max_snoozes": 3},
        {"on": "any", "then": "fail"},
    )
    plain = plain_from_spec(spec)
    assert plain["retry"]["rules"] == [
        {
            "on": ["timeout", "KeyError"],
            "then": "retry",
            "max_retries": 9,
            "backoff": "list",
            "delays_seconds": [1, 60],
        },
        {"on": ["a.B"], "then": "snooze", "delay_seconds": 3600, "max_snoozes": 3},
        {"on": ["any"], "then": "fail"},
    ]
    assert spec_from_plain(plain) == spec
    assert edit_definition(spec, {"retry": {"max_retries": 1}}, now=START).retry.rules == spec.retry.rules
    assert edit_definition(spec, {"retry": {"rules": []}}, now=START).retry.rules == ()
    assert "rules" not in plain_from_spec(job())["retry"]  # jobs without them are kept as before
    other = job({"on": "KeyError"})
    assert spec_from_plain(plain_from_spec(other)) == other  # what is remembered of the first is not taken


# -- what a rule does -------------------------------------------------------------------------------------------------


def test_first_rule_that_fits_decides_and_without_one_the_policy() -> None:
    spec = job({"on": "KeyError", "then": "fail"}, {"on": "LookupError", "delay": 60})
    final = end(spec, KEY_ERROR)
    assert (final.to, final.reason, final.counts_attempt) == (RunState.FAILED, "not_retryable", False)
    assert wait(end(spec, Cause(exceptions=("x.IndexError", "builtins.LookupError")))) == 60
    assert wait(end(spec, Cause(exceptions=("builtins.OSError",)))) == 10
    assert wait(end(spec)) == 10  # an older worker, which names no cause


def test_rule_has_its_own_number_of_retries_and_waits() -> None:
    spec = job({"on": "KeyError", "max_retries": 5, "backoff": "fixed", "delay": 60})
    assert wait(end(spec, KEY_ERROR, replace(FACTS, attempt=5))) == 60
    last = end(spec, KEY_ERROR, replace(FACTS, attempt=6))
    assert (last.to, last.reason) == (RunState.FAILED, "retries_exhausted")
    assert end(spec, None, replace(FACTS, attempt=4)).reason == "retries_exhausted"


def test_snooze_counts_no_attempt_and_has_an_end() -> None:
    spec = job({"on": "KeyError", "then": "snooze", "delay": "5m", "max_snoozes": 3})
    token = 1
    for _ in range(3):
        again = end(spec, KEY_ERROR, replace(FACTS, token=token))
        assert (again.to, again.outcome, wait(again)) == (RunState.RETRYING, AttemptOutcome.FAILED, 300)
        assert not again.counts_attempt
        token += 2  # the end raises it, and so does the next claim
    last = end(spec, KEY_ERROR, replace(FACTS, token=token))
    assert (last.to, last.reason) == (RunState.FAILED, "snoozes_exhausted")
    # Attempts that counted are not among them.
    assert end(spec, KEY_ERROR, replace(FACTS, token=token, attempt=3)).to is RunState.RETRYING


@pytest.mark.parametrize("then", [{"then": "snooze", "delay": 60}, {"then": "retry", "delay": 60}])
@pytest.mark.parametrize(("asked", "waits"), [(5, 60), (600, 600), (10**9, 86400)])
def test_longer_of_the_rules_wait_and_the_one_that_was_asked_for_applies(
    then: dict[str, Any], asked: int, waits: int
) -> None:
    spec = job({"on": "status 503", **then}, target="http")
    assert wait(end(spec, Cause(status=503), retry_after=timedelta(seconds=asked))) == waits


@pytest.mark.parametrize("rule", [{"then": "fail"}, {"then": "retry"}, {"then": "snooze", "delay": 7}])
def test_word_of_the_work_itself_counts_more_than_any_rule(rule: dict[str, Any]) -> None:
    spec = job({"on": "any", **rule})
    assert end(spec, is_retryable=False).reason == "not_retryable"
    assert wait(end(spec, retry_after=timedelta(seconds=42))) == 42
    assert end(spec, retry_after=timedelta(0)).counts_attempt


def test_rule_may_retry_what_is_final_otherwise() -> None:
    gone: dict[str, Any] = {"cause": Cause(status=410), "is_retryable": False}
    assert end(job(target="http"), **gone).reason == "not_retryable"
    assert wait(end(job({"on": "status 410"}, target="http"), **gone)) == 10


def test_time_limit_is_a_cause() -> None:
    spec = job({"on": "timeout", "then": "fail"})
    last = end(spec, is_timeout=True)
    assert (last.outcome, last.reason) == (AttemptOutcome.TIMED_OUT, "not_retryable")
    assert wait(end(spec)) == 10


def test_rules_start_no_run_again_that_is_cancelled_or_at_most_once() -> None:
    rule = {"on": ["any", "crash"], "then": "snooze", "delay": 1}
    careful = job(rule, delivery="at_most_once")
    assert careful.delivery is Delivery.AT_MOST_ONCE
    assert end(careful, KEY_ERROR).reason == "failed"
    assert lost(FACTS, careful, now=START).reason == "lost"
    cancelled = replace(FACTS, is_cancel_requested=True)
    assert end(job(rule), KEY_ERROR, cancelled).to is RunState.CANCELLED
    assert lost(cancelled, job(rule), now=START).to is RunState.CANCELLED


def test_crash_has_rules_of_its_own() -> None:
    def crash(*rules: Any, **facts: Any) -> Transition:
        end = lost(replace(FACTS, **facts), job(*rules), now=START)
        assert end.is_crash
        assert end.outcome is AttemptOutcome.LOST
        return end

    usual = crash({"on": "any", "then": "fail"})
    assert (usual.to, wait(usual), usual.counts_attempt) == (RunState.PENDING, 0, False)
    last = crash({"on": "crash", "then": "fail"})
    assert (last.to, last.reason) == (RunState.FAILED, "lost")
    later = crash({"on": ["timeout", "crash"], "delay": 60})
    assert (later.to, wait(later), later.counts_attempt) == (RunState.RETRYING, 60, True)
    assert crash({"on": "crash", "max_retries": 1}, attempt=2).reason == "retries_exhausted"
    snoozed = crash({"on": "crash", "then": "snooze", "delay": 60})
    assert (snoozed.to, wait(snoozed), snoozed.counts_attempt) == (RunState.RETRYING, 60, False)
    poison = {"is_quarantined": True, "quarantined_crashes": 2}
    assert crash({"on": "crash", "then": "snooze", "delay": 60}, **poison).reason == "poison"


# -- short forms, and words -------------------------------------------------------------------------------------------


def test_short_forms_stand_for_rules() -> None:
    body: dict[str, Any] = {"retry": {"max_retries": 1}}
    put_rules(body, ["OSError", "timeout"], "ValueError")
    assert body["retry"] == {
        "max_retries": 1,
        "rules": [
            {"on": ["ValueError"], "then": "fail"},
            {"on": ["OSError", "timeout"], "then": "retry"},
            {"on": ["any"], "then": "fail"},
        ],
    }
    nothing: dict[str, Any] = {}
    put_rules(nothing, None, None)
    assert nothing == {}
    with pytest.raises(InvalidInput, match=r"retry_on: is short for rules, and 'retry\.rules' is given"):
        put_rules(body, "OSError", None)
    with pytest.raises(InvalidInput, match="retry_on: names 'OSError', and so does 'no_retry_on'"):
        put_rules({}, "OSError", ["OSError"])
    with pytest.raises(InvalidInput, match="no_retry_on: must be a cause"):
        put_rules({}, None, [])


policies = st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 30),
    backoff=st.sampled_from([Backoff.FIXED, Backoff.LINEAR, Backoff.EXPONENTIAL]),
    delay=st.timedeltas(timedelta(0), timedelta(days=30)),
    cap=st.timedeltas(timedelta(0), timedelta(days=30)),
    jitter=st.floats(0, 1),
)


@given(policies, st.data())
def test_preview_bounds_what_the_waits_really_are(policy: RetryPolicy, data: st.DataObject) -> None:
    found = preview(policy)
    assert len(found.waits) == len(found.instants) == policy.max_retries
    drawn = st.floats(0, 1, exclude_max=True)
    real = sum(
        (retry_delay(policy, attempt + 1, lambda: data.draw(drawn)) for attempt in range(policy.max_retries)),
        timedelta(0),
    )
    slack = timedelta(microseconds=policy.max_retries + 1)  # each wait is rounded
    assert found.earliest - slack <= real <= found.latest + slack
    tell_retries(policy)


def test_preview_is_told_in_words() -> None:
    assert tell_retries(RetryPolicy()) == (
        "after 5s, 15s, 35s, each wait ±20%; gives up 42s after the first failure at the latest"
    )
    assert tell_retries(RetryPolicy(max_retries=0)) == "none; the first failure is final"
    many = tell_retries(RetryPolicy(max_retries=20, backoff=Backoff.FIXED, jitter=0))
    assert many == (
        "after 5s, 10s, 15s, 20s, 25s, 30s, 35s, … 1m40s (20 in all); "
        "gives up 1m40s after the first failure at the latest"
    )
    spec = job(
        {"on": ["KeyError", "timeout"], "then": "fail"},
        {"on": "a.B", "then": "snooze", "delay": "5m"},
        {"on": "any", "max_retries": 1},
    )
    assert [tell_rule(spec.retry, rule) for rule in spec.retry.rules] == [
        "KeyError or timeout: fails at once",
        "a.B: called again after 5m, at most 100 times",
        "any: retries after 10s; gives up 10s after the first failure at the latest",
    ]
