"""`schedule`: what people write, and the trigger that it stands for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.definition import edit_definition, read_definition
from mainspring.core.triggers import AnyOf, CalendarInterval, Once, store_trigger
from mainspring.core.triggers.phrases import EXAMPLES, understand
from mainspring.core.triggers.reading import read_trigger
from mainspring.errors import InvalidInput

NOW = datetime(2026, 1, 20, 12, tzinfo=UTC)
_SOME_WORDS = ("every", "2", "day", "on", "at", "9", "the", "15th", "week", ",", "and", "last", "UTC")


def read(text: object, **fields: Any) -> Any:
    return read_trigger({"schedule": text, **fields}, base=None, old=None, now=NOW)


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("every 2 hours", {"every": "2h"}),
        ("Every  90 seconds", {"every": "1m30s"}),
        ("every 1h30m", {"every": "1h30m"}),
        ("every minute", {"every": "1m"}),
        ("@every 5m", {"every": "5m"}),
        ("hourly", {"cron": "@hourly"}),
        ("each hour", {"cron": "@hourly"}),
        ("hourly at :30", {"cron": "30 * * * *"}),
        ("every 2 hours at minute 15", {"cron": "15 */2 * * *"}),
        ("@daily", {"cron": "@daily"}),
        ("daily at 9", {"cron": "0 9 * * *"}),
        ("every day at 9:30 pm", {"cron": "30 21 * * *"}),
        ("every day at 12am", {"cron": "0 0 * * *"}),
        ("every day at 9:00:30", {"cron": "30 0 9 * * *"}),
        ("every day at 9, 13:00 and 17:00", {"cron": "0 9,13,17 * * *"}),
        ("weekdays at 9 and 17:30", {"any_of": [{"cron": "0 9 * * MON-FRI"}, {"cron": "30 17 * * MON-FRI"}]}),
        ("every day at 9:00 in Europe/Berlin", {"cron": "0 9 * * *", "tz": "Europe/Berlin"}),
        ("every 2 days at 9:00 UTC", {"calendar_interval": "2 days", "at": "09:00", "tz": "UTC"}),
        ("every other day", {"calendar_interval": "2 days", "at": "00:00"}),
        ("every monday at 9:30", {"cron": "30 9 * * MON"}),
        ("mondays, tuesdays and thu at noon", {"cron": "0 12 * * MON,TUE,THU"}),
        ("friday to monday at 8", {"cron": "0 8 * * FRI,SAT,SUN,MON"}),
        ("weekly on friday at 9", {"cron": "0 9 * * FRI"}),
        (
            "every 2 weeks on monday and friday",
            {"calendar_interval": "2 weeks", "weekday": "MON,FRI", "at": "00:00"},
        ),
        ("every other tuesday at 7:15", {"calendar_interval": "2 weeks", "weekday": "TUE", "at": "07:15"}),
        ("every month on the 15th at 9:00", {"cron": "0 9 15 * *"}),
        ("every month on the 31st", {"calendar_interval": "1 month", "day": 31, "at": "00:00"}),
        ("the last day of the month at 23:59", {"cron": "59 23 L * *"}),
        ("first monday of every month at 9:00", {"cron": "0 9 * * MON#1"}),
        ("every 3 months on the 15th", {"calendar_interval": "3 months", "day": 15, "at": "00:00"}),
        ("every 2 months on the last day", {"calendar_interval": "2 months", "day": "last", "at": "00:00"}),
        (
            "every 3 months on the last friday at 9",
            {"calendar_interval": "3 months", "weekday": "last FRI", "at": "09:00"},
        ),
        ("every quarter", {"cron": "0 0 1 */3 *"}),
        ("every year on march 15th at 9:00", {"cron": "0 9 15 MAR *"}),
        ("every 29 february", {"calendar_interval": "1 year", "month": "FEB", "day": 29, "at": "00:00"}),
        ("0 9 * * MON-FRI", {"cron": "0 9 * * MON-FRI"}),
        ("*/10 * * * * *", {"cron": "*/10 * * * * *"}),
        ("H H * * *", {"cron": "H H * * *"}),
        ("in 10 minutes", {"run_at": "in 10 minutes"}),
        ("2026-12-01 09:00 Europe/Berlin", {"run_at": "2026-12-01 09:00 Europe/Berlin"}),
    ],
)
def test_it_is_understood(text: str, short: dict[str, Any]) -> None:
    assert understand(text, "schedule") == short
    assert read(text) == read_trigger(short, base=None, old=None, now=NOW)


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_that_a_refusal_may_show_is_read(text: str) -> None:
    assert read(text) is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("evry mondey at 9:30", "did you mean 'every monday at 9:30'?"),
        ("every tusday", "did you mean 'every tuesday'?"),
        ("every thrid friday of the month", "did you mean 'every third friday of the month'?"),
        ("2 hours", "did you mean 'every 2 hours'?"),
        ("every 2 weeks", "say on which day, like 'every 2 weeks on monday'"),
        ("every second monday at 9", "'every other monday at 9' or 'every second monday of the month at 9'"),
        ("every day at 25:00", "'every day at 9:00'"),
        ("every 0 minutes", "write it like"),
        ("every month on the 32nd", "write it like"),
        ("whenever", "write it like"),
        ("", "write it like"),
        ("* * * *", "has 4 fields"),
        ("0 25 * * *", "25 is not between 0 and 23"),
        ("0 9 * * @reboot", "'@reboot'"),
        ("2020-01-01 09:00 Europe/Berlin", "has passed"),
        ("x" * 300, "at most 256 characters"),
        (7, "must be text"),
    ],
)
def test_what_it_cannot_read_is_refused_with_what_may_be_meant(text: object, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(text)
    assert refused.value.field == "schedule"
    assert said in refused.value.message


@settings(max_examples=40)
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(st.sampled_from(_SOME_WORDS)).map(" ".join),
    )
)
def test_any_text_is_read_or_refused(text: str) -> None:
    field: str | None = None
    found = None
    try:
        found = read(text)
    except InvalidInput as error:
        field = error.field
    assert field == (None if found is not None else "schedule")


def test_the_zone_beside_a_schedule_goes_where_wall_times_are() -> None:
    both = read("weekdays at 9:00 and 17:30", tz="Europe/Berlin", dst="skip/first")
    assert isinstance(both, AnyOf)
    assert [(part["tz"], part["dst"]) for part in store_trigger(both)["triggers"]] == [  # type: ignore[index]
        ("Europe/Berlin", "skip/first")
    ] * 2
    assert isinstance(read("every 2 days at 9:00", tz="Europe/Berlin"), CalendarInterval)
    assert read("every 2 hours", tz="Europe/Berlin") == read("every 2 hours")
    with pytest.raises(InvalidInput, match=r"^tz: the schedule names Europe/Berlin already"):
        read("every day at 9:00 Europe/Berlin", tz="UTC")
    with pytest.raises(InvalidInput, match=r"^tz: .*IANA"):
        read("every day at 9:00", tz="Mars/Base")


def test_a_job_takes_a_schedule_and_keeps_the_trigger() -> None:
    spec = read_definition({"name": "a", "function": "f", "schedule": "in 90 minutes"}, now=NOW)
    assert spec.trigger == Once(datetime(2026, 1, 20, 13, 30, tzinfo=UTC))
    edited = edit_definition(spec, {"schedule": "every monday at 9", "run_at": None}, now=NOW)
    assert store_trigger(edited.trigger) == {
        "type": "cron",
        "expression": "0 9 * * MON",
        "tz": "UTC",
        "dst": "vixie",
    }
    assert edit_definition(edited, {"schedule": None}, now=NOW).trigger is None
    with pytest.raises(InvalidInput, match="says the same"):
        read_definition({"name": "a", "function": "f", "schedule": "hourly", "cron": "0 * * * *"}, now=NOW)
