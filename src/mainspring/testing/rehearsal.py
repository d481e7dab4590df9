"""The plans of an app under test: what a call brings about, and how time moves."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from mainspring.core.ids import RunId, format_run_id, parse_run_id
from mainspring.core.model import Run
from mainspring.core.states import FINAL_STATES
from mainspring.core.values import value
from mainspring.errors import MainspringError
from mainspring.ports.executor import NotBegun, Outcome
from mainspring.ports.gateway import Lease, Report
from mainspring.sdk.portal import Portal
from mainspring.sdk.runs import RunHandle
from mainspring.testing.calling import Caller
from mainspring.testing.driving import Ask, AwaitEnds, CarryOut, Hands, Plan
from mainspring.testing.engine_room import EngineRoom, Step

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.views import RunView

T = TypeVar("T")
Work = Callable[["AsyncClient"], Coroutine[Any, Any, T]]
MOST_ATTEMPTS = 10_000
_DEEPEST = 40
"""How many runs may be carried out within each other. Those below wait until the outermost has ended."""


class JobFailed(AssertionError):
    """A run of a job under test failed, and not by an exception of its function. The message has the run's error."""


@dataclass(slots=True)
class _Act:
    """One call from outside, with all that it brings about.

    Attributes:
        failed: the runs that have ended as FAILED.
        attempts: how many there were.
    """

    failed: list[RunId] = field(default_factory=list)
    attempts: int = 0


@value()
class _Scene:
    """An attempt under way, as the calls see it that its function makes."""

    rehearsal: Rehearsal
    act: _Act
    runs: tuple[RunId, ...]


_scene: ContextVar[_Scene | None] = ContextVar("mainspring_scene", default=None)


class Rehearsal:
    """The stage of an app under test (`sdk.staging.Stage`).

    Args:
        is_eager: whether each call carries out what is due.
        raises: whether a call from outside raises what a run failed with.
    """

    def __init__(
        self, room: EngineRoom, portal: Portal, caller: Caller, *, is_eager: bool, raises: bool
    ) -> None:
        self.room = room
        self.hands: Hands = Hands(portal, caller)
        self._portal = portal
        self._caller = caller
        self._is_eager = is_eager
        self._raises = raises
        self._under_way: dict[RunId, Future[None]] = {}

    # -- the calls of the app ------------------------------------------------------------------------------------------

    async def perform(self, work: Work[T]) -> T:
        __tracebackhide__ = True
        return await self.hands.await_plan(lambda: self._perform(work))

    def perform_sync(self, work: Work[T]) -> T:
        __tracebackhide__ = True
        return self.hands.run_plan(lambda: self._perform(work))

    async def wait(self, run_id: str, timeout: float | timedelta | None) -> RunView:
        __tracebackhide__ = True
        return await self.hands.await_plan(lambda: self._wait(run_id))

    def wait_sync(self, run_id: str, timeout: float | timedelta | None) -> RunView:
        __tracebackhide__ = True
        return self.hands.run_plan(lambda: self._wait(run_id))

    def _perform(self, work: Work[T]) -> Plan[T]:
        __tracebackhide__ = True
        result: T = yield Ask(lambda: self._ask(work))
        if self._is_eager:
            yield from self.drive(own=_runs_of(result))
        return result

    async def _ask(self, work: Work[T]) -> T:
        await self.room.define()
        return await work(self.room.client)

    def _wait(self, run_id: str) -> Plan[RunView]:
        try:
            own = frozenset({parse_run_id(run_id)})
        except ValueError:
            own = frozenset()  # the question below is refused with the reason
        yield from self.drive(own=own, raises=False)
        view: RunView = yield Ask(lambda: self.room.client.get_run(run_id))
        if view.status not in FINAL_STATES:
            raise TimeoutError(
                f"{run_id} has not ended; it is {view.status}. In a test time stands still: move it with t.jump(…)"
            )
        return view

    # -- plans ---------------------------------------------------------------------------------------------------------

    def drive(
        self,
        *,
        own: frozenset[RunId] = frozenset(),
        until: datetime | None = None,
        to_the_end: bool = False,
        follows: bool = True,
        raises: bool | None = None,
    ) -> Plan[int]:
        """Carry out what is due, in order, and move the clock as far as is asked for. Return the number of attempts.

        Args:
            own: runs whose ends the caller waits for, even if others carry them out.
            until: move the clock so far.
            to_the_end: move the clock until no run waits.
            follows: without either: move the clock for the retries and snoozes of what was begun.
            raises: whether to raise what a run failed with; None is what was chosen for the test.
        """
        __tracebackhide__ = True
        scene = self._scene()
        if scene is not None and len(scene.runs) >= _DEEPEST:
            return 0
        act = _Act() if scene is None else scene.act
        begun, before = set(own), act.attempts
        reports: Sequence[Report] = ()
        while True:
            try:
                step: Step = yield Ask(_step(self.room, reports))
            finally:
                self._forget([report.run_id for report in reports])
            act.failed += step.failed
            reports = ()
            if step.leases:
                begun.update(lease.run_id for lease in step.leases)
                reports = yield from self._carry_out(step.leases, act, scene)
            elif ends := self._ends_of(own, scene):
                yield AwaitEnds(ends)
            else:
                follow = frozenset(begun) if follows else frozenset()
                instant = yield Ask(_next(self.room, until, follow, to_the_end))
                if instant is None:
                    break
                yield Ask(_advance(self.room, instant))
        if scene is None and act.failed and (self._raises if raises is None else raises):
            self._raise(act.failed)
        return act.attempts - before

    def _carry_out(self, leases: Sequence[Lease], act: _Act, scene: _Scene | None) -> Plan[Sequence[Report]]:
        act.attempts += len(leases)
        if act.attempts > MOST_ATTEMPTS:
            name = leases[0].spec.name
            raise MainspringError(
                f"one call brought about more than {MOST_ATTEMPTS:,} attempts, the last of the job {name!r}; "
                "does a job submit itself for ever? Otherwise move the clock in smaller steps"
            )
        runs = tuple(lease.run_id for lease in leases)
        self._under_way.update({run_id: Future() for run_id in runs})
        outer = () if scene is None else scene.runs
        try:
            with _in_scene(_Scene(self, act, (*outer, *runs))):
                outcomes: Sequence[Outcome] = yield CarryOut(leases)
        except BaseException:
            self._forget(runs)
            raise
        return [
            Report(run_id=lease.run_id, token=lease.token, ending=outcome)
            for lease, outcome in zip(leases, outcomes, strict=True)
            if not isinstance(outcome, NotBegun)  # nobody is silent here
        ]

    def _forget(self, runs: Sequence[RunId]) -> None:
        """Tell those who wait that these attempts are no longer under way."""
        for run_id in runs:
            if (end := self._under_way.pop(run_id, None)) is not None:
                end.set_result(None)

    def refuse_within_job(self, what: str) -> None:
        """Refuse what only the test may do.

        Raises:
            MainspringError: a job's function called it.
        """
        if self._scene() is not None:
            raise MainspringError(f"{what} was called within a job; call it in the test")

    def all_runs(self) -> list[tuple[Run, str]]:
        """Return all runs, each with its job's name."""
        return self._portal.call(self._see)

    async def _see(self) -> list[tuple[Run, str]]:
        return self.room.runs()

    def _scene(self) -> _Scene | None:
        scene = _scene.get()
        return scene if scene is not None and scene.rehearsal is self else None

    def _ends_of(self, own: frozenset[RunId], scene: _Scene | None) -> list[Future[None]]:
        """Return the ends of attempts that others carry out. What the caller is a part of cannot end before it."""
        above = () if scene is None else scene.runs
        found = [self._under_way.get(run_id) for run_id in own if run_id not in above]
        return [end for end in found if end is not None]

    def _raise(self, failed: Sequence[RunId]) -> None:
        __tracebackhide__ = True
        run = self.room.run(failed[0])
        name = self.room.job_of(failed[0])
        raised = self._caller.errors.get(failed[0])
        text = f"{name}, {format_run_id(run.id)}, failed for good at attempt {run.attempt}"
        if len(failed) > 1:
            text += f"; {len(failed) - 1} more failed after it"
        if raised is None:
            raise JobFailed(f"{text}: {run.error}")
        error = raised.error
        if isinstance(error, SystemExit):
            raise JobFailed(f"{text}: {run.error}") from error
        error.add_note(text)
        raise error.with_traceback(raised.trace)


def _runs_of(result: object) -> frozenset[RunId]:
    """Return the runs that a call has made, if they are its answer."""
    items = result if isinstance(result, list) else [result]
    return frozenset(
        parse_run_id(item.id) for item in items if isinstance(item, RunHandle) and item.status == "submitted"
    )


def _step(room: EngineRoom, reports: Sequence[Report]) -> Callable[[], Coroutine[Any, Any, Step]]:
    return lambda: room.step(reports)


def _next(
    room: EngineRoom, until: datetime | None, follow: frozenset[RunId], to_the_end: bool
) -> Callable[[], Coroutine[Any, Any, datetime | None]]:
    return lambda: room.next_instant(until=until, follow=follow, to_the_end=to_the_end)


def _advance(room: EngineRoom, instant: datetime) -> Callable[[], Coroutine[Any, Any, None]]:
    return lambda: room.advance(instant)


@contextmanager
def _in_scene(scene: _Scene) -> Iterator[None]:
    before = _scene.get()
    _scene.set(scene)
    try:
        yield
    finally:
        _scene.set(before)  # not by a token: a generator may be closed in another context
