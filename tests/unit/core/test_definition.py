"""Properties of definitions: exact round trips, and nothing but `InvalidInput` for whatever is sent."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.cron import Cron
from mainspring.core.definition import edit_definition, plain_from_spec, read_definition, spec_from_plain
from mainspring.core.definition.read import known_fields
from mainspring.core.fields import encode_payload
from mainspring.core.model import Delivery, JobSpec, Misfire, MisfireRule, Overlap, Priority, Target
from mainspring.core.retry import Backoff, RetryPolicy
from mainspring.core.triggers import Interval, Once, Trigger
from mainspring.errors import InvalidInput
from mainspring.ports.codec import decode_spec, encode_spec
from mainspring.testing.factories import START

MICROSECOND = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)

printable = st.text(
    st.characters(categories=["L", "M", "N", "P", "S"]) | st.just(" "), min_size=1, max_size=200
)
names = printable.filter(lambda name: name.strip() != "")
words = st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True).filter(lambda word: word not in {".", ".."})
free_text = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda below: (
        st.lists(below, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), below, max_size=4)
    ),
    max_leaves=12,
)


def durations(low: timedelta, high: timedelta) -> st.SearchStrategy[timedelta]:
    return st.timedeltas(low, high) | st.integers(low // SECOND + 1, high // SECOND).map(lambda n: n * SECOND)


waits = durations(timedelta(0), 30 * DAY)
instants = st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds
triggers: st.SearchStrategy[Trigger | None] = st.one_of(
    st.none(),
    st.datetimes(datetime(2027, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)).map(Once),  # noqa: DTZ001
    st.builds(Interval, durations(SECOND, 3650 * DAY), instants),
    st.builds(
        Cron,
        st.sampled_from(["*/5 * * * *", "@daily", " 0 9  * * MON-FRI", "30 2 L * ?", "*/7 * * * * *"]),
        tz=st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Chatham"]),
        dst=st.sampled_from(["vixie", "skip/both", "after/second"]),
    ),
)
targets = st.one_of(
    st.builds(lambda name: Target("function", {"function": name}), printable.filter(lambda n: "+" not in n)),
    st.builds(
        lambda path, method, headers: Target(
            "http", {"url": f"https://example.org/{path}", "method": method, "headers": headers}
        ),
        words,
        st.sampled_from(["POST", "GET", "HEAD", "PUT"]),
        st.dictionaries(words.map(lambda word: f"X-{word}"[:40]), st.just("a value"), max_size=3),
    ),
    st.builds(
        lambda command, more: Target("shell", {"command": command, "shell": True, **more}),
        free_text,
        st.fixed_dictionaries(
            {},
            optional={
                "env": st.just({"A": "é\n"}),
                "cwd": st.just("~"),
                "user": st.just("www-data"),
                "stdin": free_text,
            },
        ),
    ),
    st.builds(
        lambda argv: Target("shell", {"command": argv, "shell": False}),
        st.lists(free_text, min_size=1, max_size=4),
    ),
)
no_list = [Backoff.FIXED, Backoff.LINEAR, Backoff.EXPONENTIAL]
shares = st.floats(0, 1)
retries = st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 1000),
    backoff=st.sampled_from(no_list),
    delay=waits,
    cap=waits,
    jitter=shares,
) | st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 1000),
    backoff=st.just(Backoff.LIST),
    delays=st.lists(waits, min_size=1, max_size=4).map(tuple),
)
specs = st.builds(
    JobSpec,
    name=names,
    target=targets,
    trigger=triggers,
    payload=st.none() | json_values.filter(lambda value: value is not None).map(encode_payload),
    priority=st.sampled_from(Priority),
    queue=words,
    labels=st.sets(words, max_size=4).map(lambda labels: tuple(sorted(labels))),
    retry=retries,
    misfire=st.builds(
        MisfireRule,
        policy=st.sampled_from(Misfire),
        grace=durations(timedelta(seconds=1), 30 * DAY),
        max_count=st.integers(1, 100_000),
        max_age=waits,
    ),
    overlap=st.sampled_from(Overlap),
    delivery=st.sampled_from(Delivery),
    timeout=durations(timedelta(hours=1), 30 * DAY),
    soft_timeout=st.none() | durations(timedelta(milliseconds=1), timedelta(minutes=59)),
    jitter=durations(timedelta(0), timedelta(hours=1)),
    expires_after=st.none() | durations(timedelta(milliseconds=1), 365 * DAY),
    poison_limit=st.integers(1, 100),
    preempts=st.none() | st.just(value=False),
)
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@given(specs)
def test_plain_form_and_back_is_the_same_spec(spec: JobSpec) -> None:
    plain = plain_from_spec(spec)
    text = json.dumps(plain, allow_nan=False)
    assert spec_from_plain(json.loads(text)) == spec
    assert decode_spec(encode_spec(spec)) == spec
    assert plain_from_spec(spec_from_plain(plain)) == plain


@given(specs)
def test_what_get_answers_can_be_posted_again(spec: JobSpec) -> None:
    assert read_definition(plain_from_spec(spec), now=NOW) == spec


@given(specs, specs)
def test_a_patch_with_a_whole_full_form_gives_that_form(old: JobSpec, new: JobSpec) -> None:
    assert edit_definition(old, plain_from_spec(new), now=NOW) == new


@given(specs)
def test_empty_patch_changes_nothing(spec: JobSpec) -> None:
    assert edit_definition(spec, {}, now=NOW) == spec


@given(specs.map(lambda spec: {"type": spec.target.type, **spec.target.params}))
def test_target_of_a_spec_survives_alone(target: dict[str, Any]) -> None:
    spec = read_definition({"name": "x", "target": target}, now=NOW)
    assert {"type": spec.target.type, **spec.target.params} == target


# -- whatever is sent -------------------------------------------------------------------------------------------------

wild_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(-400, 400).map(lambda power: 10 ** abs(power) * (1 if power > 0 else -1)),
        st.floats(),  # NaN and infinities too
        st.text(st.characters(), max_size=12),  # lone surrogates too
        st.sampled_from(
            [
                "* * * * *",
                "@daily",
                "90s",
                "2030-01-01T00:00:00Z",
                "0001-01-01T00:00:00+14:00",
                "Europe/Berlin",
                "list",
            ]
        ),
    ),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=8), below, max_size=3)
    ),
    max_leaves=6,
)
INNER = [
    *(
        "type",
        "expression",
        "tz",
        "dst",
        "every",
        "every_seconds",
        "anchor",
        "at",
        "url",
        "method",
        "headers",
        "function",
    ),
    *(
        "command",
        "shell",
        "env",
        "cwd",
        "user",
        "stdin",
        "max_retries",
        "backoff",
        "delay",
        "cap_seconds",
        "delays",
    ),
    *("delays_seconds", "jitter", "policy", "grace", "max_count", "max_age_seconds"),
]
TYPES = ["cron", "interval", "once", "http", "function", "shell"]
wild_objects = st.dictionaries(st.sampled_from(INNER), wild_values | st.sampled_from(TYPES), max_size=6)
wild_bodies = st.dictionaries(
    st.sampled_from(sorted(known_fields())) | st.text(st.characters(), max_size=8),
    wild_values | wild_objects,
    max_size=6,
)


def check(read: Callable[[], JobSpec]) -> None:
    refused = None
    try:
        spec = read()
    except InvalidInput as error:
        refused = error
    else:
        assert spec_from_plain(plain_from_spec(spec)) == spec
        encode_spec(spec)
    if refused is not None:
        assert refused.field
        assert refused.field.isprintable()
        assert refused.message
        str(refused).encode()


@given(wild_bodies, st.booleans())
def test_reading_anything_raises_invalid_input_or_gives_a_sound_spec(
    body: dict[str, Any], is_rescued: bool
) -> None:
    if is_rescued:  # so that what comes after the first checks is reached too
        body = {"name": "x", **body}
        if not body.keys() & {"target", "callback_url", "function", "command"}:
            body["function"] = "f"
    check(lambda: read_definition(body, now=NOW))


@given(specs, wild_bodies)
def test_patching_with_anything_raises_invalid_input_or_gives_a_sound_spec(
    spec: JobSpec, patch: dict[str, Any]
) -> None:
    check(lambda: edit_definition(spec, patch, now=NOW))


@given(specs, st.data())
def test_one_wrong_value_in_a_good_body_is_refused_or_read(spec: JobSpec, data: st.DataObject) -> None:
    body = plain_from_spec(spec)
    name = data.draw(st.sampled_from(sorted(body)))
    inside = body[name]
    if isinstance(inside, dict) and inside and name != "payload" and data.draw(st.booleans()):
        body[name] = {**inside, data.draw(st.sampled_from(sorted(inside))): data.draw(wild_values)}
    else:
        body[name] = data.draw(wild_values | wild_objects)
    check(lambda: read_definition(body, now=NOW))


@given(st.one_of(wild_values, st.lists(wild_values)).filter(lambda value: not isinstance(value, dict)))
def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    check(lambda: read_definition(body, now=START))
