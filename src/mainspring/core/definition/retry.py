"""The option `retry`: after which waits a failed attempt is followed by another, and what follows certain causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

from mainspring.core.causes import CauseKind, pattern_of, read_pattern
from mainspring.core.definition.policies import Group, policy_options
from mainspring.core.fields import kind, one_of, show
from mainspring.core.kinds import Choice, Kind, Schema, Share, Whole
from mainspring.core.model import JobSpec
from mainspring.core.options import Option, Options
from mainspring.core.retry import Backoff, RetryPolicy, RetryRule, Then, apply_rule
from mainspring.core.targets import BUILT_IN
from mainspring.core.times import Duration, Durations
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MOST_RULES = 32
MOST_CAUSES = 32
"""Rules of a job, and causes of a rule."""
_OF_RETRY = ("max_retries", "backoff", "cap", "delays", "jitter")
_REPORTED_BY = {
    CauseKind.STATUS: "http",
    CauseKind.CONNECTION: "http",
    CauseKind.EXIT: "shell",
    CauseKind.SIGNAL: "shell",
    CauseKind.EXCEPTION: "function",
}
"""The type of target whose attempts fail of a cause."""


@value()
class Causes(Kind):
    """A list of causes; one alone may stand without a list."""

    metavar: ClassVar[str] = "CAUSE"
    is_json: ClassVar[bool] = False
    is_list: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> tuple[str, ...]:
        """Read causes."""
        del old
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, list | tuple) or not 1 <= len(given) <= MOST_CAUSES:
            found_instead = f"{len(given)} of them" if isinstance(given, list | tuple) else kind(value)
            message = f"must be a cause, or a list of 1 to {MOST_CAUSES}, not {found_instead}"
            raise InvalidInput(path, message)
        found: dict[str, None] = {}
        for place, text in enumerate(given):
            at = path if isinstance(value, str) else f"{path}[{place}]"
            if not isinstance(text, str):
                raise InvalidInput(at, f"must be text like 'status 503', not {kind(text)}")
            cleaned = " ".join(text.split())
            read_pattern(cleaned, at)
            found[cleaned] = None
        return tuple(found)

    def store(self, value: tuple[str, ...]) -> list[str]:
        """Return a list."""
        return list(value)

    def load(self, plain: list[str]) -> tuple[str, ...]:
        """Return the causes."""
        return tuple(plain)

    def schema(self) -> Schema:
        """Return the schema of one cause, or a list."""
        return {"anyOf": [{"type": "string"}, self.stored_schema()]}

    def stored_schema(self) -> Schema:
        """Return a list's schema."""
        return {"type": "array", "minItems": 1, "maxItems": MOST_CAUSES, "items": {"type": "string"}}

    def limits(self) -> str:
        """Say its forms."""
        return f"a [cause](#causes), or a list of 1 to {MOST_CAUSES}"


def _own(name: str, of_kind: Kind, summary: str, detail: str = "", default: Any = None) -> Option:
    return Option(name=name, kind=of_kind, summary=summary, detail=detail, default=default)


RULE = Options(
    Option(
        name="on",
        kind=Causes(),
        summary="The causes; one of them is enough.",
        example=["status 429", "status 5xx"],
    ),
    _own(
        "then",
        Choice(Then),
        "What follows.",
        "`retry`: another attempt. `fail`: none. `snooze`: another one, which does not count as a retry.",
        Then.RETRY,
    ),
    _own(
        "max_retries",
        Whole(0, 1000),
        "The same as that of `retry`, in its place. All retries of the run count.",
    ),
    _own("backoff", Choice(Backoff), "The same, for `then` `retry`."),
    _own(
        "delay", Duration(), "The same. For `then` `snooze`, where it is required: how long the snooze lasts."
    ),
    _own("cap", Duration(), "The same, for `then` `retry`."),
    _own("delays", Durations(100), "The same, for `then` `retry`.", default=()),
    _own("jitter", Share(), "The same, for `then` `retry`."),
    _own(
        "max_snoozes",
        Whole(1, 100_000),
        "For `then` `snooze`: fail the run when so many attempts did not count.",
        "Crashes and attempts that were handed back are among them.",
        100,
    ),
)


@value()
class RuleList(Kind):
    """A list of rules, of which the first one that fits decides."""

    is_nested: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> tuple[RetryRule, ...]:
        """Read rules. A patch replaces all of them."""
        del old
        if not isinstance(value, list | tuple) or len(value) > MOST_RULES:
            raise InvalidInput(path, f"must be a list of at most {MOST_RULES} rules, not {kind(value)}")
        rules = tuple(_read_rule(item, f"{path}[{place}]") for place, item in enumerate(value))
        _check_reachable(rules, path)
        return rules

    def store(self, value: tuple[RetryRule, ...]) -> list[dict[str, Any]]:
        """Return a list of objects, of what was given."""
        return [
            {
                option.key: option.store(getattr(rule, option.name))
                for option in RULE
                if getattr(rule, option.name) != option.default or option.name == "then"
            }
            for rule in value
        ]

    def load(self, plain: list[dict[str, Any]]) -> tuple[RetryRule, ...]:
        """Return the rules."""
        return tuple(RetryRule(**RULE.load(rule)) for rule in plain)

    def schema(self) -> Schema:
        """Return the schema of a list of objects."""
        return {"type": "array", "maxItems": MOST_RULES, "items": RULE.schema()}

    def stored_schema(self) -> Schema:
        """Return the schema of a list of objects."""
        properties = {option.key: option.stored_schema() for option in RULE}
        rule: Schema = {"type": "object", "properties": properties, "required": ["on", "then"]}
        return {"type": "array", "maxItems": MOST_RULES, "items": rule}

    def limits(self) -> str:
        """Say how many there may be."""
        return f"at most {MOST_RULES} objects, see below"


def _read_rule(value: object, path: str) -> RetryRule:
    if not isinstance(value, Mapping):
        names = ", ".join(option.name for option in RULE)
        raise InvalidInput(path, f"must be an object of {names}, not {kind(value)}")
    values = RULE.read_all(value, lambda name: f"{path}.{name}" if name else f"{path}.")
    rule = RetryRule(**values)
    for name in value:
        option = RULE.by_form[name].name
        if (option == "max_snoozes" and rule.then is not Then.SNOOZE) or (
            option in _OF_RETRY and rule.then is not Then.RETRY
        ):
            wanted = Then.SNOOZE if option == "max_snoozes" else Then.RETRY
            raise InvalidInput(f"{path}.{name}", f"goes with then '{wanted}', not '{rule.then}'")
        if option == "delay" and rule.then is Then.FAIL:
            raise InvalidInput(f"{path}.{name}", "goes with then 'retry' or 'snooze', not 'fail'")
    if rule.then is Then.SNOOZE and not rule.delay:
        raise InvalidInput(f"{path}.delay", "is missing or zero; a snooze must say how long it lasts")
    if rule.delays and rule.backoff is None:
        return replace(rule, backoff=Backoff.LIST)
    return rule


def _check_reachable(rules: Sequence[RetryRule], path: str) -> None:
    """Refuse a rule whose causes are all taken by earlier ones."""
    catch_all: int | None = None
    taken: dict[str, int] = {}
    for place, rule in enumerate(rules):
        for text in rule.on:
            is_crash = text == CauseKind.CRASH
            first = taken.get(text, None if is_crash else catch_all)
            if first is not None:
                whole = "comes first and takes all causes" if text not in taken else f"names {text!r} already"
                message = (
                    f"is never reached for {text!r}: {path}[{first}] {whole}; move it up, or leave it out"
                )
                raise InvalidInput(f"{path}[{place}].on", message)
        taken |= {text: place for text in rule.on if text not in taken}
        if catch_all is None and CauseKind.ANY in rule.on:
            catch_all = place


def _settle_retry(old: RetryPolicy, changes: dict[str, Any], given: Mapping[str, Any]) -> RetryPolicy:
    form = one_of(given, "delays", "delays_seconds")
    if changes.get("delays"):
        changes.setdefault("backoff", Backoff.LIST)  # what else could they be meant for?
    policy = replace(old, **changes)
    if policy.backoff is Backoff.LIST:
        if not policy.delays:
            message = "is missing; backoff 'list' needs at least one delay"
            raise InvalidInput(f"retry.{form or 'delays'}", message)
    elif changes.get("delays"):
        message = f"goes with backoff 'list', not {policy.backoff.value!r}, which takes delay"
        raise InvalidInput(f"retry.{form}", message)
    elif "backoff" in changes:
        policy = replace(policy, delays=())  # those of a list that is no more
    for place, rule in enumerate(policy.rules):
        _check_waits(policy, rule, f"retry.rules[{place}]")
    return policy


def _check_waits(policy: RetryPolicy, rule: RetryRule, path: str) -> None:
    """Refuse waits of a rule that it would not get."""
    if rule.then is not Then.RETRY:
        return
    whole = apply_rule(policy, rule)
    if rule.delays and whole.backoff is not Backoff.LIST:
        raise InvalidInput(f"{path}.delays", f"goes with backoff 'list', not {whole.backoff.value!r}")
    if whole.backoff is Backoff.LIST and not whole.delays:
        raise InvalidInput(f"{path}.delays", "is missing; backoff 'list' needs at least one delay")
    if rule.delay is not None and whole.backoff is Backoff.LIST:
        message = "goes with another backoff than 'list', which takes delays; give the rule its own backoff"
        raise InvalidInput(f"{path}.delay", message)
    if max((rule.delay or timedelta(0), *rule.delays)) > whole.cap:
        message = f"is longer than the longest wait, the cap of {show(whole.cap)}; give the rule a longer cap"
        raise InvalidInput(f"{path}.{'delays' if rule.delays else 'delay'}", message)


RETRY = Group(
    RetryPolicy(),
    policy_options(
        RetryPolicy(),
        Option(name="max_retries", kind=Whole(0, 1000), summary="Retries after the first attempt."),
        Option(name="backoff", kind=Choice(Backoff), summary="How the waits grow."),
        Option(
            name="delay",
            kind=Duration(),
            summary="The first wait.",
            detail="`linear` adds it each time, `exponential` doubles it.",
        ),
        Option(name="cap", kind=Duration(), summary="The longest wait, before jitter."),
        Option(
            name="delays",
            kind=Durations(100),
            summary="For `list`: the waits in order; the last one is repeated.",
            detail="Given without `backoff`, they mean `list`.",
        ),
        Option(name="jitter", kind=Share(), summary="Each wait varies by up to this share, both ways."),
        Option(
            name="rules",
            kind=RuleList(),
            summary="What follows certain causes instead. The first rule that fits decides.",
            detail="[Retry by cause](../howto/retry-by-cause.md) has examples.",
        ),
    ),
    settle=_settle_retry,
)


def check_causes(spec: JobSpec, body: Mapping[str, Any]) -> None:
    """Refuse a rule for what the job's target never fails of.

    Args:
        body: what the user wrote.

    Raises:
        InvalidInput: the field is one that the user wrote.
    """
    own = spec.target.type
    if own not in BUILT_IN:
        return  # only its package knows what it reports
    for place, rule in enumerate(spec.retry.rules):
        for text in rule.on:
            of_target = _REPORTED_BY.get(pattern_of(text).kind, own)
            if of_target != own and not (text == "TimeoutError" or text.endswith(".TimeoutError")):
                field = f"retry.rules[{place}].on" if "retry" in body else "target"
                message = f"{text!r} is a cause of targets of the type {of_target!r}; this one is {own!r}"
                raise InvalidInput(field, message)


def put_rules(body: dict[str, Any], retry_on: object, no_retry_on: object) -> None:
    """Put the rules into a body that two short forms stand for: on which causes alone to retry, and on which never.

    Raises:
        InvalidInput: one of them is no cause, nor a list of causes, or the body has rules already.
    """
    rules: list[dict[str, Any]] = []
    if no_retry_on is not None:
        causes = Causes().read(no_retry_on, "no_retry_on", None)
        rules.append({"on": [*causes], "then": Then.FAIL.value})
    if retry_on is not None:
        rules.append({"on": [*Causes().read(retry_on, "retry_on", None)], "then": Then.RETRY.value})
        rules.append({"on": [CauseKind.ANY.value], "then": Then.FAIL.value})
    if not rules:
        return
    retry = body.get("retry", {})
    field = "no_retry_on" if retry_on is None else "retry_on"
    if not isinstance(retry, Mapping) or "rules" in retry:
        raise InvalidInput(field, "is short for rules, and 'retry.rules' is given; give one of them")
    if retry_on is not None and no_retry_on is not None:
        both = set(rules[0]["on"]).intersection(rules[1]["on"])
        if both:
            raise InvalidInput("retry_on", f"names {min(both)!r}, and so does 'no_retry_on'")
    body["retry"] = {**retry, "rules": rules}
