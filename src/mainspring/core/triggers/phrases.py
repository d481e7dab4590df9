"""Schedules as people write them: `every 2 hours`, `every monday at 9:30`, `hourly`, or a cron expression.

Each becomes a trigger in short form, which says exactly what was understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import time
from typing import Any

from mainspring.core.cron.fields import DAY_NAMES, MONTH_NAMES
from mainspring.core.fields import show
from mainspring.core.triggers.moments import read_spoken_duration
from mainspring.errors import InvalidInput

LONGEST = 256
EXAMPLES = (
    "every 2 hours",
    "every 30 seconds",
    "every 15 minutes",
    "every hour at :15",
    "every day at 9:00",
    "every 2 days at 9:00",
    "every weekday at 9:00",
    "every monday at 9:30",
    "every monday and thursday at 18:00",
    "every 2 weeks on monday at 9:00",
    "every month on the 15th at 9:00",
    "every month on the last day at 9:00",
    "every 3 months on the 15th at 9:00",
    "every first monday of the month at 9:00",
    "every quarter",
    "every year on 15 march at 9:00",
    "hourly",
    "daily at 9:00",
    "weekly",
    "monthly",
    "yearly",
    "@daily",
    "10 minutes after the end",
    "@reboot",
    "0 9 * * MON-FRI",
)
_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_WORDS = (
    *(
        "every",
        "each",
        "other",
        "at",
        "on",
        "the",
        "of",
        "and",
        "in",
        "day",
        "last",
        "first",
        "second",
        "third",
    ),
    *("fourth", "minute", "minutes", "hour", "hours", "seconds", "days", "week", "weeks", "month", "months"),
    *("year", "years", "quarter", "weekday", "weekdays", "weekend", "noon", "midnight", "hourly", "daily"),
    *("weekly", "monthly", "yearly", "through", "to", "after", "end", "run", *_DAYS, *_MONTHS),
)
_GROUPS = {"weekday": "MON-FRI", "workday": "MON-FRI", "business day": "MON-FRI", "weekend": "SAT,SUN"}
_ALONE = {
    **dict.fromkeys(("hourly", "every hour"), "@hourly"),
    **dict.fromkeys(("weekly", "every week"), "@weekly"),
    **dict.fromkeys(("monthly", "every month"), "@monthly"),
    **dict.fromkeys(("yearly", "annually", "every year"), "@yearly"),
    **dict.fromkeys(("daily", "every day"), "@daily"),
    **dict.fromkeys(("quarterly", "every quarter"), "0 0 1 */3 *"),
    **dict.fromkeys(("midnight", "at midnight"), "@midnight"),
    **dict.fromkeys(("noon", "at noon"), "0 12 * * *"),
}
_ADVERBS = {
    "hourly": "hour",
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
    "quarterly": "quarter",
    "yearly": "year",
    "annually": "year",
}
_ADVERB = re.compile(rf"^({'|'.join(_ADVERBS)})\b")
_STARTS = frozenset(
    {"@reboot", "@startup", "at start", "at each start", "at startup", "on start", "on startup"}
)
_AFTER_END = re.compile(
    r"(?P<delay>.+) after (?:(?:the |its )?end(?: of (?:the |its )?(?:run before|(?:last|previous) run))?"
    r"|(?:the |its )?(?:last|previous) (?:run|one)(?: (?:ends|ended))?)",
    re.IGNORECASE,
)
_NTH = r"(?P<nth>first|1st|second|2nd|third|3rd|fourth|4th|last)"
_NTHS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "last": 0}
_NTH_NAMES = ("last", "first", "second", "third", "fourth")
_CRON = re.compile(r"[0-9*~][0-9*~,/-]*|H(?:[(/].*)?|@.*")
_PROSE = re.compile(r"(?<!@)\b[a-z]{4,}\b", re.ASCII)
_ZONE = re.compile(r"\s+(?:in\s+)?(?P<zone>UTC|[A-Z][A-Za-z_]+/[A-Za-z0-9_+/-]+)$")
_TIME = re.compile(r"(\d{1,2})(?::(\d{2})(?::(\d{2}))?)?\s*([ap])?\.?(?:m\.?)?", re.ASCII)
_PAST = re.compile(r"(?::|minutes? |minute )?(\d{1,2})(?: minutes?)?(?: past)?", re.ASCII)
_DATE = re.compile(
    r"(?:the )?(\d{1,2})(?:st|nd|rd|th)?(?: of)? ([a-z]+)|([a-z]+) (\d{1,2})(?:st|nd|rd|th)?", re.ASCII
)

Short = dict[str, Any]
"""A trigger in short form."""


def understand(text: object, path: str) -> Short:
    """Return the trigger that a text stands for, in short form.

    Raises:
        InvalidInput: it cannot be read; what may be meant is in the error.
    """
    if not isinstance(text, str):
        raise InvalidInput(path, "must be text like 'every 2 hours' or '0 9 * * *'")
    if len(text) > LONGEST:
        raise InvalidInput(path, f"must have at most {LONGEST} characters, not {len(text)}")
    found = _read(" ".join(text.split()))
    if found is None:
        raise InvalidInput(path, f"{text[:60]!r} cannot be read; {_suggest(text)}")
    return found


def _read(text: str) -> Short | None:
    """Return the short form of a text whose blanks are single; None if it cannot be read."""
    words = text.split()
    if not words:
        return None
    if text.lower() in _STARTS:
        return {"trigger": {"type": "at_start"}}
    ended = _AFTER_END.fullmatch(text.rstrip("."))
    if ended is not None:
        delay = read_spoken_duration(ended["delay"])
        return {"after_end": show(delay)} if delay else None
    if words[0].lower() == "@every":
        return _read(f"every {text[len(words[0]) :]}".replace("  ", " "))
    if _CRON.fullmatch(words[0]) and not _PROSE.search(text):
        is_instant = re.match(r"[0-9]{4}-", text) is not None
        return {"run_at": text} if is_instant else {"cron": text}
    if words[0].lower() == "in" or re.match(r"[0-9]{4}-[0-9]{2}-", text):
        return {"run_at": text}
    zone = _ZONE.search(text)
    if zone is not None:
        inner = _read(text[: zone.start()])
        return None if inner is None else _in_zone(inner, zone["zone"])
    return _read_phrase(text.lower().rstrip(".").replace(",", " , "))


def _in_zone(short: Short, zone: str) -> Short | None:
    if "any_of" in short:
        return {"any_of": [{**part, "tz": zone} for part in short["any_of"]]}
    return {**short, "tz": zone} if "cron" in short or "calendar_interval" in short else None


def _read_phrase(text: str) -> Short | None:
    text = re.sub(r"^each\b", "every", " ".join(text.split()))
    if text in _ALONE:
        return {"cron": _ALONE[text]}
    head, _, tail = text.partition(" at ")
    head = re.sub(r"^(on every|every|on) ", "", head)
    head = _ADVERB.sub(lambda found: _ADVERBS[found[0]], head)
    if not tail and text.startswith("every "):
        duration = read_spoken_duration(head if head[:1].isdigit() else f"1 {head}")
        if duration is not None and not re.search(r"\b(d|w|days?|weeks?)\b", re.sub(r"\d", " ", head)):
            return {"every": show(duration)} if duration else None
    past = _read_past(head, tail)
    if past is not None:
        return past
    times = _read_times(tail) if tail else [time(0)]
    make = _read_days(head)
    if not times or make is None:
        return None
    made = [make(one) for one in times]
    if len(made) == 1:
        return made[0]
    same = all("cron" in one for one in made) and len({(one.minute, one.second) for one in times}) == 1
    if same:
        hours = ",".join(str(one.hour) for one in sorted(times))
        place = 2 if times[0].second else 1
        fields = made[0]["cron"].split(" ")
        return {"cron": " ".join([*fields[:place], hours, *fields[place + 1 :]])}
    return {"any_of": made}


def _read_past(head: str, tail: str) -> Short | None:
    """Return `hour at :15`, `2 hours at minute 15`."""
    found = re.fullmatch(r"(?:(\d{1,2}) )?hours?", head)
    past = _PAST.fullmatch(tail)
    if found is None or past is None or int(past[1]) > 59:
        return None
    count = int(found[1] or 1)
    if not 1 <= count <= 23:
        return None
    return {"cron": f"{int(past[1])} {'*' if count == 1 else f'*/{count}'} * * *"}


def _read_times(text: str) -> list[time]:
    """Return the times of day of a list; an empty list if one of them is none."""
    times = []
    for word in re.split(r"\s*(?:,|\band\b)\s*", text):
        if word in {"noon", "midnight"}:
            times.append(time(12 if word == "noon" else 0))
            continue
        found = _TIME.fullmatch(word)
        if found is None:
            return []
        hour, minute, second = (int(part or 0) for part in found.groups()[:3])
        if found[4]:
            if not 1 <= hour <= 12:
                return []
            hour = hour % 12 + (12 if found[4] == "p" else 0)
        if hour > 23 or minute > 59 or second > 59:
            return []
        times.append(time(hour, minute, second))
    return times


Make = Callable[[time], Short]


def _cron(days: str) -> Make:
    def make(at: time) -> Short:
        second = f"{at.second} " if at.second else ""
        return {"cron": f"{second}{at.minute} {at.hour} {days}"}

    return make


def _interval(every: str, **days: Any) -> Make:
    return lambda at: {
        "calendar_interval": every,
        **days,
        "at": at.isoformat() if at.second else at.isoformat("minutes"),
    }


def _read_days(head: str) -> Make | None:
    """Return what makes a trigger of a time, for the days that a text names; None if it names none."""
    if head in {"day", "1 day"}:
        return _cron("* * *")
    head = head.replace("other ", "2 ", 1) if head.startswith("other ") else head
    group = _GROUPS.get(head.removesuffix("s"))
    if group is not None:
        return _cron(f"* * {group}")
    if found := re.fullmatch(r"(\d{1,4}) days?", head):
        return _interval(f"{int(found[1])} days")
    if names := _read_weekdays(head):
        return _cron(f"* * {names}")
    if found := re.fullmatch(r"2 ([a-z]+day)s?", head):
        names = _read_weekdays(found[1])
        return _interval("2 weeks", weekday=names) if names else None
    if found := re.fullmatch(r"(?:(\d{1,3}) )?weeks?(?: on (?:the )?(.+))?", head):
        return _read_week(int(found[1] or 1), found[2])
    return _read_month(head) or _read_year(head)


def _read_week(count: int, days: str | None) -> Make | None:
    if days is None:
        return _cron("* * 0") if count == 1 else None  # of several, people must say on which day
    names = _GROUPS.get(days.removesuffix("s")) or _read_weekdays(days)
    if not names:
        return None
    if count == 1:
        return _cron(f"* * {names}")
    return None if "-" in names else _interval(f"{count} weeks", weekday=names)


def _read_weekdays(text: str) -> str | None:
    """Return `MON,THU` or `MON-FRI` for names of weekdays; None if a word is none."""
    if found := re.fullmatch(r"([a-z]+)(?: ?- ?| to | through )([a-z]+)", text):
        first, last = _weekday(found[1]), _weekday(found[2])
        if first is None or last is None:
            return None
        start, end = (DAY_NAMES.index(one) for one in (first, last))
        days = [(start + step) % 7 for step in range((end - start) % 7 + 1)]
        is_plain = days == sorted(days) and len(days) > 1
        return f"{first}-{last}" if is_plain else ",".join(DAY_NAMES[day] for day in days)
    names = [_weekday(word) for word in re.split(r"\s*(?:,|\band\b)\s*", text)]
    return None if None in names or not names else ",".join(name for name in names if name)


def _weekday(word: str) -> str | None:
    word = word.removesuffix("s") if len(word) > 4 else word
    for name, short in zip(_DAYS, DAY_NAMES, strict=True):
        if word == name or (len(word) >= 3 and name.startswith(word) and len(word) <= 5):
            return short
    return None


def _read_month(head: str) -> Make | None:
    """Return `month on the 15th`, `3 months on the last friday`, `15th of the month`, `first monday of the month`."""
    if head in {"quarter", "month"}:
        return _cron("1 * *" if head == "month" else "1 */3 *")
    if found := re.fullmatch(r"(?:(\d{1,3}) )?(months?|quarters?)(?: on (?:the )?(.+))?", head):
        count = int(found[1] or 1) * (3 if found[2].startswith("quarter") else 1)
        return _on_day(count, found[3] or "1")
    if found := re.fullmatch(r"(?:the )?(.+?) of (?:the|every|each|a) month", head):
        return _on_day(1, found[1])
    return None


def _on_day(count: int, text: str) -> Make | None:
    """Return every so many months, on the day that a text names."""
    every = f"{count} month{'s' if count > 1 else ''}"
    if text in {"last day", "last"}:
        return _cron("L * *") if count == 1 else _interval(every, day="last")
    if found := re.fullmatch(r"(?:day )?(\d{1,2})(?:st|nd|rd|th)?", text):
        day = int(found[1])
        if not 1 <= day <= 31:
            return None
        # In a shorter month, cron would leave day 31 out.
        return _cron(f"{day} * *") if count == 1 and day <= 28 else _interval(every, day=day)
    found = re.fullmatch(rf"{_NTH} ([a-z]+)", text)
    if found is None:
        return None
    nth, weekday = _NTHS[found["nth"]], _weekday(found[2])
    if found[2] == "day" and nth:
        return _cron(f"{nth} * *") if count == 1 else _interval(every, day=nth)
    if weekday is None:
        return None
    if count == 1:
        return _cron(f"* * {weekday}#{nth}" if nth else f"* * {weekday}#L")
    return _interval(every, weekday=f"{_NTH_NAMES[nth]} {weekday}")


def _read_year(head: str) -> Make | None:
    """Return `year on 15 march`, `2 years on march 15`, `15th of march`, `march 15`."""
    found = re.fullmatch(r"(?:(?:(\d{1,2}) )?years? on )?(.+)", head)
    written = _DATE.fullmatch(found[2]) if found is not None else None
    if found is None or written is None:
        return None if head != "year" else _cron("1 1 *")
    name, day = (written[2], written[1]) if written[1] else (written[3], written[4])
    month = next((n for n, full in enumerate(_MONTHS, 1) if len(name) > 2 and full.startswith(name)), None)
    if month is None or not 1 <= int(day) <= (29 if month == 2 else 31):
        return None
    count = int(found[1] or 1)
    if count == 1 and (month, int(day)) != (2, 29):
        return _cron(f"{int(day)} {MONTH_NAMES[month - 1]} *")
    every = f"{count} year{'s' if count > 1 else ''}"
    return _interval(every, month=MONTH_NAMES[month - 1], day=int(day))


def _suggest(text: str) -> str:
    """Say what may be meant: the text with words that exist, or else the nearest examples."""
    from difflib import get_close_matches  # costs a start of 2 ms, and only a refusal needs it

    plain = " ".join(text.lower().split())[:100]
    if found := re.fullmatch(r"every (?:second|2nd) ([a-z]+day)( at .+)?", plain):
        at = found[2] or ""
        return f"write 'every other {found[1]}{at}' or 'every second {found[1]} of the month{at}'"
    if found := re.fullmatch(r"every (\d+ weeks)( at .+)?", plain):
        return f"say on which day, like 'every {found[1]} on monday{found[2] or ''}'"
    words = plain.split()
    mended = [
        word
        if not word.isalpha() or word in _WORDS
        else (get_close_matches(word, _WORDS, n=1, cutoff=0.7) or [word])[0]
        for word in words
    ]
    candidates = [" ".join(mended), f"every {' '.join(mended)}"]
    for candidate in candidates:
        if candidate != plain and _read(candidate) is not None:
            return f"did you mean {candidate!r}?"
    near = get_close_matches(" ".join(mended), EXAMPLES, n=3, cutoff=0.45) or [
        EXAMPLES[0],
        EXAMPLES[7],
        EXAMPLES[-1],
    ]
    return f"write it like {' or '.join(map(repr, near))}"
