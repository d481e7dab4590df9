"""Schedules in words."""

from __future__ import annotations

import pytest

from mainspring.core.cron import Cron

EVEN = "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29 and 31"
TABLE = {
    "* * * * *": "every minute",
    "* * * * * *": "every second",
    "*/5 * * * *": "every 5 minutes",
    "*/1 * * * *": "every minute",
    "*/10 * * * * *": "every 10 seconds",
    "*/7 * * * *": "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour",
    "5/10 * * * *": "every 10 minutes from minute 5",
    "@hourly": "at minute 0 of every hour",
    "@daily": "at 00:00, every day",
    "@weekly": "at 00:00, on Sunday",
    "@monthly": "at 00:00, on day 1 of the month",
    "@yearly": "at 00:00, on day 1 of the month, in January",
    "0 9 * * 1-5": "at 09:00, on Monday through Friday",
    "15 9,17 * * 6,7": "at 09:15 and 17:15, on Sunday and Saturday",
    "0 */2 * * *": "at minute 0, every 2 hours",
    "0 1-23/2 * * *": "at minute 0 of hours 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21 and 23",
    "30 */5 * * *": "at 00:30, 05:30, 10:30, 15:30 and 20:30, every day",
    "5 9-17 * * *": "at minute 5 of hours 9 through 17",
    "*/5 9-17 * * MON-FRI": "every 5 minutes, during hours 9 through 17, on Monday through Friday",
    "*/5 2 * * *": "every 5 minutes, during hour 2",
    "30 * * * * *": "at second 30 of every minute",
    "30 * 2 * * *": "at second 30 of every minute, during hour 2",
    "* * 2 * * *": "every second, during hour 2",
    "15 0 9 * * *": "at 09:00:15, every day",
    "0 0 9 * * *": "at 09:00, every day",
    "*/15 0 9 * * *": "at 09:00:00, 09:00:15, 09:00:30 and 09:00:45, every day",
    "0,30 0-5 * * * *": "every 30 seconds, during minutes 0 through 5",
    "* 5 0-3 * * *": "every second, during minute 5, during hours 0 through 3",
    "0 0 13 * 5": "at 00:00, on day 13 of the month or on Friday",
    "0 0 */2 * 1": f"at 00:00, on Monday, but only on days {EVEN} of the month",
    "0 0 13 * */3": "at 00:00, on Sunday, Wednesday and Saturday, but only on day 13 of the month",
    "0 0 1-31 * 5": "at 00:00, every day",
    "0 0 * 1-12 0-7": "at 00:00, every day",
    "0 0 L * *": "at 00:00, on the last day of the month",
    "0 0 1,L * ?": "at 00:00, on day 1 and the last day of the month",
    "0 0 LW * ?": "at 00:00, on the last weekday of the month",
    "0 0 L-1 * *": "at 00:00, on the day 1 day before the last of the month",
    "0 0 L-3 * *": "at 00:00, on the day 3 days before the last of the month",
    "0 0 15W 3,6-8 *": "at 00:00, on the weekday nearest to day 15 of the month, in March and June through August",
    "0 0 * * 5L": "at 00:00, on the last Friday of the month",
    "0 0 * * FRI#2,1": "at 00:00, on Monday and the second Friday of the month",
    "0 0 * 2 THU#5": "at 00:00, on the fifth Thursday of the month, in February",
}


@pytest.mark.parametrize(("text", "words"), TABLE.items())
def test_explain_says_when_it_fires(text: str, words: str) -> None:
    assert Cron(text).explain() == words


def test_explain_names_the_zone_unless_it_is_utc() -> None:
    assert Cron("0 9 * * *", "Europe/Berlin").explain() == "at 09:00, every day (Europe/Berlin)"
