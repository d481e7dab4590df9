from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.claiming import accepts_route
from mainspring.core.definition import edit_definition, plain_from_spec, read_definition, spec_from_plain
from mainspring.core.ids import JobId
from mainspring.core.limit_settings import read_limit
from mainspring.core.limits import Hold, JobLimit, RunKey, is_lined_up, job_of_limit, keys_of, own_limit_name
from mainspring.core.model import JobSpec
from mainspring.core.outlines import has_outline
from mainspring.core.rates import Rate, parse_rate
from mainspring.errors import InvalidInput
from mainspring.ports.codec import decode_spec, encode_spec
from mainspring.testing.factories import START, IdSequence, make_spec

JOB = JobId(IdSequence().new_uuid())


def read(concurrency: Any, **more: Any) -> JobSpec:
    return read_definition({"name": "a", "function": "f", "concurrency": concurrency, **more}, now=START)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (3, (JobLimit(limit=3),)),
        ({"limit": 3}, (JobLimit(limit=3),)),
        ([{"key": "$.a", "limit": 1}, {"use": "crm"}], (JobLimit(key="$.a", limit=1), JobLimit(use="crm"))),
        ([{"rate": "5/s", "burst": 9}], (JobLimit(rate=parse_rate("5/s"), burst=9),)),
        ([{"limit": 1, "hold": "run"}], (JobLimit(limit=1, hold=Hold.RUN),)),
        ([{"limit": 2, "rate": None, "key": None}], (JobLimit(limit=2),)),
        ([], ()),
    ],
)
def test_forms_of_the_option(given: Any, wanted: tuple[JobLimit, ...]) -> None:
    spec = read(given)
    assert spec.concurrency == wanted
    assert spec_from_plain(plain_from_spec(spec)) == spec
    assert decode_spec(encode_spec(spec)) == spec


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        (0, "concurrency", "between 1 and 100000"),
        (True, "concurrency", "a number, an object, or a list"),
        ("5", "concurrency", "a number, an object, or a list"),
        ([{"limit": 1}] * 4, "concurrency", "at most 3"),
        ([5], "concurrency[0]", "must be an object of limit, key"),
        ([{}], "concurrency[0]", "must have a limit, a rate, or use"),
        ([{"key": "$.a"}], "concurrency[0]", "must have a limit, a rate, or use"),
        ([{"limit": 1}, {"limt": 1}], "concurrency[1].limt", "did you mean 'limit'"),
        ([{"use": "crm", "limit": 1}], "concurrency[0].limit", "said by the limit 'crm'"),
        ([{"use": "crm", "hold": "run"}], "concurrency[0].hold", "said by the limit 'crm'"),
        ([{"use": "a b"}], "concurrency[0].use", ""),
        ([{"limit": 1, "burst": 2}], "concurrency[0].burst", "goes with a rate"),
        ([{"limit": 1, "key": "$"}], "concurrency[0].key", "names no part"),
        ([{"limit": 1, "key": 5}], "concurrency[0].key", "must be text"),
        ([{"rate": "5"}], "concurrency[0].rate", "10/s"),
        ([{"rate": 5}], "concurrency[0].rate", "10/s"),
        ([{"limit": 1, "hold": "ever"}], "concurrency[0].hold", "attempt"),
    ],
)
def test_what_is_wrong_is_refused_by_its_field(given: Any, field: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(given)
    assert refused.value.field == field
    assert words in refused.value.message


A_MINUTE = Rate(100, timedelta(minutes=1))


def test_a_rate_alone_is_short_for_a_limit_of_the_whole_job() -> None:
    alone = read_definition({"name": "a", "function": "f", "rate": "100/m"}, now=START)
    assert alone.concurrency == (JobLimit(rate=A_MINUTE),)
    assert plain_from_spec(alone)["concurrency"] == [{"rate": "100/m"}]
    assert "rate" not in plain_from_spec(alone)
    beside = read([{"limit": 2, "key": "$.a"}, {"use": "crm"}], rate="100/m")
    assert beside.concurrency == (JobLimit(limit=2, key="$.a"), JobLimit(use="crm"), JobLimit(rate=A_MINUTE))
    assert read(5, rate=None).concurrency == (JobLimit(limit=5),)
    assert read({"rate": "5/s", "key": "$.a"}, rate="100/m").concurrency[1] == JobLimit(rate=A_MINUTE)


@pytest.mark.parametrize(
    ("concurrency", "rate", "words"),
    [
        ([], "100", "must be a count from 1"),
        ([], 100, "must be text like 10/s"),
        ([{"limit": 1}, {"rate": "5/s", "burst": 3}], "100/m", "says the same as 'concurrency[1].rate'"),
        ([{"limit": 1}] * 3, "100/m", "concurrency has 3 already"),
    ],
)
def test_a_wrong_rate_in_short_form_is_refused(concurrency: Any, rate: Any, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(concurrency, rate=rate)
    assert refused.value.field == "rate"
    assert words in refused.value.message


def test_a_patch_changes_adds_and_takes_away_the_rate() -> None:
    spec = read([{"rate": "5/s", "burst": 3}, {"limit": 1}])
    slower = edit_definition(spec, {"rate": "100/m"}, now=START)
    assert slower.concurrency == (JobLimit(rate=A_MINUTE, burst=3), JobLimit(limit=1)), "in its place"
    without = edit_definition(slower, {"rate": None}, now=START)
    assert without.concurrency == (JobLimit(limit=1),)
    assert edit_definition(without, {"rate": "100/m"}, now=START).concurrency[1] == JobLimit(rate=A_MINUTE)
    both = edit_definition(spec, {"concurrency": 2, "rate": "100/m"}, now=START)
    assert both.concurrency == (JobLimit(limit=2), JobLimit(rate=A_MINUTE))
    full = read([{"limit": 1}] * 3)
    with pytest.raises(InvalidInput, match="concurrency has 3 already"):
        edit_definition(full, {"rate": "100/m"}, now=START)


def test_a_patch_replaces_all_limits() -> None:
    spec = read([{"limit": 3}, {"use": "crm"}])
    assert edit_definition(spec, {"concurrency": 5}, now=START).concurrency == (JobLimit(limit=5),)
    assert edit_definition(spec, {"concurrency": []}, now=START).concurrency == ()


def test_a_job_with_a_trigger_must_have_its_keys_in_its_own_payload() -> None:
    limit = {"key": "$.customer", "limit": 1}
    assert read(limit, cron="* * * * *", payload={"customer": 5}).concurrency
    with pytest.raises(InvalidInput) as refused:
        read(limit, cron="* * * * *", payload={"shop": 5})
    assert refused.value.field == "payload.customer"
    assert refused.value.message == "is missing; concurrency[0].key needs it"


def test_keys_of_a_run_begin_with_its_line() -> None:
    own = own_limit_name(JOB, 1)
    spec = make_spec(concurrency=(JobLimit(use="crm"), JobLimit(key="$.a", limit=1)))
    assert keys_of(JOB, spec, b'{"a": 7}') == (RunKey(own, "7"), RunKey("crm", ""))
    fixed = make_spec(concurrency=(JobLimit(limit=1), JobLimit(use="crm", key="eu")), payload=b"[")
    assert keys_of(JOB, fixed) == (RunKey("crm", "eu"), RunKey(own_limit_name(JOB, 0), ""))
    assert keys_of(JOB, make_spec()) == ()


def test_the_same_key_twice_is_one_key() -> None:
    spec = read([{"use": "crm", "key": "$.a"}, {"use": "crm", "key": "eu"}, {"use": "crm", "key": "eu"}])
    assert keys_of(JOB, spec, b'{"a":"us"}') == (RunKey("crm", "us"), RunKey("crm", "eu"))
    assert keys_of(JOB, spec, b'{"a":"eu"}') == (RunKey("crm", "eu"),)


def test_the_job_of_an_own_limit_is_told_by_its_name() -> None:
    assert job_of_limit(own_limit_name(JOB, 2)) == JOB
    assert job_of_limit("crm") is None


def test_runs_with_limits_have_a_route_that_workers_accept_and_older_releases_do_not() -> None:
    spec, plain = make_spec(concurrency=(JobLimit(limit=1),), labels=("gpu",)), make_spec(labels=("gpu",))
    assert is_lined_up(spec.route)
    assert not is_lined_up(plain.route)
    assert not is_lined_up(make_spec(labels=("keys",)).route)
    offer = {"types": frozenset[str](), "functions": frozenset({"work"})}
    assert accepts_route(spec.route, labels=frozenset({"gpu"}), **offer)
    assert not accepts_route(spec.route, labels=frozenset(), **offer)
    assert spec.route.rpartition("+")[0] == plain.route


def test_jobs_with_limits_do_not_fire_in_sets() -> None:
    once = {"run_at": "2027-01-01T00:00:00Z"}
    assert has_outline(read([], **once))
    assert not has_outline(read(1, **once))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "max_running"),
        ({"hold": "run"}, "max_running"),
        ({"max_running": 0}, "max_running"),
        ({"max_running": 1, "burst": 2}, "burst"),
        ({"rate": "x"}, "rate"),
        ({"limit": 1}, "limit"),
    ],
)
def test_a_shared_limit_that_makes_no_sense_is_refused(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_limit("crm", body)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "rule",
    [
        {"debounce": {"key": "$.doc", "wait": "5s"}},
        {"unique": {"key": "$.doc", "scope": "queued", "on_conflict": "replace"}},
    ],
)
def test_a_key_must_not_change_while_its_run_waits(rule: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        read([{"limit": 1}, {"limit": 1, "key": "$.customer"}], **rule)
    assert refused.value.field == "concurrency[1].key"
    assert read([{"limit": 1, "key": "$.doc"}], **rule).concurrency
    assert read({"limit": 1, "key": "fixed"}, **rule).concurrency


def test_a_number_that_nobody_can_read_is_no_key() -> None:
    spec = make_spec(concurrency=(JobLimit(key="$.a", limit=1),))
    with pytest.raises(InvalidInput, match="too long a number"):
        keys_of(JOB, spec, b'{"a": ' + b"1" * 5000 + b"}")
