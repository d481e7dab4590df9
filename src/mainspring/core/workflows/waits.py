"""Waits: steps that run nothing, but end once an instant has come, or somebody has answered."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from mainspring.core.values import value


class OnTimeout(StrEnum):
    """What becomes of a step whose wait has taken too long."""

    FAIL = "fail"
    SKIP = "skip"


class AnswerKind(StrEnum):
    """What ends a wait, or would. The words are kept.

    - `SIGNAL`: a signal of the name that it waits for.
    - `APPROVE`, `REJECT`: what somebody has decided.
    - `COMPLETE`: somebody has ended it by hand, as if what it waits for had come.
    - `EVENT`: an event of the topic and the key that it waits for.
    """

    SIGNAL = "signal"
    APPROVE = "approve"
    REJECT = "reject"
    COMPLETE = "complete"
    EVENT = "event"


@value()
class MadeValue:
    """That an expression makes a value.

    Attributes:
        text: the expression.
    """

    text: str


@value(kw_only=True)
class Approval:
    """Somebody is to approve of it.

    Attributes:
        by: the accounts of which one has to; none means everyone who may operate.
    """

    by: tuple[str, ...] = ()


@value(kw_only=True)
class EventWait:
    """An event is to come.

    Attributes:
        key: what it has happened to, or what an expression makes of it; None: an event that says nothing of that.
    """

    topic: str
    key: str | MadeValue | None = None


@value(kw_only=True)
class StepWait:
    """What a step waits for: exactly one of the first five.

    Attributes:
        sleep: so long, from when it starts.
        until: this instant, or the one that an expression makes.
        signal: a signal of this name.
        approval: that somebody approves.
        event: an event of this topic and key, which is taken in once the workflow's run is due, or later.
        timeout: how long it waits for one of the last three; None: as long as its workflow.
    """

    sleep: timedelta | None = None
    until: datetime | MadeValue | None = None
    signal: str | None = None
    approval: Approval | None = None
    event: EventWait | None = None
    timeout: timedelta | None = None
    on_timeout: OnTimeout = OnTimeout.FAIL

    @property
    def kind(self) -> str:
        """The name of what it waits for."""
        return next(name for name in WAIT_KINDS if getattr(self, name) is not None)

    @property
    def made(self) -> MadeValue | None:
        """What an expression is to make when it starts; None if nothing is."""
        made = self.until if self.event is None else self.event.key
        return made if isinstance(made, MadeValue) else None

    def takes(self, kind: AnswerKind) -> bool:
        """Say whether such an answer ends it."""
        match kind:
            case AnswerKind.SIGNAL:
                return self.signal is not None
            case AnswerKind.APPROVE | AnswerKind.REJECT:
                return self.approval is not None
            case AnswerKind.EVENT:
                return self.event is not None
            case AnswerKind.COMPLETE:
                return True


WAIT_KINDS = ("sleep", "until", "signal", "approval", "event")
"""What a step may wait for."""
ANSWERED = ("signal", "approval", "event")
"""Those that end only with an answer, so that they may take too long."""
