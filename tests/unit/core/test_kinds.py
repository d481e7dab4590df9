"""One family of kinds: what a file, a variable, an option and a body give is read, shown and refused alike."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.cli.definition import read_definition_options
from mainspring.config.table import SETTINGS
from mainspring.core.definition.options import OPTIONS
from mainspring.core.fields import read_duration, show
from mainspring.core.kinds import Flag, Kind, OneOf, Share, Text, Whole
from mainspring.core.times import Duration
from mainspring.errors import InvalidInput

MOST = timedelta(days=3650)
SECRET = "postgresql://me:hunter2@db/x\n"


def refusal(kind: Kind, value: object) -> str:
    with pytest.raises(InvalidInput) as refused:
        kind.read(value, "field", None)
    assert refused.value.field == "field"
    return refused.value.message


@pytest.mark.parametrize("options", [OPTIONS, SETTINGS.values()], ids=["options", "settings"])
def test_a_default_is_shown_as_it_may_be_written_and_kept_as_it_is(options: Any) -> None:
    for option in options:
        kind, default = option.kind, option.default
        if default is None or option.name in {"retry", "misfire"}:  # groups are read into what they change
            continue
        assert kind.read(kind.show(default), option.name, None) == default
        assert kind.load(kind.store(default)) == default
        assert kind.limits()


@given(st.timedeltas(timedelta(0), MOST))
def test_a_duration_is_shown_without_loss(duration: timedelta) -> None:
    assert read_duration(show(duration), "field", high=MOST) == duration


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (0.1, "100ms"),
        (0.0015, "1.5ms"),
        (1.4, "1.4s"),
        (59.999999, "59.999999s"),
        (60, "1m"),
        (90.5, "1m30.5s"),
        (5400, "1h30m"),
        (86_401, "1d1s"),
        (-1, "a negative time"),
    ],
)
def test_a_duration_is_shown_in_its_largest_units(seconds: float, shown: str) -> None:
    assert show(timedelta(seconds=seconds)) == shown


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Whole(0, 9), " 7 ", 7),
        (Whole(0, 9), "7\x1f", 7),
        (Flag(), "Yes", True),
        (Flag(), "off", False),
        (Share(), "0.5", 0.5),
        (Duration(), "90", timedelta(seconds=90)),
        (Duration(), "1e2", timedelta(seconds=100)),
        (Duration(), ".5", timedelta(milliseconds=500)),
        (Duration(), "1h30m ", timedelta(minutes=90)),
        (OneOf(("json", "text")), "json", "json"),
        (OneOf(("GET", "PUT"), in_any_case=True), "put", "PUT"),
    ],
)
def test_text_of_an_option_or_variable_is_read(kind: Kind, text: str, value: object) -> None:
    assert kind.read(kind.from_text(text, "field"), "field", None) == value


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (Whole(0, 9), "x", "'x' is not a whole number from 0 to 9"),
        (Whole(0, 9), "1.5", "'1.5' is not a whole number from 0 to 9"),
        (Flag(), "perhaps", "must be 1 or 0, true or false, not 'perhaps'"),
    ],
)
def test_text_of_another_form_is_refused(kind: Kind, text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=f"^field: {words}$"):
        kind.from_text(text, "field")


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (Whole(0, 9), "7", "must be a whole number from 0 to 9, not text"),
        (Whole(0, 9), 7.5, "must be a whole number from 0 to 9, not 7.5"),
        (Whole(0, 9), 10, "10 is not between 0 and 9"),
        (Whole(0, 9), 10**400, "that is not between 0 and 9"),
        (Flag(), "true", "must be true or false without quotes, not text"),
        (Text(), 7, "must be text in quotes, not a number"),
        (Duration(), float("inf"), "inf is not a number of seconds, nor text like '90s', '5m', '1h30m'"),
        (Duration(), "nan", "nan is not a number of seconds, nor text like '90s', '5m', '1h30m'"),
        (Duration(), 10**400, "must be between 0s and 30d"),
        (Duration(), "soon", "must be seconds or text like '90s', '5m', '1h30m', not 'soon'"),
        (OneOf(("GET", "PUT"), in_any_case=True), "post", "must be one of GET, PUT, not 'post'"),
        (OneOf(("GET", "PUT")), ["GET"], "must be one of GET, PUT, not a list"),
    ],
)
def test_what_is_wrong_is_told_with_what_would_be_right(kind: Kind, value: object, words: str) -> None:
    assert refusal(kind, value) == words


@pytest.mark.parametrize("kind", [Text(), SETTINGS["store"].kind, SETTINGS["server"].kind])
def test_text_that_may_hold_a_password_is_not_repeated(kind: Kind) -> None:
    assert refusal(kind, SECRET) == "holds characters that cannot be printed"


def test_the_command_line_reads_a_jobs_fields_by_their_kinds() -> None:
    given = {"timeout": "90", "jitter": "1.5", "soft_timeout": "1m", "poison_limit": "5", "queue": "7"}
    assert read_definition_options(given) == {
        "timeout": 90,
        "jitter": 1.5,
        "soft_timeout": "1m",
        "poison_limit": 5,
        "queue": "7",
    }
    with pytest.raises(InvalidInput, match=r"^poison_limit: 'x' is not a whole number from 1 to 100$"):
        read_definition_options({"poison_limit": "x"})
