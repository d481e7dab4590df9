"""Use cases on the steps of durable functions: keep them, give them to the next attempt, and show them."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.checkpoints import Checkpoint, CheckpointVerdict, NewCheckpoint, check_checkpoint
from mainspring.core.fencing import is_held
from mainspring.core.ids import RunId, SessionId, format_run_id
from mainspring.engine.common.group_commit import GroupCommit
from mainspring.errors import Conflict, NotFound
from mainspring.ports.checkpoints import KeptStepPage, KeptSteps
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store

_MOST_TOGETHER = 1000
"""Steps in one transaction, at most. Their runs are locked meanwhile."""
PAGE = 32
"""Steps that a worker reads at a time: of 64 KiB each, two megabytes."""


class Checkpoints:
    """Keeps steps for the workers of the process. Concurrent calls share transactions."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._calls: GroupCommit[NewCheckpoint, CheckpointVerdict] = GroupCommit(
            self._keep, most=_MOST_TOGETHER
        )

    async def keep(self, items: Sequence[NewCheckpoint]) -> KeptSteps:
        """Keep what steps of attempts under way have come to.

        Raises:
            InvalidInput: a name, a number or a value is none. Nothing is kept.
        """
        for place, item in enumerate(items):
            check_checkpoint(item, f"steps[{place}]")
        return KeptSteps(tuple(await self._calls(items)), self._clock.now())

    async def _keep(self, items: Sequence[NewCheckpoint]) -> Sequence[CheckpointVerdict]:
        return await self._store.keep_checkpoints(items, now=self._clock.now())

    async def list_held(
        self, session_id: SessionId, run_id: RunId, token: int, *, after: tuple[str, int] | None = None
    ) -> KeptStepPage:
        """Return a page of the steps of a run to the session that holds it; see `CheckpointGateway`."""
        (run,) = await self._store.get_runs([run_id])
        if run is None or not is_held(run, token, session_id):
            raise Conflict("lease", "the attempt does not hold this run any more, so its steps are not told")
        steps = await self._store.list_checkpoints(run_id, after=after, limit=PAGE + 1)
        return KeptStepPage(tuple(steps[:PAGE]), self._clock.now(), len(steps) <= PAGE)

    async def list_page(
        self, tenant: str, run_id: RunId, *, after: tuple[str, int] | None = None, limit: int = 100
    ) -> list[Checkpoint]:
        """Return a page of the steps that are kept of a run, by name and number.

        Raises:
            NotFound: this tenant has no run with that id.
        """
        (run,) = await self._store.get_runs([run_id])
        if run is None or run.tenant != tenant:
            raise NotFound("run", format_run_id(run_id))
        return await self._store.list_checkpoints(run_id, after=after, limit=limit)
