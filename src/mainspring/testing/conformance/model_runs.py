"""The moves of the model walk that submit runs, claim them and end them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from mainspring.core import outcomes
from mainspring.core.ids import RunId, SessionId
from mainspring.core.model import JobSpec
from mainspring.core.once import (
    DebounceRule,
    OnceGuard,
    OnceRule,
    OnConflict,
    ThrottleRule,
    UniqueRule,
    UniqueScope,
)
from mainspring.core.outcomes import AttemptFacts, AttemptOutcome, Failure, Transition
from mainspring.core.states import RunState
from mainspring.ports.store.runs import IdempotencyKey
from mainspring.testing.conformance.model_walk import Claimed, WalkBase
from mainspring.testing.factories import make_session


class RunMoves(WalkBase):
    """Submitting, claiming, ending, cancelling; sessions, heartbeats, and the janitor."""

    # -- runs --------------------------------------------------------------------------------------------------

    async def submit(self) -> None:
        runs = []
        for _ in range(self.random.randint(1, 6)):
            job = await self.some_job()
            if job is None:
                return
            key = None
            if self.chance(0.3):
                key = IdempotencyKey(
                    key=f"key {self.random.randrange(4)}",
                    request_hash=self.random.choice((b"a", b"b")),
                    expires_at=self.now + timedelta(seconds=self.random.randrange(1, 300), microseconds=1),
                )
            runs.append(
                self.new_run(job, submit_key=key, target_key=key and key.key, must_be_newest=self.chance(0.3))
            )
        await self.agree(lambda side: side.submit(runs, self.now))

    async def submit_guarded(self) -> None:
        """Submit runs with few keys of what runs once, some with idempotency keys too."""
        runs = []
        for _ in range(self.random.randint(1, 6)):
            job = await self.some_job()
            if job is None:
                return
            name, rule = self.random.choice(list(self._rules().items()))
            guard = OnceGuard(f"{name} {self.random.randrange(2)}".encode().ljust(16, b"-"), rule)
            key = None
            if self.chance(0.2):
                key = IdempotencyKey(
                    key=f"guarded {self.random.randrange(4)}",
                    request_hash=self.random.choice((b"a", b"b")),
                    expires_at=self.now + timedelta(seconds=self.random.randrange(1, 300), microseconds=1),
                )
            runs.append(self.new_run(job, once=guard, submit_key=key, skip_reason=None))
        await self.agree(lambda side: side.submit(runs, self.now))

    def _rules(self) -> dict[str, OnceRule]:
        wait = self.tick() - self.now + timedelta(seconds=5)  # no other run is ready at that instant
        minute = timedelta(minutes=1)
        queued, replacing = UniqueScope.QUEUED, OnConflict.REPLACE
        return {
            "live": UniqueRule(),
            "reject": UniqueRule(on_conflict=OnConflict.REJECT),
            "queued": UniqueRule(scope=queued, on_conflict=self.random.choice(list(OnConflict))),
            "period": UniqueRule(scope=UniqueScope.PERIOD, period=minute, on_conflict=replacing),
            "debounce": DebounceRule(wait=wait),
            "throttle": ThrottleRule(limit=self.random.randint(1, 3), per=minute),
        }

    async def open_session(self) -> None:
        offer = make_session(worker=f"worker {len(self.numbers)}")
        await self.agree(lambda side: side.open_session(offer, self.now))
        self.numbers.append(0)

    async def claim(self) -> None:
        requests: list[dict[str, Any]] = []
        sessions = await self.some_sessions(3)
        if sessions and self.chance(0.1):
            sessions.append(sessions[0])  # this one claims twice in one call
        for session in sessions:
            if not self.chance(0.1) or not self.numbers[session]:
                self.numbers[session] += 1
            number = self.numbers[session]
            keys = list(self.lane_keys)
            self.random.shuffle(keys)
            requests.append(
                {
                    "session": session,
                    "number": number - 1 if self.chance(0.05) else number,
                    "keys": keys[: self.random.randint(1, 5)],
                    "limit": self.random.randint(0, 4),
                    "low": self.now - timedelta(seconds=60) if self.chance(0.5) else None,
                    "quota": self.random.randint(0, 2) if self.chance(0.5) else None,
                    "is_quarantined": self.chance(0.4),
                }
            )
        results = await self.agree(lambda side: side.claim(requests, self.now + timedelta(milliseconds=500)))
        for request, (_, runs) in zip(requests, results, strict=True):
            for serial, token, job_id, version, _, attempt, *_ in runs:
                [spec] = await self.reference.store.read_versions([(job_id, version)])
                assert spec is not None
                self.leases.append(Claimed(serial, token, request["session"], attempt, spec))

    async def submit_claimed(self) -> None:
        job = await self.some_job()
        sessions = await self.some_sessions(1)
        if job is None or not sessions:
            return
        [session] = sessions
        self.numbers[session] += not self.chance(0.1)
        run = self.new_run(job, must_be_newest=self.chance(0.3))
        if self.chance(0.8):  # else it may be for later
            run = replace(run, due_at=min(run.due_at, self.now))
        keys = [key for key in self.lane_keys if self.chance(0.15)]
        request = {
            "session": session,
            "number": self.numbers[session],
            "keys": [run.lane, *keys] if self.chance(0.9) else keys,
            "limit": 1,
            "low": self.now - timedelta(seconds=60) if self.chance(0.5) else None,
            "quota": None,
        }
        claimed = await self.agree(lambda side: side.submit_claimed(run, request, self.now))
        if claimed is not None:
            serial, token, job_id, version, _, attempt, *_ = claimed
            [spec] = await self.reference.store.read_versions([(job_id, version)])
            assert spec is not None
            self.leases.append(Claimed(serial, token, session, attempt, spec))

    async def apply(self) -> None:
        batch: list[tuple[int, Transition]] = []
        for _ in range(self.random.randint(1, 6)):
            if not self.leases:
                return
            lease = self.random.choice(self.leases)
            held = await self.reference.held(lease.serial)
            is_held = held is not None and held.token == lease.token
            if not is_held and self.chance(0.8):
                continue
            is_strangers = self.chance(0.1)
            facts = AttemptFacts(
                run_id=RunId(0),
                token=lease.token,
                session_id=SessionId(
                    self.random.randrange(len(self.numbers)) if is_strangers else lease.session
                ),
                attempt=held.attempt if held is not None and is_held else lease.attempt,
                is_quarantined=held is not None and is_held and held.is_quarantined,
                quarantined_crashes=held.quarantined_crashes if held is not None and is_held else 0,
                is_cancel_requested=held is not None and held.is_cancel_requested and self.chance(0.5),
            )
            batch.append((lease.serial, self._end(facts, lease.spec)))
            if self.chance(0.1):  # the same run again, with the same end or another one
                batch.append(batch[-1] if self.chance(0.3) else (lease.serial, self._end(facts, lease.spec)))
        await self.agree(lambda side: side.apply(batch, self.now))
        self.ends.extend(batch)

    def _end(self, facts: AttemptFacts, spec: JobSpec) -> Transition:
        kind = self.random.choice(
            ("succeeded", "succeeded", "failed", "lost", "handed_back", "snoozed", "cancelled")
        )
        instant = self.tick()
        if kind == "succeeded":
            return outcomes.succeeded(facts.run_id, facts.token, facts.session_id, b"1", "out")
        if kind == "failed":
            failure = Failure(error="boom", is_retryable=self.chance(0.8), is_timeout=self.chance(0.2))
            return outcomes.failed(facts, spec, failure, now=instant, random=self.random.random)
        if kind == "lost":
            return outcomes.lost(facts, spec, now=instant)
        if kind == "handed_back":
            return outcomes.handed_back(facts, spec, now=instant, was_started=True)
        if kind == "snoozed":
            return outcomes.snoozed(facts, until=instant)
        return outcomes.cancelled(facts, error="stopped")

    async def repeat_end(self) -> None:
        if self.ends:
            serial, end = self.random.choice(self.ends[-30:])
            if self.chance(0.2):
                end = replace(end, outcome=self.random.choice(list(AttemptOutcome)))
            if self.chance(0.2):
                end = replace(end, session_id=SessionId(self.random.randrange(len(self.numbers))))
            await self.agree(lambda side: side.apply([(serial, end)], self.now))

    async def cancel(self) -> None:
        if self.reference.run_ids:
            known = list(self.reference.run_ids)[-40:]
            serials = self.random.sample(known, min(len(known), 40 if self.chance(0.05) else 3))
            if self.chance(0.1):
                serials += serials[:1]
            await self.agree(lambda side: side.cancel(serials, self.now))

    async def expire_runs(self) -> None:
        await self.agree(lambda side: side.expire_runs(self.now))

    # -- sessions and upkeep -----------------------------------------------------------------------------------

    async def beat(self) -> None:
        beats = []
        for session in await self.some_sessions(2):
            held = await self.reference.store.get_runs(list(self.reference.serials))
            mine = [
                (self.reference.serials[run.id], run.token)
                for run in held
                if run is not None
                and run.state is RunState.RUNNING
                and run.session_id == self.reference.sessions[session]
                and self.chance(0.7)
            ]
            stray = [(lease.serial, lease.token) for lease in self.leases[-3:] if self.chance(0.3)]
            last = self.numbers[session]
            answered = self.random.choice((None, last, max(last - 1, 0)))
            beats.append((session, list(dict.fromkeys(mine + stray)), answered))
        await self.agree(lambda side: side.beat(beats, self.now))

    async def end_session(self) -> None:
        counters: dict[int, int] = await self.agree(lambda side: side.counters())
        if len(counters) < 2:
            return
        session = self.random.choice(sorted(counters))
        if self.chance(0.4):
            await self.agree(lambda side: side.store.close_sessions([side.sessions[session]], now=self.now))
        else:
            judged = [(session, counters[session] - self.chance(0.2))]
            await self.agree(lambda side: side.expire_sessions(judged, self.now))

    async def prune(self) -> None:
        past = self.now - timedelta(seconds=60)
        await self.agree(lambda side: side.prune_history(before=self.now - timedelta(seconds=600)))
        await self.agree(lambda side: side.store.prune_keys(now=self.now, limit=1000))
        await self.agree(lambda side: side.store.prune_unique_keys(now=self.now, after=None, limit=1000))
        await self.agree(lambda side: side.store.prune_sessions(before=past, limit=1000))
        await self.agree(lambda side: side.store.prune_lanes(limit=1000))
