"""The options of what runs once: how they are read, what is refused, and which key a payload gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.core.definition import edit_definition, plain_from_spec, read_definition, spec_from_plain
from mainspring.core.definition.plain import options_from_plain
from mainspring.core.model import JobSpec
from mainspring.core.once import DebounceRule, OnConflict, ThrottleRule, UniqueRule, UniqueScope
from mainspring.core.once_keys import once_keys_of
from mainspring.errors import InvalidInput

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def read(**fields: Any) -> JobSpec:
    return read_definition({"name": "sync", "function": "sync", **fields}, now=NOW)


def key_of(text: bytes | None, /, **fields: Any) -> bytes:
    keys = once_keys_of(read(**fields))
    assert keys is not None
    return keys.guard(text).key


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"unique": {}}, UniqueRule()),
        ({"unique": "$.order"}, UniqueRule(key="$.order")),
        (
            {"unique": {"key": "$.order", "scope": "queued"}},
            UniqueRule(key="$.order", scope=UniqueScope.QUEUED),
        ),
        ({"unique": {"period": "1h"}}, UniqueRule(scope=UniqueScope.PERIOD, period=HOUR)),
        (
            {"unique": {"scope": "queued", "on_conflict": "replace"}},
            UniqueRule(scope=UniqueScope.QUEUED, on_conflict=OnConflict.REPLACE),
        ),
        ({"debounce": {"wait": 5}}, DebounceRule(wait=timedelta(seconds=5))),
        (
            {"debounce": {"key": "all", "wait": "5s", "max_wait": "5s"}},
            DebounceRule(key="all", wait=timedelta(seconds=5), max_wait=timedelta(seconds=5)),
        ),
        ({"throttle": {"limit": 1, "per": "1h"}}, ThrottleRule(limit=1, per=HOUR)),
    ],
)
def test_rule_is_read_and_kept(fields: dict[str, Any], rule: object) -> None:
    spec = read(**fields)
    (name,) = fields
    assert getattr(spec, name) == rule
    plain = plain_from_spec(spec)
    assert spec_from_plain(plain) == spec == spec_from_plain(plain)
    assert edit_definition(spec, {name: None}, now=NOW) == read()


def test_definition_of_a_release_before_the_rules_is_read_once_for_all() -> None:
    plain = plain_from_spec(read(poison_limit=7))
    for name in ("unique", "debounce", "throttle"):
        del plain[name]
    assert options_from_plain(plain) is options_from_plain(dict(plain))
    assert spec_from_plain(plain) == read(poison_limit=7)


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"unique": {"key": "$.a["}}, "unique.key", "is no path from character 4 on"),
        ({"unique": {"key": 5}}, "unique.key", "must be text or a path like $.customer, not a number"),
        ({"unique": {"keys": "$.a"}}, "unique.keys", "did you mean 'key'"),
        ({"unique": True}, "unique", "must be an object of key, scope, period, on_conflict"),
        ({"unique": {"scope": "period"}}, "unique.period", "is missing"),
        (
            {"unique": {"scope": "live", "period": "1h"}},
            "unique.period",
            "goes with scope 'period', not 'live'",
        ),
        ({"unique": {"period": "31d"}}, "unique.period", "must be between 1s and 30d"),
        ({"unique": {"on_conflict": "replace"}}, "unique.on_conflict", "no running run is changed"),
        ({"debounce": {}}, "debounce.wait", "is missing"),
        ({"debounce": {"wait": 0.01}}, "debounce.wait", "must be between 100ms and 1h"),
        ({"debounce": {"wait": 5, "max_wait": 4}}, "debounce.max_wait", "must be at least wait, 5s"),
        ({"throttle": {"per": "1h"}}, "throttle.limit", "is missing"),
        ({"throttle": {"limit": 5}}, "throttle.per", "is missing"),
        ({"throttle": {"limit": 0, "per": "1h"}}, "throttle.limit", "0 is not between 1 and 100000"),
        ({"unique": {}, "debounce": {"wait": 5}}, "debounce", "does not go with 'unique'"),
        ({"unique": {}, "throttle": {"limit": 1, "per": 60}}, "throttle", "does not go with 'unique'"),
        ({"debounce": {"wait": 5}, "every": 60}, "debounce", "does not go with a trigger"),
        ({"unique": "$.order", "every": 60}, "payload.order", "is missing; unique.key needs it"),
        (
            {"throttle": {"key": "$.a", "limit": 1, "per": 60}, "cron": "* * * * *", "payload": {"a": []}},
            "payload.a",
            "must be text, a number, true or false, not a list; throttle.key needs it",
        ),
    ],
)
def test_wrong_rule_is_refused(fields: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(**fields)
    assert raised.value.field == field
    assert message in raised.value.message


def test_job_with_a_trigger_and_a_payload_that_has_the_key_is_accepted() -> None:
    assert read(unique="$.order", every=60, payload={"order": 1}).unique == UniqueRule(key="$.order")


def test_edit_merges_and_is_checked_against_the_rest() -> None:
    spec = read(unique={"key": "$.order", "period": "1h"})
    edited = edit_definition(spec, {"unique": {"scope": "queued"}}, now=NOW)
    assert edited.unique == UniqueRule(key="$.order", scope=UniqueScope.QUEUED)
    for patch, field in (
        ({"debounce": {"wait": 1}}, "debounce"),
        ({"every": 60}, "payload.order"),
        ({"unique": {"scope": "live", "on_conflict": "replace"}}, "unique.on_conflict"),
    ):
        with pytest.raises(InvalidInput) as raised:
            edit_definition(spec, patch, now=NOW)
        assert raised.value.field == field


def test_key_of_the_payload_does_not_depend_on_its_order() -> None:
    assert key_of(b'{"a":1,"b":2}', unique={}) == key_of(b'{"b": 2, "a": 1}', unique={})
    assert key_of(b'{"a":1}', unique={}) != key_of(b'{"a":2}', unique={})
    assert key_of(None, unique={}) != key_of(b"null", unique={})
    assert key_of(None, unique={}, payload=[1]) == key_of(b"[1]", unique={})


def test_keys_of_other_rules_and_paths_are_others() -> None:
    payload = b'{"a": 1, "b": 1}'
    rules: list[dict[str, Any]] = [
        {"unique": "$.a"},
        {"unique": "$.b"},
        {"unique": {"key": "$.a", "scope": "queued"}},
        {"debounce": {"key": "$.a", "wait": 5}},
        {"throttle": {"key": "$.a", "limit": 1, "per": 60}},
        {"throttle": {"limit": 1, "per": 60}},
    ]
    assert len({key_of(payload, **rule) for rule in rules}) == len(rules)
    assert len(key_of(payload, **rules[0])) == 16
    more = {"throttle": {"key": "$.a", "limit": 9, "per": 90}}
    assert key_of(payload, **more) == key_of(payload, **rules[4])


def test_rule_without_a_key_is_for_all_submissions() -> None:
    rule = {"limit": 1, "per": 60}
    assert key_of(b"1", throttle=rule) == key_of(b"2", throttle=rule) == key_of(None, throttle=rule)


def test_missing_part_is_told_by_its_path() -> None:
    with pytest.raises(InvalidInput, match=r"^payload\.customer: is missing; unique\.key needs it$"):
        key_of(b'{"order": 1}', unique="$.customer")


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        ("unique.key", {"unique": "order"}),
        ("debounce.key", {"debounce": {"key": "order", "wait": 5}}),
        ("throttle.key", {"throttle": {"key": "order", "limit": 1, "per": 60}}),
        ("batch.key", {"batch": {"size": 2, "key": "order"}}),
        ("concurrency[1].key", {"concurrency": [{"limit": 1}, {"key": "order", "limit": 1}]}),
    ],
)
def test_text_that_names_a_part_of_the_jobs_payload_is_refused(field: str, rule: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"write '\$\.order'") as raised:
        read(payload={"order": 1}, **rule)
    assert raised.value.field == field
    spec = read(payload={"number": 1}, **rule)
    with pytest.raises(InvalidInput, match=r"write '\$\.order'"):
        edit_definition(spec, {"payload": {"order": 1}}, now=NOW)


def test_job_without_a_rule_has_no_keys() -> None:
    assert once_keys_of(read()) is None
