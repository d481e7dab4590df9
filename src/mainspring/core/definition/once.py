"""The options of what runs once: unique, debounce and throttle. A job has none of them unless it says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any, ClassVar

from mainspring.core.definition.policies import Group
from mainspring.core.fields import DAY, kind, one_of, show
from mainspring.core.keypath import LONGEST_KEY, read_key
from mainspring.core.kinds import Choice, Kind, Schema, Whole
from mainspring.core.model import JobSpec
from mainspring.core.once import (
    DebounceRule,
    OnConflict,
    ThrottleRule,
    UniqueRule,
    UniqueScope,
)
from mainspring.core.once_keys import once_keys_of
from mainspring.core.options import REQUIRED, Option, Options
from mainspring.core.times import Duration
from mainspring.core.values import value
from mainspring.errors import InvalidInput

_RULES = ("unique", "debounce", "throttle")
_MISSING = "is missing"


@value()
class KeyText(Kind):
    """A key: text, or a path into the payload."""

    metavar: ClassVar[str] = "KEY"
    is_json: ClassVar[bool] = False

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a key; a path is checked, not evaluated."""
        del old
        if not isinstance(value, str):
            raise InvalidInput(path, f"must be text or a path like $.customer, not {kind(value)}")
        try:
            return read_key(value).text
        except ValueError as error:
            raise InvalidInput(path, str(error)) from None

    def schema(self) -> Schema:
        """Return a string's schema."""
        return {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY}

    def limits(self) -> str:
        """Say its form."""
        return f"text without `$`, or a path like `$.a.b[0]` of at most 8 steps; at most {LONGEST_KEY} characters"


@value(kw_only=True)
class OnceGroup(Group):
    """A rule that a job has or has not.

    Attributes:
        made: the class of the rule.
    """

    made: type[Any]

    def load(self, plain: Mapping[str, Any]) -> Any:
        """Return the rule."""
        return self.made(**self.options.load(plain))


def make_rule_kind(
    name: str,
    made: type[Any],
    check: Callable[[Any, Mapping[str, Any]], Any],
    *options: Option,
    short: str | None = "key",
) -> OnceGroup:
    """Return the kind of a rule that a job has or has not.

    Args:
        short: the option that text alone stands for.
        check: refuses what does not go together, or returns the rule. It is given what the user wrote, too.
    """
    assert {each.name for each in fields(made)} == {option.name for option in options}
    required = [option.name for option in options if option.default is REQUIRED]

    def settle(old: Any, changes: dict[str, Any], given: Mapping[str, Any]) -> Any:
        if old is not None:
            return check(replace(old, **changes), given)
        for option in required:
            if option not in changes:
                raise InvalidInput(f"{name}.{option}", _MISSING)
        return check(made(**changes), given)

    return OnceGroup(None, Options(*options), settle=settle, short=short, made=made)


def _check_unique(rule: UniqueRule, given: Mapping[str, Any]) -> UniqueRule:
    form = one_of(given, "period", "period_seconds")
    if rule.period is not None and "scope" not in given and form is not None:
        rule = replace(rule, scope=UniqueScope.PERIOD)  # what else could it be meant for?
    if rule.scope is UniqueScope.PERIOD:
        if rule.period is None:
            raise InvalidInput("unique.period", "is missing; scope 'period' needs it")
    elif rule.period is not None:
        if form is not None:
            raise InvalidInput(f"unique.{form}", f"goes with scope 'period', not {rule.scope.value!r}")
        rule = replace(rule, period=None)  # that of a scope that is no more
    if rule.on_conflict is OnConflict.REPLACE and rule.scope is UniqueScope.LIVE:
        field = "on_conflict" if "on_conflict" in given or "scope" not in given else "scope"
        message = (
            "on_conflict 'replace' goes with scope 'queued' or 'period', because no running run is changed"
        )
        raise InvalidInput(f"unique.{field}", message)
    return rule


def _check_debounce(rule: DebounceRule, given: Mapping[str, Any]) -> DebounceRule:
    if rule.max_wait is not None and rule.max_wait < rule.wait:
        form = one_of(given, "max_wait", "max_wait_seconds")
        if form is None:
            raise InvalidInput("debounce.wait", f"must be at most max_wait, {show(rule.max_wait)}")
        raise InvalidInput(f"debounce.{form}", f"must be at least wait, {show(rule.wait)}")
    return rule


def check_once(spec: JobSpec, body: Mapping[str, Any]) -> None:
    """Refuse rules that do not go together, or not with the trigger.

    Args:
        body: what the user wrote.

    Raises:
        InvalidInput: the field is one that the user wrote.
    """
    rules = [name for name in _RULES if getattr(spec, name) is not None]
    if not rules:
        return
    if len(rules) > 1:
        late = next((name for name in reversed(rules) if body.get(name) is not None), rules[-1])
        (other, *_) = (name for name in rules if name != late)
        raise InvalidInput(late, f"does not go with {other!r}; give one of {', '.join(_RULES)}")
    if spec.trigger is None:
        return
    if spec.debounce is not None:
        message = "does not go with a trigger; a fire comes once, with nothing to wait for"
        raise InvalidInput("debounce", message)
    keys = once_keys_of(spec)
    assert keys is not None, "there is a rule"
    keys.guard(None)


def _key_option(summary: str, detail: str = "") -> Option:
    return Option(
        name="key",
        kind=KeyText(),
        summary=summary,
        detail=detail,
        default=None,
        is_nullable=True,
        example="$.order",
    )


UNIQUE = make_rule_kind(
    "unique",
    UniqueRule,
    _check_unique,
    _key_option("Runs with the same key are the same thing.", "Null is the whole payload."),
    Option(
        name="scope",
        kind=Choice(UniqueScope),
        summary="How long a run keeps others with its key out.",
        detail="`queued`: until it starts; `live`: until it ends; `period`: for the time of `period`.",
        default=UniqueScope.LIVE,
    ),
    Option(
        name="period",
        kind=Duration(timedelta(seconds=1), 30 * DAY),
        summary="For the scope `period`: how long, from the submission.",
        detail="Given without `scope`, it means `period`.",
        default=None,
        is_nullable=True,
    ),
    Option(
        name="on_conflict",
        kind=Choice(OnConflict),
        summary="What a submission gets whose key is held.",
        detail=(
            "`existing`: the run that holds it; `reject`: status 409; `replace`: the run that holds it, which gets "
            "the new payload if it has not started."
        ),
        default=OnConflict.EXISTING,
    ),
)
DEBOUNCE = make_rule_kind(
    "debounce",
    DebounceRule,
    _check_debounce,
    _key_option("Submissions with the same key become one run.", "Null is all submissions of the job."),
    Option(
        name="wait",
        kind=Duration(timedelta(milliseconds=100), timedelta(hours=1)),
        summary="Start when no other submission has come for so long.",
        example="5s",
    ),
    Option(
        name="max_wait",
        kind=Duration(timedelta(milliseconds=100), DAY),
        summary="Start so long after the first submission at the latest.",
        detail="Null is ten times `wait`.",
        default=None,
        is_nullable=True,
    ),
)
THROTTLE = make_rule_kind(
    "throttle",
    ThrottleRule,
    lambda rule, _: rule,
    _key_option("Each key has a limit of its own.", "Null is all submissions of the job."),
    Option(
        name="limit",
        kind=Whole(1, 100_000),
        summary="How many runs there may be at once in that time.",
        example=1,
    ),
    Option(
        name="per",
        kind=Duration(timedelta(seconds=1), 30 * DAY),
        summary="The time in which the whole limit comes back, evenly.",
        example="1h",
    ),
)
