"""How the steps of durable functions are kept, and read again by a later attempt."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from mainspring.core.checkpoints import Checkpoint, CheckpointVerdict, NewCheckpoint
from mainspring.core.ids import RunId, SessionId
from mainspring.core.values import value
from mainspring.ports.executor import AttemptContext


@value()
class KeptSteps:
    """The answer to a call that keeps steps: a verdict for each, and the engine's instant."""

    verdicts: tuple[CheckpointVerdict, ...]
    at: datetime


@value()
class KeptStepPage:
    """A page of the steps that are kept of a run.

    Attributes:
        at: the engine's instant.
        is_last: whether there are no more.
    """

    steps: tuple[Checkpoint, ...]
    at: datetime
    is_last: bool


@runtime_checkable
class CheckpointGateway(Protocol):
    """A gateway that keeps steps. After `Unreachable` or `StoreUnavailable`, a call may be repeated."""

    async def keep_checkpoints(self, session_id: SessionId, items: Sequence[NewCheckpoint]) -> KeptSteps:
        """Keep what steps of attempts under way have come to: one or more.

        Raises:
            InvalidInput: a name, a number or a value is none. Of the steps that were sent with it, nothing is kept.
        """
        ...

    async def list_checkpoints(
        self, session_id: SessionId, run_id: RunId, token: int, *, after: tuple[str, int] | None = None
    ) -> KeptStepPage:
        """Return a page of the steps that are kept of a run, to the session that holds it.

        Raises:
            Conflict: the lease is lost.
        """
        ...


class StepKeeper(Protocol):
    """Keeps the steps of attempts for a durable function, from whatever event loop it runs on."""

    async def keep(
        self, context: AttemptContext, name: str, number: int, value: bytes | None, *, is_error: bool
    ) -> datetime:
        """Keep what a step has come to. Return the engine's instant.

        While the engine cannot be reached, it goes on trying, because the step is done.

        Raises:
            Conflict: the attempt has lost its run.
            InvalidInput: it cannot be kept.
        """
        ...

    async def read(self, context: AttemptContext) -> tuple[list[Checkpoint], datetime]:
        """Return all steps that attempts before have kept, and the engine's instant.

        Raises:
            Conflict: the attempt has lost its run.
        """
        ...
