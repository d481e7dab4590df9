"""The steps of durable functions while their app is tested: kept in memory from attempt to attempt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from mainspring.core.checkpoints import Checkpoint
from mainspring.core.ids import RunId
from mainspring.ports.executor import AttemptContext


class RememberedSteps:
    """A `StepKeeper` for a test.

    Args:
        now: the instant of the test.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._kept: dict[RunId, list[Checkpoint]] = {}

    async def keep(
        self, context: AttemptContext, name: str, number: int, value: bytes | None, *, is_error: bool
    ) -> datetime:
        """Keep what a step has come to."""
        at = self._now()
        step = Checkpoint(name, number, context.token, is_error, value, at)
        self._kept.setdefault(context.run_id, []).append(step)
        return at

    async def read(self, context: AttemptContext) -> tuple[list[Checkpoint], datetime]:
        """Return the steps of the attempts before."""
        return list(self._kept.get(context.run_id, [])), self._now()
