"""What a test does with its app: it moves the clock, carries out what is due, and says what must have happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from mainspring.core.fields import read_delay, read_instant
from mainspring.core.ids import RunId, parse_run_id
from mainspring.errors import InvalidInput
from mainspring.ports.executor import AttemptContext
from mainspring.sdk.direct import make_attempt
from mainspring.sdk.runs import RunHandle
from mainspring.signals import lending
from mainspring.testing.outside import OutsideCall
from mainspring.testing.records import SeenRun, Wanted, describe, is_submitted, name_of, see

if TYPE_CHECKING:
    from mainspring.sdk.app import App
    from mainspring.sdk.function import Function
    from mainspring.testing.driving import Plan
    from mainspring.testing.outside import Outside
    from mainspring.testing.rehearsal import Rehearsal


class BaseTester:
    """What tests with and without an event loop have in common.

    Attributes:
        app: the app under test.
        mode: `eager` or `held`.
    """

    def __init__(self, app: App, mode: str, rehearsal: Rehearsal, outside: Outside) -> None:
        self.app = app
        self.mode = mode
        self._rehearsal = rehearsal
        self._outside = outside

    @property
    def now(self) -> datetime:
        """What the engine's clock shows, in UTC. It moves only when the test moves it, or for a retry."""
        return self._rehearsal.room.clock.now()

    @property
    def runs(self) -> list[SeenRun]:
        """All runs, in the order in which they were made, those of schedules too."""
        return [see(run, job) for run, job in self._rehearsal.all_runs()]

    @property
    def calls(self) -> list[OutsideCall]:
        """The HTTP callbacks and commands that were asked for, in order. None of them was carried out."""
        return list(self._outside.calls)

    def run(self, run: RunHandle | SeenRun | str) -> SeenRun:
        """Return a run as it is now.

        Args:
            run: its handle, its id, or what was seen of it before.

        Raises:
            InvalidInput: there is no such run.
        """
        wanted = run if isinstance(run, str) else run.id
        for seen in self.runs:
            if seen.id == wanted:
                return seen
        raise InvalidInput("run", f"this test has no run {wanted!r}")

    def enqueued(
        self, job: Function[..., Any, Any] | str | None = None, /, *args: Any, **kwargs: Any
    ) -> list[SeenRun]:
        """Return the runs that were submitted, in order; not those of schedules.

        Args:
            job: only runs of this job, by its function or name.
            args, kwargs: only runs with these arguments. Those that are not named do not matter.

        Raises:
            InvalidInput: the app has no such job.
            TypeError: its function has no such argument.
        """
        runs = [run for run in self.runs if is_submitted(run)]
        if job is None:
            return runs
        wanted = self._want(job, args, kwargs)
        return [run for run in runs if wanted.fits(run)]

    def assert_enqueued(
        self, job: Function[..., Any, Any] | str, /, *args: Any, times: int | None = None, **kwargs: Any
    ) -> None:
        """Fail the test unless runs of a job were submitted.

        Args:
            job: the job's function or name.
            args, kwargs: the arguments. Those that are not named do not matter.
            times: how many runs it must be; None is at least one.

        Raises:
            AssertionError: there are none, or another number; it says what was submitted instead.
            InvalidInput: the app has no such job.
            TypeError: its function has no such argument.
        """
        __tracebackhide__ = True
        found = self.enqueued(job, *args, **kwargs)
        if len(found) != times if times is not None else not found:
            raise AssertionError(self._describe(job, args, kwargs, times, len(found)))

    def assert_not_enqueued(self, job: Function[..., Any, Any] | str, /, *args: Any, **kwargs: Any) -> None:
        """Fail the test if a run of a job, with these arguments, was submitted.

        Raises:
            AssertionError: there is one; it says which.
            InvalidInput: the app has no such job.
            TypeError: its function has no such argument.
        """
        __tracebackhide__ = True
        if found := self.enqueued(job, *args, **kwargs):
            raise AssertionError(self._describe(job, args, kwargs, 0, len(found)))

    @contextmanager
    def attempt(
        self,
        job: Function[..., Any, Any] | str = "job",
        *,
        run_id: str | None = None,
        attempt: int = 1,
        fire_at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> Iterator[AttemptContext]:
        """Choose what `current_attempt` returns in functions that are called directly, until the block ends.

        Args:
            job: the job that the attempt seems to be of.
            run_id: the run, `run_…`; by default one that does not exist.
            attempt: its number, from 1.
            fire_at: the nominal instant, as of a scheduled run.
            idempotency_key: by default one of its own.
        """
        chosen = make_attempt(
            job if isinstance(job, str) else job.name,
            tenant=self.app.tenant,
            run_id=RunId(0) if run_id is None else parse_run_id(run_id),
            attempt=attempt,
            fire_at=fire_at,
            due_at=fire_at or self.now,
            idempotency_key=idempotency_key,
        )
        with lending(lambda: chosen):
            yield chosen

    def _want(
        self, job: Function[..., Any, Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Wanted:
        name = name_of(job)
        known = self.app.registry.get(name)
        batched = self._rehearsal.room.jobs()
        if known is None and name not in batched:
            names = ", ".join(sorted(batched)) or "none"
            raise InvalidInput("job", f"the app has no job {name!r}; it has {names}")
        if known is None or not batched.get(name):
            return Wanted(name, known, args, kwargs)
        return Wanted(name, None, args, kwargs, item=None if known.types is None else known.types.item)

    def _describe(
        self,
        job: Function[..., Any, Any] | str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        times: int | None,
        found: int,
    ) -> str:
        return describe(self._want(job, args, kwargs), times, found, self.enqueued(), self.now)

    def _work(self) -> Callable[[], Plan[int]]:
        self._rehearsal.refuse_within_job("work()")
        return lambda: self._rehearsal.drive(follows=False)

    def _run_all(self) -> Callable[[], Plan[int]]:
        self._rehearsal.refuse_within_job("run_all()")
        return lambda: self._rehearsal.drive(to_the_end=True)

    def _jump(self, time: timedelta | float | str) -> Callable[[], Plan[int]]:
        return self._jump_to(self.now + read_delay(time, "jump"))

    def _jump_to(self, instant: datetime | str) -> Callable[[], Plan[int]]:
        self._rehearsal.refuse_within_job("jump()")
        until = read_instant(instant, "jump_to")
        if until < self.now:
            raise InvalidInput("jump_to", f"time does not go backwards: it is {self.now.isoformat()}")
        return lambda: self._rehearsal.drive(until=until)


class AppTester(BaseTester):
    """An app under test, for tests without an event loop: `with app.testing() as t`."""

    def work(self) -> int:
        """Carry out what is due now, in order. Return how many attempts that was. The clock stands still."""
        __tracebackhide__ = True
        return self._rehearsal.hands.run_plan(self._work())

    def run_all(self) -> int:
        """Carry out all runs that there are, and move the clock as far as they have to wait.

        Schedules fire meanwhile. What is held up for more than a day, as in a paused queue, is left. Return how many
        attempts there were.
        """
        __tracebackhide__ = True
        return self._rehearsal.hands.run_plan(self._run_all())

    def jump(self, time: timedelta | float | str) -> int:
        """Let time pass: `t.jump("1d")`. What falls due is carried out at its instant, in order.

        Args:
            time: a `timedelta`, seconds, or text like `90s`, `1h30m`, `1d`.

        Returns:
            How many attempts there were.
        """
        __tracebackhide__ = True
        return self._rehearsal.hands.run_plan(self._jump(time))

    def jump_to(self, instant: datetime | str) -> int:
        """Let time pass until an instant: an aware `datetime`, or ISO 8601 text with an offset."""
        __tracebackhide__ = True
        return self._rehearsal.hands.run_plan(self._jump_to(instant))


class AsyncAppTester(BaseTester):
    """An app under test, for tests on an event loop: `async with app.testing() as t`."""

    async def work(self) -> int:
        """Carry out what is due now, as `AppTester.work` does."""
        __tracebackhide__ = True
        return await self._rehearsal.hands.await_plan(self._work())

    async def run_all(self) -> int:
        """Carry out all runs that there are, as `AppTester.run_all` does."""
        __tracebackhide__ = True
        return await self._rehearsal.hands.await_plan(self._run_all())

    async def jump(self, time: timedelta | float | str) -> int:
        """Let time pass, as `AppTester.jump` does: `await t.jump("1d")`."""
        __tracebackhide__ = True
        return await self._rehearsal.hands.await_plan(self._jump(time))

    async def jump_to(self, instant: datetime | str) -> int:
        """Let time pass until an instant, as `AppTester.jump_to` does."""
        __tracebackhide__ = True
        return await self._rehearsal.hands.await_plan(self._jump_to(instant))
