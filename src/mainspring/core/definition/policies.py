"""Policies: options that are a group of options, merged by key when a job is edited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

from mainspring.core.calendars.spec import read_ref
from mainspring.core.fields import DAY, check_known, kind
from mainspring.core.kinds import Choice, Kind, Schema, Whole, Worded
from mainspring.core.model import NO_CALENDARS, JobCalendars, Misfire, MisfireRule, Roll
from mainspring.core.options import Option, Options
from mainspring.core.pacing import MOST_LIVE, CatchUpRule
from mainspring.core.rates import RateText
from mainspring.core.retry import RetryPolicy
from mainspring.core.times import Duration
from mainspring.core.values import value
from mainspring.errors import InvalidInput

P = TypeVar("P", RetryPolicy, MisfireRule, CatchUpRule, JobCalendars)

MOST_CALENDARS = 8
"""Names in each list of a job's calendars."""


@value()
class Group(Kind):
    """A policy: a value made of options.

    Attributes:
        value: the policy as it is where nothing is given.
        settle: makes the policy of the old one and what was read; refuses what does not go together. It is given the
            old policy, the checked changes, and what the user wrote.
        short: the option that text alone stands for.
    """

    value: Any
    options: Options
    settle: Callable[[Any, dict[str, Any], Mapping[str, Any]], Any] = lambda old, changes, _: replace(
        old, **changes
    )
    short: str | None = None
    opens_json: ClassVar[str] = "{"

    def read(self, value: object, path: str, old: Any) -> Any:
        """Read what is given of the policy; the rest stays as it was."""
        before = self.value if old is None else old
        if self.short is not None and isinstance(value, str):
            changes = {self.short: self.options.get(self.short).read(value, path)}
            return self.settle(before, changes, {self.short: value})
        if not isinstance(value, Mapping):
            raise InvalidInput(path, f"must be {self._right()}, not {_shown(value)}")
        given: Mapping[str, Any] = value
        check_known(given, self.options.by_form, prefix=f"{path}.")
        changes = self.options.read_given(given, lambda name: f"{path}.{name}")
        return self.settle(before, changes, given)

    def store(self, value: Any) -> dict[str, Any]:
        """Return an object of the options."""
        return {**_store(self.options, value)}

    def load(self, plain: Mapping[str, Any]) -> Any:
        """Return the policy."""
        return type(self.value)(**self.options.load(plain))

    def schema(self) -> Schema:
        """Return the schema of an object, or of text alone."""
        schema = self.options.schema()
        if self.short is None:
            return schema
        return {"anyOf": [self.options.get(self.short).kind.schema(), schema]}

    def stored_schema(self) -> Schema:
        """Return the schema of an object."""
        properties = {option.key: option.stored_schema() for option in self.options}
        required = [option.key for option in self.options if not option.kind.is_nested]
        return {"type": "object", "properties": properties, "required": required}

    def _right(self) -> str:
        whole = f"an object of {', '.join(option.name for option in self.options)}"
        if self.short is None:
            return whole
        words = self.options.get(self.short).kind
        return f"one of {', '.join(words.words())}, or {whole}" if isinstance(words, Worded) else whole

    def limits(self) -> str:
        """Say its form."""
        return "an object" if self.short is None else f"an object, or `{self.short}` alone"


def _shown(value: object) -> str:
    return "null; leave it out instead" if value is None else kind(value)


@lru_cache(maxsize=1024)
def _store(options: Options, value: Any) -> dict[str, Any]:
    """Return the kept form of a policy, without lists of objects that are empty; most jobs have one of few."""
    plain: dict[str, Any] = {}
    options.store_into(plain, value)
    empty = [option.key for option in options if option.kind.is_nested and not plain[option.key]]
    return {key: stored for key, stored in plain.items() if key not in empty}


def policy_options(default: P, *options: Option) -> Options:
    """Return options whose defaults are the attributes of a policy."""
    names = {each.name for each in fields(default)}
    assert names == {option.name for option in options}, "a policy's options are its attributes"
    return Options(*(replace(option, default=getattr(default, option.name)) for option in options))


MISFIRE = Group(
    MisfireRule(),
    policy_options(
        MisfireRule(),
        Option(
            name="policy",
            kind=Choice(Misfire),
            summary="What becomes of fires that were missed.",
            detail=(
                "`skip` records them; `fire_latest` makes one run, that of the newest; `fire_all` makes each."
            ),
        ),
        Option(
            name="grace",
            kind=Duration(
                timedelta(seconds=1),
                3650 * DAY,
                too_short="no fire is made sooner, and each would count as missed",
            ),
            summary="How late a fire may be and still count as on time.",
            detail="No fire is made exactly at its instant.",
        ),
        Option(
            name="max_count",
            kind=Whole(1, 100_000),
            summary="`fire_all`: how many of the newest missed fires are made up for after one outage.",
        ),
        Option(
            name="max_age",
            kind=Duration(high=3650 * DAY),
            summary="`fire_all`: how old a missed fire may be when the outage is over.",
        ),
    ),
    short="policy",
)

CATCH_UP = Group(
    CatchUpRule(),
    policy_options(
        CatchUpRule(),
        Option(
            name="rate",
            kind=RateText(),
            summary="How fast runs are made; the setting `catch_up.rate` by default.",
            detail="In any time, at most what it gives in that time and in one second more.",
            is_nullable=True,
            example="50/s",
        ),
        Option(
            name="max_live",
            kind=Whole(1, MOST_LIVE),
            summary="How many of them may wait or be under way at a time; `catch_up.max_live` by default.",
            is_nullable=True,
            example=200,
        ),
    ),
)


@value()
class CalendarRefs(Kind):
    """A set of calendars, each by its name or by name and version, kept sorted."""

    metavar: ClassVar[str] = "NAME"
    is_json: ClassVar[bool] = False
    is_list: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> tuple[str, ...]:
        """Read a list of calendars."""
        del old
        if not isinstance(value, list | tuple) or len(value) > MOST_CALENDARS:
            raise InvalidInput(path, f"must be a list of at most {MOST_CALENDARS} calendars")
        return tuple(sorted({str(read_ref(item, f"{path}[{n}]")) for n, item in enumerate(value)}))

    def store(self, value: tuple[str, ...]) -> list[str]:
        """Return a list."""
        return list(value)

    def load(self, plain: list[str]) -> tuple[str, ...]:
        """Return the references."""
        return tuple(plain)

    def schema(self) -> Schema:
        """Return a list's schema."""
        return {"type": "array", "maxItems": MOST_CALENDARS, "items": {"type": "string"}}

    def limits(self) -> str:
        """Say how many there may be."""
        return f"at most {MOST_CALENDARS}, each `NAME`, or `NAME@VERSION` for one version"


def _settle_calendars(old: JobCalendars, changes: dict[str, Any], given: Mapping[str, Any]) -> JobCalendars:
    del given
    calendars = replace(old, **changes)
    seen: set[str] = set()
    for ref in (*calendars.include, *calendars.exclude):
        name = ref.partition("@")[0]
        if name in seen:
            raise InvalidInput("calendars", f"names {name!r} twice; name each calendar once")
        seen.add(name)
    if calendars.roll is not None and not calendars:
        if "roll" in changes:
            raise InvalidInput("calendars.roll", "goes with include or exclude, and neither names a calendar")
        calendars = replace(calendars, roll=None)  # that of calendars that are no more
    return calendars


CALENDARS = Group(
    NO_CALENDARS,
    policy_options(
        NO_CALENDARS,
        Option(
            name="include",
            kind=CalendarRefs(),
            summary="A fire counts only if it is in one of these calendars.",
            detail="Empty is no condition. A name without a version means the newest one.",
            example=["office-hours"],
        ),
        Option(
            name="exclude",
            kind=CalendarRefs(),
            summary="A fire does not count if it is in one of these calendars.",
            example=["holidays-de"],
        ),
        Option(
            name="roll",
            kind=Choice(Roll),
            summary="Move a fire that does not count to another date, at its wall time.",
            detail=(
                "`next`: the nearest later date on which it counts; `previous`: the nearest earlier one. Null leaves "
                "it out. For jobs that fire at most 24 times a day."
            ),
            is_nullable=True,
            example="next",
        ),
    ),
    settle=_settle_calendars,
)
