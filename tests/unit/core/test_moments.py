"""Instants as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.definition import read_definition
from mainspring.core.triggers import Once
from mainspring.core.triggers.moments import read_spoken_duration, read_when
from mainspring.errors import InvalidInput

NOW = datetime(2026, 1, 20, 12, tzinfo=UTC)
NINE = datetime(2026, 12, 1, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("in 10m", NOW + timedelta(minutes=10)),
        ("In 2 hours", NOW + timedelta(hours=2)),
        ("in 1 hour 30 minutes", NOW + timedelta(minutes=90)),
        ("in an hour and 5 min", NOW + timedelta(minutes=65)),
        ("in 2 weeks", NOW + timedelta(weeks=2)),
        ("2026-12-01T09:00:00+01:00", NINE),
        ("2026-12-01T08:00:00Z", NINE),
        (NINE, NINE),
        (NINE.timestamp(), NINE),
        (int(NINE.timestamp()), NINE),
        (str(int(NINE.timestamp())), NINE),
        (f"@{int(NINE.timestamp())}", NINE),
        (f"{int(NINE.timestamp())}.25", NINE + timedelta(milliseconds=250)),
        ("2026-12-01 09:00 Europe/Berlin", NINE),
        ("2026-12-01 9:00:00 Europe/Berlin", NINE),
        ("2026-12-01T09:00[Europe/Berlin]", NINE),
        ("2026-12-01 08:00 UTC", NINE),
    ],
)
def test_every_form_is_read(written: object, wanted: datetime) -> None:
    moment = read_when(written, "run_at", now=NOW)
    assert (moment.at, moment.note) == (wanted, None)


def test_a_time_that_clocks_skip_is_the_end_of_the_gap_and_that_is_said() -> None:
    moment = read_when("2026-03-29 02:30 Europe/Berlin", "run_at", now=NOW)
    assert moment.at == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert moment.note == (
        "2026-03-29 02:30 does not exist in Europe/Berlin, where clocks go ahead; 03:00 is meant"
    )


def test_a_time_that_comes_twice_is_the_first_and_that_is_said() -> None:
    moment = read_when("2026-10-25 02:30 Europe/Berlin", "run_at", now=NOW)
    assert moment.at == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert moment.note == (
        "2026-10-25 02:30 comes twice in Europe/Berlin, where clocks go back; the first is meant, at 00:30 UTC"
    )
    assert read_when("2026-10-25 03:00 Europe/Berlin", "run_at", now=NOW).note is None


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("in a while", "like 'in 10m'"),
        ("in 0s", "like 'in 10m'"),
        ("in 20000 days", "up to ten years"),
        ("tomorrow", "2026-12-01 09:00 Europe/Berlin"),
        ("2026-12-01 09:00", "has no offset"),
        ("2026-12-01 09:00 Mars/Base", "not a time zone"),
        ("2026-13-01 09:00 Europe/Berlin", "no date and time"),
        ("2026-12-01 25:00 Europe/Berlin", "no date and time"),
        ("2011-12-30 09:00 Pacific/Apia", "does not exist"),
        (1796112000000, "divide it by 1000"),
        (-1, "out of range"),
        (5, "write it like 'in 10m'"),
        (float("nan"), "out of range"),
        (10**400, "out of range"),
        (True, "must be an instant"),
        (None, "must be an instant"),
        (["in 10m"], "must be an instant"),
        ("9" * 500, "not an instant"),
    ],
)
def test_others_are_refused(written: object, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_when(written, "run_at", now=NOW)
    assert refused.value.field == "run_at"
    assert said in refused.value.message


@settings(max_examples=40)
@given(st.one_of(st.text(max_size=40), st.floats(), st.integers()))
def test_anything_is_read_or_refused(written: object) -> None:
    found: object
    try:
        found = read_when(written, "run_at", now=NOW).at.utcoffset()
    except InvalidInput as error:
        found = error.field
    assert found in {timedelta(0), "run_at"}


@settings(max_examples=40)
@given(
    st.lists(
        st.sampled_from(["1h", "30 minutes", "2 days", "a week", "1.5 hours", "x", "3"]),
        min_size=1,
        max_size=4,
    )
)
def test_spoken_durations_add_up(parts: list[str]) -> None:
    single = [read_spoken_duration(part) for part in parts]
    whole = read_spoken_duration(" ".join(parts))
    known = [one for one in single if one is not None]
    assert whole == (sum(known, timedelta(0)) if len(known) == len(single) else None)


def test_a_job_runs_once_in_so_long_from_its_request() -> None:
    spec = read_definition({"name": "a", "function": "f", "run_at": "in 10m"}, now=NOW)
    assert spec.trigger == Once(NOW + timedelta(minutes=10))
