"""Whoever operates the product while it is harmed: pauses a queue, changes a limit and a calendar, makes backfills."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import asyncpg

from mainspring.core.ids import JobId, RunId, parse_backfill_id, parse_job_id
from mainspring.core.model import Run, RunKind
from mainspring.core.rates import parse_rate
from tests.chaos.client import Client, JobClient, KnownJob, Log, Noted, Windows, host_now
from tests.chaos.ruled import CALENDAR, CAPPED_QUEUE, HELD_QUEUE, PACED, SHARED
from tools.judge import BackfillMove, BackfillStory, Bound, ChangeKind, History, Pausing
from tools.judge.outside_limits import queue_bound

Ask = Callable[[str], Awaitable[list[Any]]]
_CAPS = (1, 2, 4)
_PACED = {"rate": "6/s", "burst": 4}
_RATES = ("5/s", "20/s", "120/m")
_PATIENCE = 120.0
_LOOK = 0.1
_SECOND = timedelta(seconds=1)
_FOLLOWS = "SELECT version FROM calendar_use WHERE job_id = '{job}' AND calendar = '{calendar}'"
_RANGES = "SELECT id, backfill_id FROM fire_range WHERE backfill_id IS NOT NULL"


@dataclass(slots=True)
class Operator:
    """Does one thing after the other, each repeated until it is known to be done, and notes it.

    Attributes:
        ask: returns a query's rows, straight from PostgreSQL: from when on a clock goes by a calendar is not answered.
        ruled: the jobs with rules, by name.
    """

    client: Client
    jobs: JobClient
    log: Log
    random: Random
    ruled: dict[str, KnownJob]
    ask: Ask
    reached: Counter[str]
    pace: float = 0.3
    bounds: list[Bound] = field(default_factory=list)
    pausings: list[Pausing] = field(default_factory=list)
    stories: dict[str, BackfillStory] = field(default_factory=dict)
    is_stopping: bool = False
    _windows: Windows = ()
    _began_at: datetime = field(default_factory=host_now)
    _looked_at: datetime | None = None

    async def prepare(self) -> None:
        """Set the limits and the calendar that the jobs name."""
        await self._bound(SHARED, {"max_running": 2})
        await self._bound(PACED, _PACED)
        await self._cap_queue(2)
        await self._put_calendar()

    async def run(self) -> None:
        """Do one thing after the other until told to stop; then lift every pause, and let every backfill end."""
        closed = self.ruled["closed"]
        self.log.changes[:] = [
            replace(change, windows=self._windows) if change.job_id == parse_job_id(closed.id) else change
            for change in self.log.changes
        ]
        actions = [
            self._hold,
            self._hold,
            self._lift,
            self._change_cap,
            self._change_queue_cap,
            self._change_calendar,
            self._backfill,
            self._backfill,
            self._change_backfill,
        ]
        while not self.is_stopping:
            await self._look_at_broken()
            await self.random.choice(actions)()
            await asyncio.sleep(self.pace)
        await self._lift()
        await self._look_at_broken()
        await self._stop_broken()
        await self._end_backfills()
        await self._cancel_one()
        await self._end_backfills()

    # -- limits ------------------------------------------------------------------------------------------------

    async def _bound(self, name: str, body: dict[str, Any]) -> None:
        answer = await self.client.insist("PUT", f"/limits/{name}", body)
        _expect(answer.status, {200, 201}, answer.body)
        rate = parse_rate(body["rate"]) if "rate" in body else None
        bound = Bound(
            name=name,
            at=answer.asked_at,
            until=answer.answered_at,
            cap=body.get("max_running"),
            per_second=None if rate is None else rate.count * (_SECOND / rate.per),
            burst=body.get("burst", 0),
        )
        self.bounds.append(bound)

    async def _cap_queue(self, cap: int) -> None:
        answer = await self.client.insist("PUT", f"/queues/{CAPPED_QUEUE}", {"max_running": cap})
        _expect(answer.status, {200, 201}, answer.body)
        name = queue_bound(CAPPED_QUEUE)
        self.bounds.append(Bound(name=name, at=answer.asked_at, until=answer.answered_at, cap=cap))

    async def _change_queue_cap(self) -> None:
        await self._cap_queue(self.random.choice(_CAPS))
        self.reached["queue caps changed"] += 1

    async def _change_cap(self) -> None:
        await self._bound(SHARED, {"max_running": self.random.choice(_CAPS)})
        self.reached["caps changed"] += 1

    # -- pauses ------------------------------------------------------------------------------------------------

    async def _hold(self) -> None:
        mode = self.random.choice(["hold", "skip"])
        body: dict[str, Any] = {"mode": mode, "note": "storm"}
        if self.random.random() < 0.5:
            until = host_now() + timedelta(seconds=self.random.choice([2, 4, 8]))
            body["until"] = until.isoformat()
        answer = await self.client.insist("POST", f"/queues/{HELD_QUEUE}/pause", body)
        if answer.status == 422:  # its end had passed when it was repeated; it may have been made before
            await self._lift()
            return
        _expect(answer.status, {200}, answer.body)
        mine = [view for view in answer.body["items"] if view["name"] == HELD_QUEUE]
        if not mine:  # it has ended by itself meanwhile
            await self._lift()
            return
        since, until = mine[0]["since"], mine[0]["until"]
        self._note_pause(
            at=answer.asked_at,
            by=answer.answered_at,
            mode=mode,
            since=_instant(since),
            until=None if until is None else _instant(until),
        )
        self.reached[f"queues paused, {mode}"] += 1

    async def _lift(self) -> None:
        answer = await self.client.insist("POST", f"/queues/{HELD_QUEUE}/resume")
        _expect(answer.status, {200}, answer.body)
        since = answer.asked_at
        self._note_pause(at=since, by=answer.answered_at, since=since, is_lifted=True)

    def _note_pause(self, **facts: Any) -> None:
        self.pausings.append(Pausing(place=0, scope="queue", name=HELD_QUEUE, **facts))

    # -- calendars ---------------------------------------------------------------------------------------------

    async def _put_calendar(self) -> tuple[int, datetime]:
        """Put a calendar of a few windows around now; return its version, and when it was asked for first."""
        now, windows = host_now().replace(microsecond=0), []
        for _ in range(self.random.randint(2, 5)):
            low = now + timedelta(seconds=self.random.randint(-5, 40))
            windows.append((low, low + timedelta(seconds=self.random.choice([1, 2, 5]))))
        rules = [{"from": _wall(low), "to": _wall(high)} for low, high in windows]
        answer = await self.client.insist("PUT", f"/calendars/{CALENDAR}", {"tz": "UTC", "rules": rules})
        _expect(answer.status, {200, 201}, answer.body)
        self._windows = tuple(windows)
        return answer.body["version"], answer.asked_at

    async def _change_calendar(self) -> None:
        job = self.ruled["closed"]
        job_id = parse_job_id(job.id)
        version, asked_at = await self._put_calendar()
        while (await self._find_followed(job_id)) < version:  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(_LOOK)
        self.log.changes.append(
            Noted(
                job_id=job_id,
                kind=ChangeKind.EDITED,
                at=asked_at,
                until=host_now(),
                version=job.version,
                windows=self._windows,
            )
        )
        self.reached["calendars changed"] += 1

    async def _find_followed(self, job_id: JobId) -> int:
        try:
            [row] = await self.ask(_FOLLOWS.format(job=job_id, calendar=CALENDAR))
        except (OSError, asyncpg.PostgresError):
            return 0
        version: int = row["version"]
        return version

    # -- backfills ---------------------------------------------------------------------------------------------

    async def _backfill(self, *, width: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        job = self.ruled["past"]
        end = host_now() - timedelta(seconds=self.random.choice([5, 30, 200]))
        start = end - timedelta(seconds=width or self.random.choice([20, 60, 120]))
        drawn = {
            "skip_done": self.random.choice(["succeeded", "succeeded", "any", "none"]),
            "rate": self.random.choice(_RATES),
            "max_live": self.random.choice([1, 4, 50]),
        }
        body = {"from": start.isoformat(), "to": end.isoformat(), **drawn, **(options or {})}
        answer = await self.client.insist("POST", f"/jobs/{job.id}/backfills", body)
        _expect(
            answer.status, {202, 409}, answer.body
        )  # another one is under way in its range, or a repetition
        page = await self.client.fetch(f"/backfills?job_id={job.id}&limit=5")
        for view in page["items"]:
            self.stories.setdefault(view["backfill_id"], self._tell(job, view))
        self.reached["backfills made" if answer.status == 202 else "backfills in the way"] += 1

    def _tell(self, job: KnownJob, view: dict[str, Any]) -> BackfillStory:
        rate = parse_rate(view["rate"])
        return BackfillStory(
            name=view["backfill_id"],
            job_id=parse_job_id(job.id),
            from_at=_instant(view["from_time"]),
            to_at=_instant(view["to_time"]),
            skip_done=view["skip_done"],
            count=rate.count,
            per=rate.per,
            max_live=view["max_live"],
            fires=view["fires"],
            place=len(self.log.changes),
        )

    async def _change_backfill(self) -> None:
        if not self.stories:
            return
        change = self.random.choice(["pause", "resume", "resume", "cancel"])
        story = self.stories[self.random.choice(list(self.stories))]
        answer = await self.client.insist("POST", f"/backfills/{story.name}/{change}")
        _expect(answer.status, {200, 409}, answer.body)
        if change == "cancel":
            story.cancelled_at = story.cancelled_at or answer.asked_at

    async def _cancel_one(self) -> None:
        """Make a backfill that takes a while, and cancel it, so that at least one was."""
        before = set(self.stories)
        await self._backfill(width=120, options={"rate": "1/s", "skip_done": "none", "max_live": 1})
        for name in set(self.stories) - before:
            self.stories[name].cancelled_at = host_now()
            await self.client.insist("POST", f"/backfills/{name}/cancel")

    async def _end_backfills(self) -> None:
        """Wait until every backfill is done or cancelled, and note which of both.

        Raises:
            TimeoutError: one does not come to its end.
        """
        deadline = time.monotonic() + _PATIENCE
        for story in [one for one in self.stories.values() if one.state == "open"]:
            await self.client.insist("POST", f"/backfills/{story.name}/resume")
            while True:
                view = await self.client.fetch(f"/backfills/{story.name}")
                if view["state"] in {"done", "cancelled"}:
                    break
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{story.name} does not end: {view}")
                await asyncio.sleep(0.3)
            story.state = view["state"]
            story.steps.append(BackfillMove(at=_instant(view["closed_at"]), runs=(), skipped=view["skipped"]))
            self.reached["backfills done" if story.state == "done" else "backfills cancelled"] += 1

    async def tell(self, history: History) -> None:
        """Add what was operated to a history."""
        await self._read_steps(history.runs)
        history.bounds, history.pausings = self.bounds, self.pausings
        history.backfills = list(self.stories.values())

    async def _read_steps(self, runs: Iterable[Run]) -> None:
        """Give every backfill its steps, from the runs that it has made and what it says at the end."""
        ranges = {row["id"]: str(row["backfill_id"]) for row in await self.ask(_RANGES)}
        made: dict[str, dict[datetime, list[tuple[RunId, datetime]]]] = defaultdict(lambda: defaultdict(list))
        for run in runs:
            if run.kind is RunKind.BACKFILL:
                assert run.fire_range_id is not None
                assert run.fire_at is not None
                made[ranges[run.fire_range_id]][run.created_at].append((run.id, run.fire_at))
        for name, story in self.stories.items():
            steps = sorted(made[str(parse_backfill_id(name))].items())
            story.steps[:0] = [BackfillMove(at=at, runs=tuple(found), skipped=0) for at, found in steps]

    # -- jobs that pause themselves ------------------------------------------------------------------------------

    async def _look_at_broken(self) -> None:
        """Start the job again that has paused itself, and note both."""
        job, seen_at = self.ruled["broken"], host_now()
        view = await self.client.fetch(f"/jobs/{job.id}")
        if view["is_paused"] and not job.is_paused:
            if not view["pause_note"]:
                raise RuntimeError(f"{job.name} is paused, and not by itself: {view}")
            self._note_broken(is_by_itself=True)
            self.reached["jobs paused by themselves"] += 1
            await self.jobs.resume(job)
            seen_at = host_now()
        self._looked_at = seen_at

    async def _stop_broken(self) -> None:
        """Pause that job for good. It may have done so by itself since the last look."""
        await self.client.insist("POST", f"/jobs/{self.ruled['broken'].id}/pause")
        self._note_broken(is_by_itself=False)

    def _note_broken(self, *, is_by_itself: bool) -> None:
        job = self.ruled["broken"]
        job.is_paused = True
        self.log.changes.append(
            Noted(
                job_id=parse_job_id(job.id),
                kind=ChangeKind.PAUSED,
                at=self._looked_at or self._began_at,
                until=host_now(),
                version=job.version,
                is_by_itself=is_by_itself,
            )
        )


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _wall(instant: datetime) -> str:
    return instant.replace(tzinfo=None).isoformat()


def _expect(status: int, expected: set[int], body: object) -> None:
    if status not in expected:
        raise RuntimeError(f"answered {status}: {body}")
