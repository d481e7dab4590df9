"""The class as users hold it."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from mainspring.core.cron import Cron, CronError

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_cron_shows_what_it_was_made_of() -> None:
    cron = Cron("0 9 * * 1-5", tz="Europe/Berlin", dst="skip/both")
    assert (cron.expression, cron.tz, cron.dst) == ("0 9 * * 1-5", "Europe/Berlin", "skip/both")
    assert repr(cron) == "Cron('0 9 * * 1-5', tz='Europe/Berlin', dst='skip/both')"
    assert eval(repr(cron)) == cron


def test_cron_is_utc_and_vixie_by_default() -> None:
    assert Cron("@daily") == Cron("@daily", "UTC", "vixie")


def test_cron_equals_by_expression_zone_and_dst() -> None:
    cron = Cron("0 0 * * *")
    assert cron == Cron("0 0 * * *")
    assert hash(cron) == hash(Cron("0 0 * * *"))
    others = [Cron("@daily"), Cron("0 0 * * *", "Etc/UTC"), Cron("0 0 * * *", dst="after/first"), "0 0 * * *"]
    assert all(cron != other for other in others)


def test_cron_does_not_change() -> None:
    cron = Cron("@daily")
    with pytest.raises(AttributeError, match="does not change"):
        cron.tz = "Europe/Berlin"
    with pytest.raises(AttributeError, match="does not change"):
        del cron.tz
    with pytest.raises(AttributeError):
        cron.note = "x"
    assert not hasattr(cron, "__dict__")


def test_cron_survives_pickle_and_copy() -> None:
    cron = Cron("0 9 * * 1-5", tz="Europe/Berlin")
    assert pickle.loads(pickle.dumps(cron)) == copy.deepcopy(cron) == cron


def test_cron_error_survives_pickle() -> None:
    error = pickle.loads(pickle.dumps(CronError("hour", "0 24 * * *", "wrong")))
    assert (error.field, error.expression, error.message, str(error)) == (
        "hour",
        "0 24 * * *",
        "wrong",
        "hour: wrong",
    )
    assert isinstance(error, ValueError)


def test_next_is_strictly_later_and_previous_strictly_earlier() -> None:
    cron = Cron("0 12 * * *")
    assert cron.next_after(NOON) == NOON + timedelta(days=1)
    assert cron.previous_before(NOON) == NOON - timedelta(days=1)


def test_parts_of_a_second_count() -> None:
    cron, tick = Cron("* * * * * *"), timedelta(microseconds=1)
    assert cron.next_after(NOON - tick) == NOON
    assert cron.next_after(NOON + tick) == NOON + timedelta(seconds=1)
    assert cron.next_after(NOON + timedelta(seconds=0.5)) == NOON + timedelta(seconds=1)
    assert cron.previous_before(NOON + tick) == NOON
    assert cron.previous_before(NOON - tick) == NOON - timedelta(seconds=1)


def test_answer_is_utc_whatever_the_zone_of_the_question() -> None:
    asked = NOON.astimezone(ZoneInfo("America/New_York"))
    found = Cron("30 14 * * *", "Europe/Berlin").next_after(asked)
    assert found == datetime(2026, 6, 1, 12, 30, tzinfo=UTC)
    assert found.tzinfo is UTC


def test_question_within_an_overlap_minds_its_fold() -> None:
    cron = Cron("*/30 * * * *", "America/New_York")
    wall = datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo("America/New_York"))
    assert cron.next_after(wall) == datetime(2026, 11, 1, 6, 0, tzinfo=UTC)
    assert cron.next_after(wall.replace(fold=1)) == datetime(2026, 11, 1, 7, 0, tzinfo=UTC)


class Nowhere(tzinfo):
    """A zone that knows no offset, which makes a datetime naive."""

    def utcoffset(self, dt: datetime | None) -> None:
        return None

    def dst(self, dt: datetime | None) -> None:
        return None

    def tzname(self, dt: datetime | None) -> None:
        return None


@pytest.mark.parametrize("naive", [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=Nowhere())])  # noqa: DTZ001
def test_naive_instants_are_refused(naive: datetime) -> None:
    cron = Cron("@daily")
    with pytest.raises(ValueError, match="naive"):
        cron.next_after(naive)
    with pytest.raises(ValueError, match="naive"):
        cron.previous_before(naive)
    with pytest.raises(ValueError, match="naive"):
        cron.fires_between(naive, NOON)
    with pytest.raises(ValueError, match="naive"):
        cron.fires_between(NOON, naive)


def test_epochs_are_the_same_fires() -> None:
    cron, seconds = Cron("*/7 3 * * *", "Asia/Tokyo"), int(NOON.timestamp())
    after, before = cron.next_after(NOON), cron.previous_before(NOON)
    assert after is not None
    assert before is not None
    assert cron.next_epoch(seconds) == after.timestamp()
    assert cron.previous_epoch(seconds) == before.timestamp()


def test_fires_between_holds_its_start_and_not_its_end() -> None:
    hours = [NOON + timedelta(hours=hour) for hour in range(3)]
    cron = Cron("@hourly")
    assert list(cron.fires_between(NOON, NOON + timedelta(hours=3))) == hours
    assert list(cron.fires_between(NOON, NOON)) == []
    assert list(cron.fires_between(NOON + timedelta(hours=1), NOON)) == []
    assert list(cron.fires_between(NOON - timedelta(microseconds=1), NOON + timedelta(microseconds=1))) == [
        NOON
    ]


ENDS = [
    datetime.max.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=14))),
]
STARTS = [
    datetime.min.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=-14))),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
]


@pytest.mark.parametrize("text", ["* * * * * *", "@yearly", "0 0 29 2 *", "30 2 * * *"])
@pytest.mark.parametrize("tz", ["UTC", "America/New_York", "Pacific/Apia"])
def test_ends_of_the_calendar_answer_none(text: str, tz: str) -> None:
    cron = Cron(text, tz)
    assert [cron.next_after(end) for end in ENDS] == [None] * 3
    assert [cron.previous_before(start) for start in STARTS] == [None] * 3
    assert cron.next_epoch(10**18) is None
    assert cron.previous_epoch(-(10**18)) is None
    last, first = cron.previous_before(ENDS[0]), cron.next_after(STARTS[0])
    assert last is not None
    assert first is not None
    assert last.year > 9980
    assert first.year < 20
    assert cron.next_after(last) is None
    assert cron.previous_before(first) is None


@pytest.mark.parametrize(
    "dst", ["after/first", "after/second", "after/both", "skip/first", "skip/second", "skip/both"]
)
def test_dst_takes_a_gap_and_an_overlap_rule(dst: str) -> None:
    assert Cron("@daily", dst=dst).dst == dst


@pytest.mark.parametrize(
    "dst", ["", "skip", "both", "Vixie", "after", "after/", "/first", "after/first/", "first/after", "x/y"]
)
def test_dst_refuses_everything_else(dst: str) -> None:
    with pytest.raises(CronError, match=r"'after/first'|after or skip") as caught:
        Cron("@daily", dst=dst)
    assert (caught.value.field, caught.value.expression) == ("dst", "@daily")
    assert repr(dst) in str(caught.value)


@pytest.mark.parametrize(
    "tz", ["Europe/Berlin", "Etc/GMT+1", "America/Argentina/Buenos_Aires", "GMT0", "America/Port-au-Prince"]
)
def test_tz_takes_names_of_zones(tz: str) -> None:
    assert Cron("@daily", tz).next_after(NOON) is not None


@pytest.mark.parametrize(
    "tz",
    [
        "", " ", ".", "..", "/", "Europe", "Europe/", "/Europe/Berlin", "Europe/Nowhere", "europe//berlin", "Mars/Base",
        "../../etc/passwd", "Europe/../../../etc/passwd", "/etc/passwd", "/usr/share/zoneinfo/UTC", "Europe/Berlin\0",
        "\0", "Europe/Berlin\n", "C:\\Windows", "..\\..\\x", "UTC+1", "+01:00", "tzdata.zi", "zone.tab", "leapseconds",
        "localtime", "posixrules", "right/Europe/Berlin", "posix/Europe/Berlin", "__init__", "x" * 100_000, "\ud800",
        "Zürich", "UTC ",
    ],
    ids=ascii,
)  # fmt: skip
def test_tz_refuses_everything_else(tz: str) -> None:
    with pytest.raises(CronError, match="Europe/Berlin") as caught:
        Cron("0 0 * * *", tz)
    assert (caught.value.field, caught.value.expression) == ("tz", "0 0 * * *")
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize("text", ["0 0 13 * 5", "0 0 1-7 * MON", "0 0 L * 1-5", "0 0 1 * 5L"])
def test_warning_when_both_day_fields_are_restricted(text: str) -> None:
    (warning,) = Cron(text).warnings
    assert "either one is enough" in warning


@pytest.mark.parametrize("text", ["0 0 */2 * 1", "0 0 13 * */3", "0 0 */7 * 1-5", "0 0 */2 * */2"])
def test_warning_when_a_stepped_star_meets_a_restricted_day(text: str) -> None:
    assert all("both must match" in warning for warning in Cron(text).warnings)
    assert Cron(text).warnings


@pytest.mark.parametrize(
    "text", ["0 0 * * *", "0 0 13 * *", "0 0 ? * 5", "0 0 */2 * *", "0 0 */2 * ?", "*/5 2 * * *", "@weekly"]
)
def test_no_warning_where_all_tools_agree(text: str) -> None:
    assert Cron(text).warnings == ()
