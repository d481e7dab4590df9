"""The field `wait` of a step: what it waits for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

from mainspring.core.definition.once import make_rule_kind
from mainspring.core.events.model import MAX_KEY, read_event_key
from mainspring.core.fields import kind, one_of, read_text
from mainspring.core.kinds import Choice, Kind, Schema, Text
from mainspring.core.options import Option
from mainspring.core.times import Duration, Instant
from mainspring.core.triggers.on_event import Topic
from mainspring.core.values import value
from mainspring.core.workflows.expressions import MARK, is_expression
from mainspring.core.workflows.waits import (
    ANSWERED,
    WAIT_KINDS,
    Approval,
    EventWait,
    MadeValue,
    OnTimeout,
    StepWait,
)
from mainspring.errors import InvalidInput

_LONGEST = timedelta(days=366)
_MOST_ACCOUNTS = 20
_LONGEST_ACCOUNT = 200
_SIGNAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


@value()
class InstantOrMade(Instant):
    """An instant, or an expression that makes one."""

    is_json: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> Any:
        """Read an instant; `{"cel": "…"}` stands for what an expression makes."""
        if is_expression(value):
            assert isinstance(value, Mapping)
            return MadeValue(read_text(value[MARK], f"{path}.{MARK}", longest=4096))
        return Instant.read(self, value, path, old)

    def store(self, value: datetime | MadeValue) -> Any:
        """Return its text, or the object."""
        return {MARK: value.text} if isinstance(value, MadeValue) else Instant.store(self, value)

    def load(self, plain: Any) -> Any:
        """Return the instant or the expression."""
        return MadeValue(plain[MARK]) if isinstance(plain, Mapping) else Instant.load(self, plain)

    def schema(self) -> Schema:
        """Return the schema of an instant's text or of an object."""
        return {"anyOf": [Instant.schema(self), {"type": "object"}]}

    def limits(self) -> str:
        """Describe both forms."""
        return f'{Instant.limits(self)}; or `{{"{MARK}": "…"}}`, which makes such text'


@value()
class KeyOrMade(Text):
    """The key of an event, or an expression that makes it."""

    longest: int = MAX_KEY
    is_json: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> Any:
        """Read a key; `{"cel": "…"}` stands for what an expression makes."""
        del old
        if is_expression(value):
            assert isinstance(value, Mapping)
            return MadeValue(read_text(value[MARK], f"{path}.{MARK}", longest=4096))
        return read_event_key(value, path)

    def store(self, value: str | MadeValue) -> Any:
        """Return the text, or the object."""
        return {MARK: value.text} if isinstance(value, MadeValue) else value

    def load(self, plain: Any) -> Any:
        """Return the key or the expression."""
        return MadeValue(plain[MARK]) if isinstance(plain, Mapping) else plain

    def schema(self) -> Schema:
        """Return the schema of text or of an object."""
        return {"anyOf": [Text.schema(self), {"type": "object"}]}

    def limits(self) -> str:
        """Describe both forms."""
        return f'{Text.limits(self)}; or `{{"{MARK}": "…"}}`, which makes it'


@value()
class SignalName(Kind):
    """The name of a signal."""

    metavar: ClassVar[str] = "NAME"
    is_json: ClassVar[bool] = False

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a name."""
        del old
        return read_signal(value, path)

    def schema(self) -> Schema:
        """Return the schema of such text."""
        return {"type": "string", "pattern": f"^{_SIGNAL.pattern}$"}

    def limits(self) -> str:
        """Say which characters it may have."""
        return "1 to 100 of `A-Z a-z 0-9 . _ -`, with a letter or digit first"


def read_signal(value: object, path: str) -> str:
    """Read the name of a signal.

    Raises:
        InvalidInput: it is none.
    """
    if not isinstance(value, str) or not _SIGNAL.fullmatch(value):
        shown = repr(value[:70]) if isinstance(value, str) else kind(value)
        right = "1 to 100 of A-Z a-z 0-9 . _ -, with a letter or digit first"
        raise InvalidInput(path, f"must be {right}, not {shown}")
    return value


@value()
class AccountNames(Kind):
    """Names of accounts, in the order given."""

    metavar: ClassVar[str] = "ACCOUNT"
    is_json: ClassVar[bool] = False
    is_list: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> tuple[str, ...]:
        """Read names, each once. Whether there are such accounts, nobody can say for good."""
        del old
        if not isinstance(value, list | tuple) or len(value) > _MOST_ACCOUNTS:
            shown = f"{len(value)} of them" if isinstance(value, list | tuple) else kind(value)
            raise InvalidInput(path, f"must be a list of at most {_MOST_ACCOUNTS} accounts, not {shown}")
        names = [read_text(one, f"{path}[{n}]", longest=_LONGEST_ACCOUNT) for n, one in enumerate(value)]
        return tuple(dict.fromkeys(names))

    def store(self, value: tuple[str, ...]) -> list[str]:
        """Return a list."""
        return list(value)

    def load(self, plain: list[str]) -> tuple[str, ...]:
        """Return the names."""
        return tuple(plain)

    def schema(self) -> Schema:
        """Return a list's schema."""
        return {"type": "array", "maxItems": _MOST_ACCOUNTS, "items": {"type": "string"}}

    def limits(self) -> str:
        """Say how many there may be."""
        return f"at most {_MOST_ACCOUNTS} names of accounts"


def _check(wait: StepWait, given: Mapping[str, Any]) -> StepWait:
    names = [name for name in WAIT_KINDS if getattr(wait, name) is not None]
    if len(names) != 1:
        if not names:
            raise InvalidInput("wait", f"must have one of {', '.join(WAIT_KINDS)}")
        raise InvalidInput(f"wait.{names[1]}", f"does not go with {names[0]!r}; remove one")
    if wait.kind not in ANSWERED:
        message = f"goes with {' or '.join(ANSWERED)}, not {wait.kind!r}"
        if wait.timeout is not None:
            raise InvalidInput(f"wait.{one_of(given, 'timeout', 'timeout_seconds')}", message)
        if wait.on_timeout is not OnTimeout.FAIL:
            raise InvalidInput("wait.on_timeout", message)
    elif wait.timeout is None and wait.on_timeout is not OnTimeout.FAIL:
        raise InvalidInput("wait.on_timeout", "needs a timeout; give wait.timeout, too")
    return wait


def _option(name: str, kind_: Kind, summary: str, *, detail: str = "", example: Any = None) -> Option:
    return Option(
        name=name,
        kind=kind_,
        summary=summary,
        detail=detail,
        default=None,
        is_nullable=True,
        example=example,
    )


APPROVAL = make_rule_kind(
    "wait.approval",
    Approval,
    lambda own, _: own,
    Option(
        name="by",
        kind=AccountNames(),
        summary="The accounts of which one has to approve.",
        detail="Empty: everyone who may operate.",
        default=(),
        example=["anna", "ben"],
    ),
    short=None,
)
EVENT = make_rule_kind(
    "wait.event",
    EventWait,
    lambda own, _: own,
    Option(
        name="topic",
        kind=Topic(),
        summary="The topic of the event.",
        example="orders.paid",
    ),
    _option(
        "key",
        KeyOrMade(),
        "The key that the event has to have.",
        detail="Null: it has none.",
        example={MARK: "input.order"},
    ),
    short="topic",
)
WAIT = make_rule_kind(
    "wait",
    StepWait,
    _check,
    _option(
        "sleep",
        Duration(timedelta(milliseconds=1), _LONGEST),
        "So long, from when the step starts.",
        example="3d",
    ),
    _option(
        "until",
        InstantOrMade(),
        "Until this instant. If it has passed, the step succeeds at once.",
        example="2026-12-24T18:00:00+01:00",
    ),
    _option(
        "signal",
        SignalName(),
        "For a signal of this name, which someone sends to the run.",
        detail="One that comes before the step starts is kept for it.",
        example="stock-counted",
    ),
    _option(
        "approval",
        APPROVAL,
        "For someone to approve. If they reject, the step fails.",
        example={"by": ["anna"]},
    ),
    _option(
        "event",
        EVENT,
        "For an event of a topic and a key.",
        detail="One that came once the run was due, but before the step starts, counts.",
        example={"topic": "orders.paid", "key": "4711"},
    ),
    _option(
        "timeout",
        Duration(timedelta(seconds=1), _LONGEST),
        "How long it waits for a signal, an approval or an event.",
        detail="Null: as long as its workflow.",
        example="2d",
    ),
    Option(
        name="on_timeout",
        kind=Choice(OnTimeout),
        summary="What becomes of the step when nothing came in time.",
        detail="`fail` or `skip`.",
        default=OnTimeout.FAIL,
    ),
    short=None,
)
