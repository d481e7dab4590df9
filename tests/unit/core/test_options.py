"""A job's options are described once, and everything else agrees with the description."""

from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_type_hints

import click
import msgspec
import pytest

from mainspring.cli.main import cli
from mainspring.core.definition import plain_from_spec, read_definition, spec_from_plain
from mainspring.core.definition.options import NAME, OPTIONS
from mainspring.core.definition.plain import make_identify
from mainspring.core.definition.read import known_fields
from mainspring.core.definition.schema import body_schemas, view_schemas
from mainspring.core.kinds import Flag, Kind, Schema, Text, Words
from mainspring.core.model import JobSpec, Target
from mainspring.core.options import REQUIRED, Option, Options
from mainspring.core.targets import TARGETS
from mainspring.core.triggers import TRIGGERS
from mainspring.core.triggers.reading import COMMON
from mainspring.core.values import value
from mainspring.sdk.definitions import AllJobOptions
from mainspring.wire.views import JobView

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SPEC = read_definition({"name": "x", "function": "f"}, now=NOW)
SOURCE = Path(__file__).parents[3] / "src"


def test_the_options_are_the_attributes_of_a_spec_and_have_its_defaults() -> None:
    defaults = {field.name: field.default for field in fields(JobSpec)}
    assert {option.name: option.default for option in OPTIONS} == {
        name: defaults[name] for name in defaults if name not in {"name", "target", "trigger"}
    }


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_an_example_is_read_stored_and_loaded(option: object) -> None:
    found = OPTIONS.get(option.name)  # type: ignore[attr-defined]
    if found.example is not None:
        value = found.read(found.example, found.name)
        assert found.load(found.store(value)) == value


@pytest.mark.parametrize("types", [TRIGGERS, TARGETS], ids=["triggers", "targets"])
def test_examples_of_types_are_read(types: object) -> None:
    for one in types:  # type: ignore[attr-defined]
        for option in one.options:
            if option.example is not None:
                option.read(option.example, option.name)
            else:
                assert option.default is not REQUIRED


def test_the_sdk_takes_every_option_and_the_short_form_of_every_trigger() -> None:
    own = {option.name for option in (*OPTIONS, *COMMON)}
    wanted = own | set(TRIGGERS.by_field) | {"trigger", "rate"}
    wanted |= {"isolation", "retries", "retry_on", "no_retry_on"}
    assert set(get_type_hints(AllJobOptions)) == wanted


def test_the_command_line_takes_every_option() -> None:
    group = cli.get_command(click.Context(cli), "job")
    assert isinstance(group, click.Group)
    command = group.commands["add"]
    flags = {parameter.name: parameter for parameter in command.params}
    own = {option.name for option in (*OPTIONS, *COMMON)}
    wanted = own | set(TRIGGERS.by_field) | set(TARGETS.by_field)
    short = {"retries", "retry_on", "no_retry_on", "rate"}
    assert wanted | {"trigger", "target"} | short <= flags.keys()
    assert flags["poison_limit"].opts == ["--poison-limit"]
    assert flags["labels"].opts == ["--label"]


def test_bodies_and_views_describe_every_field() -> None:
    assert body_schemas().keys() == {
        form for form in known_fields() if form not in OPTIONS.by_form or form in {o.name for o in OPTIONS}
    }
    assert body_schemas().keys() >= {NAME.name, "target", "trigger"}
    shown = plain_from_spec(SPEC)
    assert list(view_schemas()) == [field for field in shown if field != "name"]
    assert {field.name for field in msgspec.structs.fields(JobView)} >= shown.keys()


def test_an_answer_of_the_oldest_release_is_read_and_the_rest_has_its_default() -> None:
    """Its fields stand here for good: an option that is added later must not be one of those that must be there."""
    head = {
        "job_id": "job_01ky8r4w4te7zsh3z3qydmr3kc",
        "name": "daily",
        "version": 1,
        "is_paused": False,
        "next_fire_time": None,
        "next_fire_times": [],
        "created_at": "2026-01-05T12:00:00Z",
        "updated_at": "2026-01-05T12:00:00Z",
    }
    usual = plain_from_spec(JobSpec(name="daily", target=Target("function", {"function": "daily"})))
    sent = (
        *(
            "target",
            "trigger",
            "payload",
            "priority",
            "queue",
            "labels",
            "retry",
            "misfire",
            "overlap",
            "delivery",
        ),
        *(
            "timeout_seconds",
            "soft_timeout_seconds",
            "jitter_seconds",
            "expires_after_seconds",
            "poison_limit",
        ),
    )
    answer = msgspec.json.encode(head | {field: usual[field] for field in sent})
    read = msgspec.json.decode(answer, type=JobView)
    assert {field: getattr(read, field) for field in usual} == usual
    read.concurrency.append({"limit": 1})
    assert msgspec.json.decode(answer, type=JobView).concurrency == []


def test_a_schema_tells_bounds_defaults_and_words() -> None:
    schema = body_schemas()["poison_limit"]
    assert (schema["minimum"], schema["maximum"], schema["default"]) == (1, 100, 3)
    assert schema["description"] == OPTIONS.get("poison_limit").summary
    forms = body_schemas()["target"]["anyOf"]
    assert [form["properties"]["type"]["const"] for form in forms] == list(TARGETS.by_name)


def test_what_was_kept_before_an_option_existed_has_its_default() -> None:
    plain = plain_from_spec(SPEC)
    del plain["poison_limit"]
    assert spec_from_plain(plain) == SPEC


def test_the_kept_forms_of_defaults_are_made_anew_for_each_definition() -> None:
    first, other = plain_from_spec(SPEC), plain_from_spec(SPEC)
    assert first == other
    for key, kept in first.items():
        assert kept is not other[key] or not isinstance(kept, dict | list)


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS if option.example is not None], ids=lambda option: option.name
)
def test_one_option_that_differs_is_kept_beside_the_defaults_of_all_others(option: Option) -> None:
    value = option.read(option.example, option.name)
    kept, usual = plain_from_spec(replace(SPEC, **{option.name: value})), plain_from_spec(SPEC)
    assert kept[option.key] == option.store(value)
    assert {key for key in kept if kept[key] != usual[key]} <= {option.key}


def test_definitions_of_the_release_before_are_loaded_unchanged() -> None:
    kept = {
        "name": "daily-report",
        "target": {"type": "http", "url": "https://a.example", "method": "POST", "headers": {"X-A": "b"}},
        "trigger": {"type": "interval", "every_seconds": 1.5, "anchor": "2026-01-05T12:00:00+00:00"},
        "payload": {"a": [1, None]},
        "priority": "HIGH",
        "queue": "q",
        "labels": ["eu", "gpu"],
        "retry": {
            "max_retries": 5,
            "backoff": "list",
            "delay_seconds": 5,
            "cap_seconds": 3600,
            "delays_seconds": [1, 2.5],
            "jitter": 0.2,
        },
        "misfire": {"policy": "skip", "grace_seconds": 60, "max_count": 1000, "max_age_seconds": 604800},
        "overlap": "skip",
        "delivery": "at_most_once",
        "timeout_seconds": 600,
        "soft_timeout_seconds": 540,
        "jitter_seconds": 0,
        "expires_after_seconds": None,
        "poison_limit": 2,
    }
    shown = plain_from_spec(spec_from_plain(kept))
    # In the same order; what is younger comes with its default.
    assert [(field, value) for field, value in shown.items() if field in kept] == list(kept.items())
    assert shown["retry"] is not kept["retry"]


def test_flags_of_the_command_line_need_no_value() -> None:
    assert [
        option.name for target in TARGETS for option in target.options if isinstance(option.kind, Flag)
    ] == ["shell"]


def test_no_other_source_file_names_an_option_in_words_of_its_own() -> None:
    """Three files at most: the attribute, the description, the argument."""
    allowed = {"core/model.py", "core/definition/options.py", "sdk/definitions.py"}
    named = {
        path.relative_to(SOURCE / "mainspring").as_posix()
        for path in (SOURCE / "mainspring").rglob("*.py")
        if "poison_limit" in path.read_text()
    }
    users = {
        name for name in named - allowed if not name.startswith(("engine/", "stores/", "testing/", "worker/"))
    }
    # The first carries it out, the second hands that of a workflow on to its steps.
    assert users <= {"core/outcomes.py", "core/workflows/step_jobs.py"}


@value()
class _Table(Kind):
    def stored_schema(self) -> Schema:
        return {"type": "object"}


@value()
class _Lists(Kind):
    def stored_schema(self) -> Schema:
        return {"type": "array", "items": {"type": "array"}}


@value()
class _Codes(Kind):
    def stored_schema(self) -> Schema:
        return {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize("kind", [Kind(), _Table(), _Lists()])
def test_an_option_whose_kept_form_cannot_be_compared_fast_is_refused_at_once(kind: Kind) -> None:
    with pytest.raises(AssertionError, match=r"^option 'new': its kept form must be "):
        make_identify(
            Options(Option(name="old", kind=Text(), summary=""), Option(name="new", kind=kind, summary=""))
        )


def test_a_list_that_may_be_null_is_refused_at_once() -> None:
    option = Option(name="new", kind=Words(3, "words"), summary="", is_nullable=True)
    with pytest.raises(AssertionError, match=r"^option 'new': a list must not be null; "):
        make_identify(Options(Option(name="old", kind=Text(), summary=""), option))


def test_lists_of_any_kind_are_told_apart() -> None:
    identify = make_identify(
        Options(Option(name="old", kind=Text(), summary=""), Option(name="new", kind=_Codes(), summary=""))
    )
    one, same, other = (identify({"old": "x", "new": codes}) for codes in ([1, 2], [1, 2], [2, 1]))
    assert hash(one) == hash(same)
    assert one == same != other
