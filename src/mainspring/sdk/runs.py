"""A handle on a submitted run, for the code that submitted it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic

from mainspring.clock import LoopWaiter, monotonic
from mainspring.core.artifacts import ResultReference, read_reference
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.errors import ResultLeftOut, RunCancelled, RunFailed, RunSkipped
from mainspring.sdk.log_streams import follow_lines, follow_lines_sync

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from mainspring.payloads.codec import Codec
    from mainspring.sdk.app import App
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.artifacts import ArtifactView
    from mainspring.wire.views import RunView
    from mainspring.wire.why import WhyView

    T_co = TypeVar("T_co", covariant=True, default=Any)
else:
    from typing import TypeVar  # this one learns of defaults in Python 3.13

    T_co = TypeVar("T_co", covariant=True)
_ENDS = {RunState.CANCELLED: RunCancelled, RunState.SKIPPED: RunSkipped}
_FIRST_PAUSE = 0.02
_LAST_PAUSE = 1.0


class RunHandle(Generic[T_co]):
    """A handle on a run, by its id. `T_co` is what its function returns.

    Attributes:
        id: the run's id in its text form, `run_…`.
        status: what became of the submission. `submitted`: it made this run. If the job says what runs once, it may
            also have joined this run (`existing`, `replaced`, `debounced`), or have been dropped (`throttled`, and
            from `enqueue_many` also `rejected`); this run is then the one that has the key.
    """

    __slots__ = ("_app", "_codec", "id", "status")

    def __init__(
        self, app: App, run_id: str, status: str = "submitted", *, codec: Codec | None = None
    ) -> None:
        self._app = app
        self._codec = codec
        self.id: str = run_id
        self.status: str = status

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    async def get(self) -> RunView:
        """Return the current state of the run."""
        return await self._app.perform(lambda client: client.get_run(self.id))

    def get_sync(self) -> RunView:
        """Like `get`, for code without an event loop."""
        return self._app.perform_sync(lambda client: client.get_run(self.id))

    async def why(self) -> WhyView:
        """Say in one sentence why the run has not started, or what became of it."""
        return await self._app.perform(lambda client: client.get_run_why(self.id))

    def why_sync(self) -> WhyView:
        """Like `why`, for code without an event loop."""
        return self._app.perform_sync(lambda client: client.get_run_why(self.id))

    def logs(self, *, attempt: int | None = None) -> AsyncIterator[str]:
        """Yield the lines that the run writes, while it writes them, until it has ended.

        Args:
            attempt: only those of this attempt; None begins with the last one that has begun.
        """
        return follow_lines(self._app.perform, self.id, attempt)

    def logs_sync(self, *, attempt: int | None = None) -> Iterator[str]:
        """Like `logs`, for code without an event loop."""
        return follow_lines_sync(self._app.perform_sync, self.id, attempt)

    async def retry(
        self, *, definition: str = "newest", begin: str | Sequence[str] | None = None, **body: Any
    ) -> RunHandle:
        """Run it again, if it FAILED or was CANCELLED, and return the new run.

        A run is repeated once: a second call returns the same new run.

        Args:
            definition: `newest`: run the job as it is defined now; `kept`: as it was for this run.
            begin: of a workflow, where it is taken up again. `failed`: the new run takes over what had succeeded;
                `start`: it runs all steps; or the names of steps that run again, too, with all that follows. None is
                `failed`, but `start` with a payload.
            body: may have `payload`, for the new run instead of this one's.

        Raises:
            Conflict: it is in another state, its job was deleted, or it was repeated in another way.
        """
        wanted = _retry_body(definition, begin, body)
        answer = await self._app.perform(lambda client: client.redrive_run(self.id, wanted))
        return RunHandle(self._app, answer.run_id)

    def retry_sync(
        self, *, definition: str = "newest", begin: str | Sequence[str] | None = None, **body: Any
    ) -> RunHandle:
        """Like `retry`, for code without an event loop."""
        wanted = _retry_body(definition, begin, body)
        answer = self._app.perform_sync(lambda client: client.redrive_run(self.id, wanted))
        return RunHandle(self._app, answer.run_id)

    async def wait(self, timeout: float | timedelta | None = None) -> RunView:
        """Wait until the run has ended, in any final state, and return it.

        Args:
            timeout: seconds; None means no limit.

        Raises:
            TimeoutError: the run has not ended by then. It continues.
        """
        return await self._app.wait_for(self.id, timeout)

    def wait_sync(self, timeout: float | timedelta | None = None) -> RunView:
        """Like `wait`, for code without an event loop."""
        return self._app.wait_for_sync(self.id, timeout)

    async def result(self, timeout: float | timedelta | None = None) -> T_co:
        """Wait until the run has ended, and return what its function returned, as the annotation says it.

        A result that was too large for the run is fetched from where it is kept, and checked.

        Args:
            timeout: seconds; None means no limit.

        Raises:
            ResultLeftOut: it succeeded, but its result could not be kept.
            RunFailed: it is FAILED; its subclasses `RunCancelled` and `RunSkipped` say the other ends.
            TimeoutError: the run has not ended by then. It continues.
            InvalidInput: the function returned something else than its annotation says.
        """
        run = await self.wait(timeout)
        kept = _kept_result(run)
        if kept is not None:
            text = await self._app.perform(
                lambda client: client.read_artifact(kept.artifact, sha256=kept.sha256, size=kept.size)
            )
            run = _with_result(run, text)
        return self._read(run)

    def result_sync(self, timeout: float | timedelta | None = None) -> T_co:
        """Like `result`, for code without an event loop."""
        run = self.wait_sync(timeout)
        kept = _kept_result(run)
        if kept is not None:
            text = self._app.perform_sync(
                lambda client: client.read_artifact(kept.artifact, sha256=kept.sha256, size=kept.size)
            )
            run = _with_result(run, text)
        return self._read(run)

    async def artifacts(self) -> list[ArtifactView]:
        """Return the files that the run's last attempt has left behind, by name."""
        return await self._app.perform(lambda client: _list_all(client, self.id))

    def artifacts_sync(self) -> list[ArtifactView]:
        """Like `artifacts`, for code without an event loop."""
        return self._app.perform_sync(lambda client: _list_all(client, self.id))

    def _read(self, run: RunView) -> T_co:
        status = RunState(run.status)
        if status is not RunState.SUCCEEDED:
            raise _ENDS.get(status, RunFailed)(self.id, status.value, run.error, run.reason)
        left_out = run.result_left_out
        if left_out is not None:
            raise ResultLeftOut(self.id, left_out.reason, left_out.note)
        result: T_co = run.result if self._codec is None else self._codec.decode(run.result, "result")
        return result


def _kept_result(run: RunView) -> ResultReference | None:
    """Return where the result of a run is that was too large for it."""
    return read_reference(run.result) if RunState(run.status) is RunState.SUCCEEDED else None


def _with_result(run: RunView, text: bytes) -> RunView:
    """Return a run with the result that was kept elsewhere."""
    import msgspec

    return msgspec.structs.replace(run, result=msgspec.json.decode(text))


async def _list_all(client: AsyncClient, run_id: str) -> list[ArtifactView]:
    page = await client.list_artifacts(run_id)
    found = page.items
    while page.next is not None:
        page = await client.list_artifacts(run_id, after=page.next)
        found += page.items
    return found


async def wait_for_run(client: AsyncClient, run_id: str, timeout: float | timedelta | None = None) -> RunView:
    """Poll a run until it has ended, with growing pauses.

    Raises:
        TimeoutError: the run has not ended by then.
    """
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    waiter = LoopWaiter()
    end = None if seconds is None else monotonic() + seconds
    pause = _FIRST_PAUSE
    while True:
        run = await client.get_run(run_id)
        if RunState(run.status) in FINAL_STATES:
            return run
        if end is not None and (rest := end - monotonic()) < pause:
            if rest <= 0:
                raise TimeoutError(f"{run_id} has not ended after {seconds:g} s; it is {run.status}")
            pause = rest
        await waiter.wait(pause)
        pause = min(pause * 1.3, _LAST_PAUSE)


def _retry_body(
    definition: str, begin: str | Sequence[str] | None, body: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of a request to run a run again."""
    wanted = {"definition": definition, **body}
    if begin is not None:
        wanted["from"] = begin if isinstance(begin, str) else list(begin)
    return wanted
