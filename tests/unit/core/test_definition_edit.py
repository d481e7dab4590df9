"""Patches: given fields replace, nested policies merge by key, null removes a trigger."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.core.cron import Cron
from mainspring.core.definition import edit_definition, plain_from_spec, read_definition
from mainspring.core.model import JobSpec, Misfire, Priority, Target
from mainspring.core.retry import Backoff
from mainspring.core.triggers import Interval, Once
from mainspring.errors import InvalidInput

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=30)
SECOND = timedelta(seconds=1)
OLD = read_definition(
    {
        "name": "report",
        "cron": "0 9 * * *",
        "tz": "Europe/Berlin",
        "dst": "skip/both",
        "function": "mail.send",
        "payload": {"a": {"b": 1}},
        "retry": {"max_retries": 5, "delay": "2s"},
        "misfire": {"policy": "fire_all", "max_count": 7},
        "timeout": "10m",
        "soft_timeout": "5m",
        "expires_after": "1h",
    },
    now=NOW,
)


def edit(spec: JobSpec = OLD, **patch: Any) -> JobSpec:
    return edit_definition(spec, patch, now=LATER)


def refusal(spec: JobSpec = OLD, **patch: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        edit(spec, **patch)
    return caught.value


def test_given_fields_replace_and_the_others_stay() -> None:
    edited = edit(name="weekly", priority="high", payload={"c": 2}, labels=["eu"])
    assert edited == replace(OLD, name="weekly", priority=Priority.HIGH, payload=b'{"c":2}', labels=("eu",))


def test_retry_and_misfire_merge_by_key() -> None:
    edited = edit(retry={"max_retries": 1}, misfire={"policy": "skip"})
    assert (edited.retry.max_retries, edited.retry.delay) == (1, 2 * SECOND)
    assert (edited.misfire.policy, edited.misfire.max_count) == (Misfire.SKIP, 7)


def test_null_removes_what_is_optional() -> None:
    edited = edit(payload=None, soft_timeout=None, expires_after_seconds=None)
    assert (edited.payload, edited.soft_timeout, edited.expires_after) == (None, None, None)


@pytest.mark.parametrize("form", ["cron", "every", "run_at", "trigger"])
def test_null_trigger_in_any_form_removes_it(form: str) -> None:
    patch: dict[str, Any] = {form: None}
    assert edit(**patch).trigger is None


@pytest.mark.parametrize(
    ("patch", "trigger"),
    [
        ({"cron": "@hourly"}, Cron("@hourly", tz="Europe/Berlin", dst="skip/both")),
        ({"cron": "@hourly", "tz": "UTC"}, Cron("@hourly", tz="UTC", dst="skip/both")),
        ({"tz": "UTC"}, Cron("0 9 * * *", tz="UTC", dst="skip/both")),
        ({"dst": "vixie"}, Cron("0 9 * * *", tz="Europe/Berlin", dst="vixie")),
        ({"every": "1m"}, Interval(60 * SECOND, LATER)),
        ({"run_at": "2027-01-01T00:00:00Z"}, Once(datetime(2027, 1, 1, tzinfo=UTC))),
        ({"trigger": {"type": "cron", "expression": "@daily"}}, Cron("@daily")),
    ],
)
def test_a_new_trigger_replaces_the_old_one(patch: dict[str, Any], trigger: object) -> None:
    assert edit(**patch).trigger == trigger


def test_a_new_target_replaces_the_old_one() -> None:
    assert edit(callback_url="https://a.example").target.type == "http"
    assert edit(target={"type": "shell", "command": ["ls"]}).target == Target(
        "shell", {"command": ["ls"], "shell": False}
    )


@pytest.mark.parametrize(
    ("patch", "trigger"),
    [
        ({"cron": None, "every": "7s"}, Interval(7 * SECOND, LATER)),
        ({"every": "7s", "cron": None, "tz": None, "dst": None}, Interval(7 * SECOND, LATER)),
        ({"trigger": None, "every": "7s"}, Interval(7 * SECOND, LATER)),
        ({"cron": None, "trigger": {"type": "cron", "expression": "@daily"}}, Cron("@daily")),
        ({"every": None, "cron": "@daily"}, Cron("@daily", tz="Europe/Berlin", dst="skip/both")),
        ({"cron": None, "every": None, "run_at": None, "trigger": None, "tz": None}, None),
    ],
)
def test_null_may_stand_beside_the_trigger_that_comes_instead(patch: dict[str, Any], trigger: object) -> None:
    assert edit(**patch).trigger == trigger


@pytest.mark.parametrize(
    "patch",
    [
        {"function": None, "callback_url": "https://a.example"},
        {"callback_url": "https://a.example", "command": None, "shell": None},
        {"target": None, "callback_url": "https://a.example"},
        {"target": {"type": "http", "url": "https://a.example"}, "function": None},
    ],
)
def test_null_may_stand_beside_the_target_that_comes_instead(patch: dict[str, Any]) -> None:
    assert edit(**patch).target == edit(callback_url="https://a.example").target


@pytest.mark.parametrize("patch", [{"function": None}, {"target": None}, {"command": None, "target": None}])
def test_null_alone_leaves_no_job_without_a_target(patch: dict[str, Any]) -> None:
    error = refusal(**patch)
    assert error.field in patch
    assert error.message == (
        "must not be null, because every job has a target; give one of "
        "callback_url, function, command, workflow, target"
    )


def test_a_past_instant_may_stay_but_not_be_set() -> None:
    once = edit_definition(OLD, {"run_at": "2026-01-06T00:00:00Z"}, now=NOW)
    assert edit(once, priority="LOW").trigger == once.trigger
    assert edit(once, run_at="2026-01-06T01:00:00+01:00") == once
    assert edit(once, **plain_from_spec(once)) == once
    assert "has passed" in refusal(once, run_at="2026-01-07T00:00:00Z").message


def test_replacing_a_job_may_repeat_its_past_instant() -> None:
    body = {"name": "x", "function": "f", "run_at": "2026-01-06T00:00:00Z"}
    first = read_definition(body, now=NOW)
    assert read_definition(body, now=LATER, old=first.trigger) == first


def test_leaving_the_list_drops_its_delays() -> None:
    listed = edit(retry={"delays": ["1s", "2s"]})
    assert (listed.retry.backoff, listed.retry.delays) == (Backoff.LIST, (SECOND, 2 * SECOND))
    assert edit(listed, retry={"max_retries": 2}).retry.delays == listed.retry.delays
    assert edit(listed, retry={"backoff": "fixed"}).retry.delays == ()
    assert refusal(listed, retry={"delays": []}).field == "retry.delays"


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"name": None}, "name"),
        ({"cron": "nonsense"}, "cron"),
        ({"cron": "@daily", "every": "1m"}, "every"),
        ({"cron": "@daily", "every": "1m", "trigger": None}, "every"),
        ({"cron": None, "every": "1m", "tz": "UTC"}, "tz"),
        ({"cron": "@daily", "tz": None}, "tz"),
        ({"callback_url": "https://a.example", "function": "f", "command": None}, "function"),
        ({"tz": "Mars/Base"}, "tz"),
        ({"every": "1m", "dst": "vixie"}, "dst"),
        ({"timeout": "5m"}, "timeout"),
        ({"timeout_seconds": 300}, "timeout_seconds"),
        ({"soft_timeout": "10m"}, "soft_timeout"),
        ({"timeout": "1m", "soft_timeout": "1m"}, "soft_timeout"),
        ({"retry": None}, "retry"),
        ({"retry": {"backoff": "list"}}, "retry.delays"),
        ({"target": None}, "target"),
        ({"shell": True}, "shell"),
        ({"nmae": "x"}, "nmae"),
    ],
)
def test_wrong_patches_are_refused(patch: dict[str, Any], field: str) -> None:
    assert refusal(**patch).field == field


def test_zone_alone_needs_a_cron_trigger() -> None:
    assert refusal(edit(cron=None), tz="UTC").field == "tz"


def test_patch_must_be_an_object_and_functions_known() -> None:
    with pytest.raises(InvalidInput, match="body"):
        edit_definition(OLD, [], now=NOW)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="function"):
        edit_definition(OLD, {"function": "nope"}, now=NOW, functions=frozenset({"mail.send"}))
    edit_definition(OLD, {"priority": "LOW"}, now=NOW, functions=frozenset())


TICKING = read_definition({"name": "tick", "function": "work", "every": "3s"}, now=NOW)


@pytest.mark.parametrize(
    "patch",
    [
        {"every": "3s"},
        {"every": 3},
        {"trigger": {"type": "interval", "every_seconds": 3}},
        {"trigger": {"type": "interval", "every_seconds": 3, "anchor": None}},
    ],
)
def test_the_same_interval_keeps_its_anchor(patch: dict[str, Any]) -> None:
    assert edit(TICKING, **patch) == TICKING
    assert edit(TICKING, **patch, name="tock") == replace(TICKING, name="tock")


@pytest.mark.parametrize(
    ("patch", "trigger"),
    [
        ({"every": "4s"}, Interval(4 * SECOND, LATER)),
        ({"trigger": {"type": "interval", "every_seconds": 4}}, Interval(4 * SECOND, LATER)),
        (
            {"trigger": {"type": "interval", "every_seconds": 3, "anchor": "2026-01-05T12:00:01Z"}},
            Interval(3 * SECOND, NOW + SECOND),
        ),
    ],
)
def test_another_interval_or_anchor_counts_anew(patch: dict[str, Any], trigger: Interval) -> None:
    assert edit(TICKING, **patch).trigger == trigger
