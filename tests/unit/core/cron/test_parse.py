"""What rule V takes and what it refuses (reliability 5.4 and 5.5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.cron import Cron, CronError
from mainspring.core.cron.fields import MACROS
from mainspring.core.cron.parse import parse

# expression -> an expression that means the same
SAME = {
    "@yearly": "0 0 1 1 *",
    "@Annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    " @hourly\t": "0 * * * *",
    "\t5  4\t* * *  ": "5 4 * * *",
    "0 5 4 * * *": "5 4 * * *",
    "0005 04 * * *": "5 4 * * *",
    "0 0 * jan *": "0 0 * 1 *",
    "0 0 * Jan-MAR,dEc *": "0 0 * 1-3,12 *",
    "0 0 * APR-DEC/4 *": "0 0 * 4,8,12 *",
    "0 0 * * sun": "0 0 * * 0",
    "0 0 * * 7": "0 0 * * 0",
    "0 0 * * MON-SUN": "0 0 * * 1-7",
    "0 0 * * FRI-SUN": "0 0 * * 0,5,6",
    "0 0 * * Sat-7": "0 0 * * 6,7",
    "0 0 * * SUN-TUE": "0 0 * * 0-2",
    "0 0 * * 5-5": "0 0 * * 5",
    "7-7 0 * * *": "7 0 * * *",
    "50/3 0 * * *": "50-59/3 0 * * *",
    "0 20/2 * * *": "0 20,22 * * *",
    "0 0 * * 1/2": "0 0 * * 1,3,5,7",
    "0 0 * * 7/3": "0 0 * * 0",
    "0-59/60 0 * * *": "0 0 * * *",
    "1,1,1-2 0 * * *": "1,2 0 * * *",
    "0 0 l * *": "0 0 L * *",
    "0 0 lw * *": "0 0 LW * *",
    "0 0 l-3 * *": "0 0 L-3 * *",
    "0 0 15w * *": "0 0 15W * *",
    "0 0 * * 5#L": "0 0 * * 5L",
    "0 0 * * friL": "0 0 * * 5L",
    "0 0 * * FRI#l": "0 0 * * 5L",
    "0 0 * * 7L": "0 0 * * 0L",
    "0 0 * * Thu#2": "0 0 * * 4#2",
}

# expression -> (field, what the message must quote, what it must say is right)
REFUSED = {
    "": ("expression", "''", "five fields"),
    " \t ": ("expression", "' \\t '", "five fields"),
    "* * * *": ("expression", "4 fields", "five are minute hour"),
    "*": ("expression", "1 field;", "five are minute hour"),
    "0 0 0 1 1 * 2026": ("expression", "7 fields", "no year field"),
    "@reboot": ("expression", "'@reboot'", "schedule"),
    "@every 5m": ("expression", "'@every 5m'", "interval (every)"),
    "@fortnightly": ("expression", "'@fortnightly'", "@daily"),
    "@daily Europe/Berlin": ("expression", "'@daily Europe/Berlin'", "@daily"),
    "TZ=Europe/Berlin 0 0 * * *": ("expression", "'TZ=Europe/Berlin'", "give it as tz"),
    "cron_tz=UTC 0 0 * * *": ("expression", "'cron_tz=UTC'", "give it as tz"),
    "0\u00a00 * * *": ("expression", "'\\xa0'", "plain ASCII"),
    "\u0661 0 * * *": ("expression", "'\u0661'", "plain ASCII"),
    "\uff10 0 * * *": ("expression", "'\uff10'", "plain ASCII"),
    "0 0 * * \u017fun": ("expression", "'\u017f'", "plain ASCII"),
    "0 0 * * *\n": ("expression", "'\\n'", "plain ASCII"),
    "0\x1c0 * * *": ("expression", "'\\x1c'", "plain ASCII"),
    "0 0 * * \0": ("expression", "'\\x00'", "plain ASCII"),
    "0 0 * * \ud800": ("expression", "'\\ud800'", "plain ASCII"),
    "1," * 200 + "1 0 * * *": ("expression", "longer than 256", "256 characters"),
    "60 * * * *": ("minute", "'60'", "between 0 and 59"),
    "60 0 * * * *": ("second", "'60'", "between 0 and 59"),
    "-1 * * * *": ("minute", "'-1'", "number"),
    "0 24 * * *": ("hour", "'24'", "between 0 and 23"),
    "0 0 0 * *": ("day of month", "'0'", "between 1 and 31"),
    "0 0 32 * *": ("day of month", "'32'", "between 1 and 31"),
    "0 0 * 0 *": ("month", "'0'", "between 1 and 12"),
    "0 0 * 13 *": ("month", "'13'", "between 1 and 12"),
    "0 0 * * 8": ("day of week", "'8'", "between 0 and 7"),
    "*/0 * * * *": ("minute", "'*/0'", "1 to 60"),
    "*/61 * * * *": ("minute", "'*/61'", "1 to 60"),
    "0 */25 * * *": ("hour", "'*/25'", "1 to 24"),
    "0 0 */32 * *": ("day of month", "'*/32'", "1 to 31"),
    "0 0 * */13 *": ("month", "'*/13'", "1 to 12"),
    "0 0 * * */8": ("day of week", "'*/8'", "1 to 7"),
    "*/ * * * *": ("minute", "'*/'", "number"),
    "*/2/3 * * * *": ("minute", "'*/2/3'", "number"),
    "/5 * * * *": ("minute", "'/5'", "number"),
    "0 22-2 * * *": ("hour", "'22-2'", "22-23,0-2"),
    "0 0 * DEC-FEB *": ("month", "'DEC-FEB'", "12-12,1-2"),
    "0 0 * * FRI-MON": ("day of week", "'FRI-MON'", "5-7,0-1"),
    "0 0 * * 5-0": ("day of week", "'5-0'", "5-7,0-0"),
    "1-2-3 * * * *": ("minute", "'1-2-3'", "number"),
    "1- * * * *": ("minute", "'1-'", "number"),
    "*-5 * * * *": ("minute", "'*-5'", "number"),
    "** * * * *": ("minute", "'**'", "number"),
    "*5 * * * *": ("minute", "'*5'", "number"),
    "1;2 * * * *": ("minute", "'1;2'", "number"),
    "1.5 * * * *": ("minute", "'1.5'", "number"),
    "+1 * * * *": ("minute", "'+1'", "number"),
    "0x1 * * * *": ("minute", "'0x1'", "number"),
    "1_0 * * * *": ("minute", "'1_0'", "number"),
    "00001 * * * *": ("minute", "'00001'", "4 digits"),
    "100000000000000000000 * * * *": ("minute", "'100000000000000000000'", "4 digits"),
    "*/100000000000000000000 * * * *": ("minute", "'*/100000000000000000000'", "4 digits"),
    "1,,2 * * * *": ("minute", "'1,,2'", "one comma"),
    ",1 * * * *": ("minute", "',1'", "one comma"),
    "1, * * * *": ("minute", "'1,'", "one comma"),
    "? * * * *": ("minute", "'?'", "write *"),
    "0 0 * ? *": ("month", "'?'", "write *"),
    "0 0 ?,1 * *": ("day of month", "'?'", "number"),
    "0 0 ?/2 * *": ("day of month", "'?/2'", "number"),
    "MON * * * *": ("minute", "'MON'", "number"),
    "0 0 * MON *": ("month", "'MON'", "a name like JAN"),
    "0 0 * * JAN": ("day of week", "'JAN'", "a name like SUN"),
    "0 0 * JANUARY *": ("month", "'JANUARY'", "a name like JAN"),
    "h 0 * * *": ("minute", "'h'", "number"),
    "0 L * * *": ("hour", "'L'", "number"),
    "0 0 WL * *": ("day of month", "'WL'", "number"),
    "0 0 W * *": ("day of month", "'W'", "number"),
    "0 0 32W * *": ("day of month", "'32W'", "between 1 and 31"),
    "0 0 1-5W * *": ("day of month", "'1-5W'", "number"),
    "0 0 L-0 * *": ("day of month", "'L-0'", "1 to 30"),
    "0 0 L-31 * *": ("day of month", "'L-31'", "1 to 30"),
    "0 0 L-3W * *": ("day of month", "'L-3W'", "number"),
    "0 0 L/2 * *": ("day of month", "'L/2'", "number"),
    "0 0 * * L": ("day of week", "'L'", "5L"),
    "0 0 * * 5#0": ("day of week", "'5#0'", "1 to 5"),
    "0 0 * * 5#6": ("day of week", "'5#6'", "1 to 5"),
    "0 0 * * 8#1": ("day of week", "'8#1'", "between 0 and 7"),
    "0 0 * * #1": ("day of week", "'#1'", "number"),
    "0 0 * * 5#": ("day of week", "'5#'", "number"),
    "0 0 * * 1-5#2": ("day of week", "'1-5#2'", "number"),
    "0 0 * * 5W": ("day of week", "'5W'", "number"),
    "0 0 5#2 * *": ("day of month", "'5#2'", "number"),
    "0 0 31 2 *": ("day of month", "'0 0 31 2 *'", "never fires"),
    "0 0 30 2 *": ("day of month", "'0 0 30 2 *'", "never fires"),
    "0 0 31 4 *": ("day of month", "'0 0 31 4 *'", "never fires"),
    "0 0 31W 4,6,9,11 ?": ("day of month", "'0 0 31W 4,6,9,11 ?'", "never fires"),
    "0 0 L-30 2 *": ("day of month", "'0 0 L-30 2 *'", "never fires"),
    "0 0 */31 * MON#2": ("day of month", "'0 0 */31 * MON#2'", "never fires"),
}


def facts(text: str) -> list[int | None]:
    """What a schedule does, however it is written."""
    cron, at, found = Cron(text), 1_700_000_000, []
    for _ in range(50):
        at = cron.next_epoch(at) or 0
        found.append(at)
    return [*found, cron.next_epoch(1_900_000_000)]


@pytest.mark.parametrize(("text", "other"), SAME.items())
def test_parse_reads_both_alike(text: str, other: str) -> None:
    assert facts(text) == facts(other)


@pytest.mark.parametrize(("text", "expected"), REFUSED.items(), ids=lambda value: ascii(value)[:40])
def test_parse_refuses_and_says_what_is_right(text: str, expected: tuple[str, str, str]) -> None:
    field, quoted, right = expected
    with pytest.raises(CronError) as caught:
        Cron(text)
    error = caught.value
    assert (error.field, error.expression) == (field, text[:256])
    assert str(error) == f"{field}: {error.message}"
    assert quoted in str(error)
    assert right in str(error)


def test_parse_takes_text_of_greatest_length_and_no_longer() -> None:
    longest = " " * (256 - len("0 0 * * *")) + "0 0 * * *"
    assert parse(longest) == parse("0 0 * * *")
    with pytest.raises(CronError, match="longer than 256"):
        parse(" " + longest)


@pytest.mark.parametrize("macro", MACROS)
def test_macros_are_those_of_rule_v(macro: str) -> None:
    assert macro in {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
    assert parse(macro) == parse(MACROS[macro])


@pytest.mark.parametrize(
    ("text", "is_wild"),
    [
        ("*/30 2 * * *", True),
        ("0,30 0-3 * * *", False),
        ("0 * * * *", True),
        ("0 */2 * * *", True),
        ("*,5 2 * * *", True),
        ("5,* 2 * * *", False),
        ("0-59 2 * * *", False),
        ("* 0 2 * * *", True),
        ("0 0 2 * * *", False),
        ("0 2 * * *", False),
    ],
)
def test_schedule_is_wild_when_a_time_field_begins_with_a_star(text: str, is_wild: bool) -> None:
    assert parse(text).is_wild is is_wild


@given(st.text(max_size=40) | st.text("0123456789*/,-#LW?@ \tMONJA", max_size=40))
def test_parse_answers_or_refuses_whatever_comes(text: str) -> None:
    try:
        cron = Cron(text)
    except CronError as error:
        refused = error
    else:
        assert cron.next_epoch(0) is not None
        assert cron.explain()
        return
    assert refused.expression == text
    assert str(refused).isprintable()
