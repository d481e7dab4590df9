"""Answers workers' claims: merges them, chooses lanes fairly, and waits for runs to become ready (design 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter

from mainspring.core.fairness import LaneOrder
from mainspring.core.ids import RunId, SessionId
from mainspring.engine.claiming.abilities import Abilities, KnownSessions
from mainspring.engine.claiming.answers import Answers
from mainspring.engine.claiming.lane_cache import LaneCache
from mainspring.engine.claiming.lane_rounds import POLL_PERIOD
from mainspring.engine.claiming.numbers import LastNumbers
from mainspring.engine.claiming.requests import (
    Granted,
    LaneChoices,
    Request,
    ask,
    asks_for_work,
    count_seats,
    make_plain_request,
)
from mainspring.engine.claiming.reserved import ReservedSlots
from mainspring.engine.claiming.turn import AskingTurn
from mainspring.engine.claiming.waiting import ClaimAnswer, Waiting, WaitingCalls
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.restrictions import RestrictionReader
from mainspring.engine.common.wakeups import RunsNews, Wakeups
from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import Clock, RandomSource, Waiter
from mainspring.ports.gateway import ClaimCall, Registration
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ClaimRequest, ClaimResult
from mainspring.ports.store.limits import LineClaim, LineClaimResult
from mainspring.ports.store.policies import Policies
from mainspring.ports.store.restrictions import Restrictions
from mainspring.ports.store.runs import NewRun
from mainspring.ports.telemetry import Measure

MOST_ASKED = 200
"""Calls in one transaction, of sessions that offer the same. It locks their sessions, so their heartbeats wait for it,
and the first call gets its runs only when the last one has got its own."""


class Matcher:
    """Holds the claim calls of all workers of this process, and serves them together.

    It is a service: each tick answers as many calls as it can with one merged `claim_runs`, and says when to scan
    again. It asks the store only if a lane seems to have ready runs, or if a call may be a repeat. Whatever the store
    then answers goes to the worker, so that a request number is used once. It does not ask for every call that waits.
    Of sessions that offer the same, it starts with the one that has waited longest. The more of them get runs, the more
    it asks for at a time.

    Attributes:
        reserved: how many slots tenants have that some are reserved for.
    """

    name = "claims"

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        random: RandomSource,
        wakeups: Wakeups,
        waiter: Waiter,
        restrictions: RestrictionReader | None = None,
    ) -> None:
        self._store = store
        self._restrictions = restrictions or RestrictionReader(store, CalendarReader(store))
        self._clock = clock
        self._random = random
        self._wakeups = wakeups
        self.waiter = waiter
        self._waiting = WaitingCalls()
        self._sessions = KnownSessions(store)
        self._is_closed = False
        self._numbers = LastNumbers()
        self._lanes = LaneCache()
        self.reserved: ReservedSlots = ReservedSlots(self._lanes.order, clock)
        self._answers = Answers(self._waiting, self._sessions, self._numbers, self._lanes.chooser)
        self._has_news, self._has_hint = True, False
        self._turn, self._straight = AskingTurn(), 0
        wakeups.subscribe_runs(self._on_runs_ready)

    @property
    def order(self) -> LaneOrder:
        """In which order lanes are served, and what tenants have been given."""
        return self._lanes.order

    @property
    def waiting(self) -> int:
        """How many calls wait for work."""
        return len(self._waiting)

    def has_call_of(self, session_id: SessionId) -> bool:
        """Say whether a call of a session waits for work."""
        return self._waiting.get(session_id) is not None

    def measures(self) -> Iterator[Measure]:
        """Yield how many calls wait for work, and how many runs went straight to one."""
        yield Measure("claims_waiting", self.waiting)
        yield Measure("runs_submitted_claimed_total", self._straight)

    def _on_runs_ready(self, news: RunsNews) -> None:
        self._has_news = self._has_hint = True
        if news.lanes is not None:
            self._lanes.hear(news.lanes)
        elif news.marks:
            self._lanes.hear_marks(news.marks)
        else:
            self._lanes.hear_anything()
        self._lanes.make_room(news.keys)
        if self._waiting:
            self.waiter.signal()

    async def claim(self, call: ClaimCall) -> ClaimAnswer:
        """Queue a call, and wait for its answer for at most `call.wait`.

        A newer call of the same session replaces the older one, which gets an empty answer: the worker has stopped
        waiting for it. If the caller is cancelled, the call leaves the queue. What the store has given to it by then
        stays with the session, and a repeat of the number returns it.

        Raises:
            StoreUnavailable: the matcher is closed.
        """
        if self._is_closed:
            raise StoreUnavailable("the engine is stopping")
        future: asyncio.Future[ClaimAnswer] = asyncio.get_running_loop().create_future()
        older = self._waiting.get(call.session_id)
        if older is not None:
            self._answers.resolve(older, ClaimAnswer())
        mine = Waiting(call, future, self._clock.monotonic() + call.wait.total_seconds())
        self._waiting.add(mine)
        self.waiter.signal()
        try:
            return await future
        except asyncio.CancelledError:
            # By the time the session asks here again, another process may have served it under this number.
            self._numbers.forget(call.session_id)
            raise
        finally:
            self._waiting.remove(mine)

    def follow(self, policies: Policies) -> None:
        """Give tenants the shares that are set for them, and serve queues in their orders, from now on."""
        self._lanes.order.weigh({tenant.name: tenant.weight for tenant in policies.tenants.values()})
        self._lanes.order.rule(policies.queues)

    def follow_restrictions(self, restrictions: Restrictions) -> None:
        """Keep these restrictions from now on."""
        self._lanes.held.follow(restrictions)
        self.waiter.signal()

    async def find_ready(self, fits: Callable[[str], bool], now: datetime) -> tuple[datetime, ...]:
        """Return since when, or from when on, lanes of some routes have runs to start: an instant for each.

        It is what the last look at the lanes has found. If that was long ago, it looks again. It waits for a look that
        is under way, which has taken the news and not yet found what they are about.

        Args:
            fits: says of a route whether it is one of them.
        """
        if not self._turn.is_taken and not self._is_to_look():
            return self._lanes.ready_instants(fits, now)
        async with self._turn:
            if self._is_to_look():
                self._has_news = False
                await self._lanes.settle(self._restrictions, now)
                await self._lanes.read(self._store, self._clock, self._random, now)
                if self._waiting:
                    self.waiter.signal()  # whatever the look has found for those that wait
        return self._lanes.ready_instants(fits, now)

    def _is_to_look(self) -> bool:
        return self._has_news or self._lanes.is_old(self._clock.monotonic())

    def learn(self, tenant: str, seconds: float) -> None:
        """Note how long an attempt of a tenant held its slot."""
        self._lanes.order.times.learn(tenant, seconds)

    def close(self) -> None:
        """Answer the calls that wait, and refuse new ones, because the engine is stopping."""
        self._is_closed = True
        self._waiting.close()

    def dismiss(self) -> None:
        """Answer the calls that wait: accounts or tokens have changed, and whoever asks again is looked at anew."""
        for item in self._waiting.all():
            self._answers.dismiss(item)

    def welcome(self, session_id: SessionId, offer: Registration) -> None:
        """Note what a session offers that was just opened, and that its first call cannot be a repeat."""
        self._numbers.note(session_id, 0)
        self._sessions.welcome(session_id, offer)

    def forget(self, session_id: SessionId) -> None:
        """Drop what is kept about a session that has ended."""
        self._answers.forget(session_id)

    async def tick(self, now: datetime) -> float:
        """Serve the calls that wait. Return the seconds until something may become ready, or a wait ends."""
        if not self._waiting:
            return POLL_PERIOD
        async with self._turn:
            return await self._serve(now)

    async def _serve(self, now: datetime) -> float:
        at = self._clock.monotonic()
        await self._lanes.settle(self._restrictions, now)
        if self._has_hint and await self._claim_speculatively(now):
            return 0.0  # there may be more, and others may wait for it
        if self._is_to_look():
            self._has_news = False
            await self._lanes.read(self._store, self._clock, self._random, now)
        await self.reserved.renew(self._store, now)
        await self._lanes.peek(self._store, now)
        await self._know_sessions(at)
        if self._lanes.held.is_over(self._clock.now()):
            return 0.0  # a blackout has begun during the looks
        asked, requests, passed = self._choose(self._concerned(at, now), now)
        for item in asked:
            self._answers.put_in_doubt(item)
        self._lanes.begin_claims()
        for kind in (ClaimRequest, LineClaim):
            places = [place for place, request in enumerate(requests) if isinstance(request, kind)]
            if places:
                chosen = [requests[place] for place in places]
                self._take(
                    [asked[place] for place in places], chosen, await ask(self._store, chosen, now), now
                )
        for item, may_be_next in passed:
            # Under load there is always news. It must not hold up calls for which nothing is ready.
            if not (may_be_next and self._has_news):
                self._answers.give_if_over(item, self._clock.monotonic(), now)
        if self._waiting and not self._has_news:
            self._wakeups.runs_wanted()
        return self._delay(now)

    async def _claim_speculatively(self, now: datetime) -> bool:
        """Answer the longest waiting call with what a hint has announced, before the lanes are read.

        That saves an idle worker a round trip. Return False if it got nothing; then nothing has happened.
        """
        self._has_hint = False
        item = self._waiting.first_in_line()
        if item is None or self._numbers.may_repeat(item.call):
            return False
        abilities = self._sessions.find(item.call)
        if abilities is None or item.call.function_limit:
            return False
        choice = self._lanes.chooser.choose_speculatively(abilities, now)
        if choice is None:
            return False
        request = make_plain_request(item.call, choice, item.call.limit)
        self._answers.put_in_doubt(item)
        result = await self._store.try_claim(request, now=now)
        if result is None:
            self._answers.put_beyond_doubt(item)
            return False
        self._take([item], [request], [result], now)
        return True

    async def submit_claimed(self, run: NewRun, *, now: datetime) -> RunId | None:
        """Submit a plain run straight to a call that waits for one, so that the call's session runs it at once.

        The longest waiting of those that can execute it gets it, as if the run had been submitted and then claimed.
        None if there is none, or if anything may come before the run; then nothing has happened.

        Raises:
            StoreUnavailable: it is unknown whether the run was submitted. If it was, a repeat of the call finds it.
        """
        # Cheap for those who submit to a busy engine. After news, the lanes have to be read first.
        if not self._waiting or self._has_news or self._turn.is_taken or self._is_closed:
            return None
        if (found := self._find_call_for(run, now)) is None:
            return None
        item, request = found
        async with self._turn:  # the tick does not ask for the same call meanwhile
            self._answers.put_in_doubt(item)
            try:
                claimed = await self._store.submit_claimed(run, request=request, now=now)
            except BaseException:
                self.waiter.signal()  # to the tick, which asks again for the call
                raise
            if claimed is None:
                self._answers.put_beyond_doubt(item)
                return None
            self._straight += 1
            if (abilities := self._sessions.find(item.call)) is not None:
                self._lanes.order.charge_lane(abilities.reach, run.lane, 1)
            self.reserved.note((claimed,), now)
            self._answers.give(item, ClaimResult((claimed,)), now)
            return claimed.run_id

    def _find_call_for(self, run: NewRun, now: datetime) -> tuple[Waiting, ClaimRequest] | None:
        """Return the longest waiting call that can get a new run, and the request for it."""
        for item in self._waiting.first_in_lines():
            abilities = self._sessions.find(item.call)
            if abilities is None or item.future.done() or self._numbers.may_repeat(item.call):
                continue
            choice = self._lanes.chooser.choose_for_new(run.lane, abilities, now)
            if choice is not None:
                # Whatever function it is for: abilities are without those that the call has no room for.
                return item, make_plain_request(item.call, choice, 1)
        return None

    def _concerned(self, at: float, now: datetime) -> list[Waiting]:
        """Return the calls that this tick may ask the store for, or answer, the longest waiting first.

        Of sessions that offer the same, it returns only as many calls as are worth asking for. Thousands may wait, and
        otherwise each tick would examine all of them. If a quarantined run waits, it returns all calls, because any
        busy worker may have to drain for it.
        """
        if self._lanes.chooser.has_quarantined(now):
            return self._waiting.all()
        found = self._waiting.new() + self._waiting.over(at)
        if self._lanes.chooser.has_ready(now):
            found += self._waiting.first_of_each()
        return sorted(dict.fromkeys(found), key=_arrival)

    def _choose(
        self, waiting: list[Waiting], now: datetime
    ) -> tuple[list[Waiting], list[Request], list[tuple[Waiting, bool]]]:
        """Return for which calls to ask the store, the requests, and the calls that are passed over.

        With each call passed over comes whether something is ready for it, so that only others go first.
        """
        asked: list[Waiting] = []
        requests: list[Request] = []
        passed: list[tuple[Waiting, bool]] = []
        choices = LaneChoices(self._lanes.chooser, count_seats(waiting, self._sessions), self._sessions, now)
        turns: dict[Abilities, int] = {}
        for item in waiting:
            if item.future.done():
                continue  # it was replaced, or its caller left during the read: take nothing for it
            abilities = self._sessions.find(item.call)
            if abilities is None:
                self._answers.resolve(item, ClaimAnswer(is_session_live=False))
                self._answers.forget(item.call.session_id)
                continue
            self._waiting.line_up(item, abilities)
            request = choices.request(item.call, abilities)
            has_work = asks_for_work(request)
            is_due = has_work and turns.get(abilities, 0) < abilities.width
            if is_due or self._numbers.may_repeat(item.call):
                turns[abilities] = turns.get(abilities, 0) + has_work
                asked.append(item)
                requests.append(request)
            else:
                passed.append((item, has_work))
        return asked, requests, passed

    def _take(
        self,
        asked: Sequence[Waiting],
        requests: Sequence[Request],
        results: Sequence[ClaimResult | LineClaimResult],
        now: datetime,
    ) -> None:
        lucky: dict[Abilities, int] = {}
        given: dict[Abilities, Granted] = {}
        for item, request, result in zip(asked, requests, results, strict=True):
            if result.is_policy_old:
                self._answers.put_beyond_doubt(item)
                self._lanes.held.is_outdated = True
                continue
            abilities = self._sessions.find(item.call)
            if abilities is not None:
                lucky[abilities] = lucky.get(abilities, 0) + bool(result.runs)
            if asks_for_work(request):
                self._lanes.expire(request, result, now)
                if abilities is not None:
                    given.setdefault(abilities, Granted()).add(request, result)
                    if isinstance(request, LineClaim):
                        abilities.are_lines_short = len(result.runs) < request.limit
                if len(result.runs) >= request.limit:  # of a batch, a slot takes many
                    self._has_news = True  # there may be more than was taken
            self.reserved.note(result.runs, now)
            self._answers.give(item, result, now)
        for abilities, one in given.items():
            if self._lanes.order.charge(abilities.reach, one.taken, one.quotas, one.seats):
                self._has_news = True
        for abilities, count in lucky.items():
            abilities.widen(count, most=MOST_ASKED)

    async def _know_sessions(self, at: float) -> None:
        if not await self._sessions.read(self._waiting, at):
            return
        self._numbers.keep(self._sessions)
        for item in self._waiting.all():
            if item.call.session_id not in self._sessions:
                self._waiting.renew(item.call.session_id)  # the next tick tells it

    def _delay(self, now: datetime) -> float:
        if not self._waiting:
            return POLL_PERIOD
        if self._has_news:
            return 0.0
        at = self._clock.monotonic()
        delays = [self._lanes.due_in(at), self._waiting.first_end() - at, self._lanes.ready_in(now)]
        return max(min(delay for delay in delays if delay is not None), 0.0)


_arrival = attrgetter("arrival")
