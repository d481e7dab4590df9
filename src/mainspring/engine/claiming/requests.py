"""The store's requests for claim calls, from the lanes that are chosen for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import cast

from mainspring.core.ids import LaneId
from mainspring.engine.claiming.abilities import Abilities, KnownSessions
from mainspring.engine.claiming.lane_choices import LaneChoice, LaneChooser
from mainspring.engine.claiming.waiting import Waiting
from mainspring.ports.gateway import ClaimCall, FunctionLimit
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ClaimRequest, ClaimResult
from mainspring.ports.store.limits import LineClaim, LineClaimResult, LineKey

Request = ClaimRequest | LineClaim


def asks_for_work(request: Request) -> bool:
    """Say whether a request is for more than what an earlier one got."""
    return bool(request.lines if isinstance(request, LineClaim) else request.lanes)


async def ask(
    store: Store, requests: Sequence[Request], now: datetime
) -> Sequence[ClaimResult | LineClaimResult]:
    """Ask the store for requests of one kind."""
    lined_up = [request for request in requests if isinstance(request, LineClaim)]
    if lined_up:
        return await store.claim_lined_up(lined_up, now=now)
    return await store.claim_runs([one for one in requests if isinstance(one, ClaimRequest)], now=now)


def count_seats(waiting: Iterable[Waiting], sessions: KnownSessions) -> dict[Abilities, int]:
    """Return for how many runs the store will be asked, of sessions that offer the same."""
    turns: dict[Abilities, int] = {}
    seats: dict[Abilities, int] = {}
    for item in waiting:
        abilities = sessions.find(item.call)
        if abilities is None or turns.get(abilities, 0) >= abilities.width:
            continue
        turns[abilities] = turns.get(abilities, 0) + 1
        seats[abilities] = seats.get(abilities, 0) + item.call.limit
    return seats


@dataclass(slots=True)
class Granted:
    """What sessions that offer the same were given by one call.

    Attributes:
        taken: how many runs of each lane.
        quotas: how many it could have been.
        seats: for how many runs they asked.
    """

    taken: Counter[LaneId] = field(default_factory=Counter)
    quotas: dict[LaneId, int] = field(default_factory=dict)
    seats: int = 0

    def add(self, request: Request, result: ClaimResult | LineClaimResult) -> None:
        """Add what one of them was given."""
        self.seats += request.limit
        if isinstance(request, LineClaim):
            for line, count in result.taken.items():
                self.taken[cast("LineKey", line).lane_id] += count
            if not self.quotas:
                for quota in request.lines:
                    lane_id = quota.key.lane_id
                    self.quotas[lane_id] = self.quotas.get(lane_id, 0) + quota.quota
        else:
            self.taken.update(cast("Mapping[LaneId, int]", result.taken))
            self.quotas.update(request.quotas)


class LaneChoices:
    """Chooses lanes once for all calls of sessions that offer the same, so that the calls share them.

    Args:
        chooser: chooses them.
        seats: for how many runs the store is asked, of sessions that offer the same.
        sessions: says how many slots a session has.
        now: the store's time.
    """

    def __init__(
        self, chooser: LaneChooser, seats: Mapping[Abilities, int], sessions: KnownSessions, now: datetime
    ) -> None:
        self._chooser = chooser
        self._sessions = sessions
        self._seats = seats
        self._now = now
        self._made: dict[Abilities, LaneChoice] = {}

    def request(self, call: ClaimCall, abilities: Abilities) -> Request:
        """Return the request for a call."""
        seats = max(self._seats.get(abilities, call.limit), 1)
        choice, limit, bound = self._choose(abilities, seats), call.limit, call.function_limit
        if bound is not None and 0 < bound.limit < limit:
            others = self._choose(abilities.without(bound.functions), seats)
            choice, limit = divide(choice, others, bound, limit)
        if choice.are_batches or (choice.caps and choice.lines):
            # Whatever a worker claims ahead of its slots, it is not whole batches, nor what others wait to start.
            limit = min(limit, self._sessions.slots(call.session_id))
        return make_request(call, choice, limit)

    def _choose(self, abilities: Abilities, seats: int) -> LaneChoice:
        made = self._made.get(abilities)
        if made is None:
            made = self._made[abilities] = self._chooser.choose(abilities, seats, self._now)
        return made


def divide(
    choice: LaneChoice, others: LaneChoice, bound: FunctionLimit, limit: int
) -> tuple[LaneChoice, int]:
    """Return the lanes and the limit for one claim, so that it stays within its limit on functions.

    It takes either from the lanes of these functions or from the others, depending on which kind is preferred first.
    The worker has slots left then, and claims again.
    """
    unbounded = set(others.lanes)
    if not choice.lanes or choice.lanes[0] in unbounded:
        caps = {**choice.caps, **others.caps}
        return replace(others, quarantined=choice.quarantined, caps=caps), limit
    lanes = tuple(lane_id for lane_id in choice.lanes if lane_id not in unbounded)
    lows = {key: low for key, low in choice.lows.items() if key not in unbounded}
    lines = tuple(line for line in choice.lines if line.key.lane_id not in unbounded)
    return replace(choice, lanes=lanes, lows=lows, lines=lines), bound.limit


def make_request(call: ClaimCall, choice: LaneChoice, limit: int) -> Request:
    """Return the request for at most this many runs, or for a quarantined one if one waits for an idle session."""
    is_repeat = call.limit == 0
    if is_repeat or (call.is_idle and choice.quarantined) or not choice.lines:
        return make_plain_request(call, choice, limit)
    return LineClaim(
        session_id=call.session_id,
        number=call.number,
        limit=limit,
        lines=choice.lines,
        policy_epoch=choice.policy_epoch,
        are_batches=choice.are_batches,
        is_oldest_first=choice.is_oldest_first,
        caps=choice.caps,
    )


def make_plain_request(call: ClaimCall, choice: LaneChoice, limit: int) -> ClaimRequest:
    """Return the request for runs without limits, or for a quarantined one."""
    if call.limit == 0:
        return ClaimRequest(
            session_id=call.session_id,
            number=call.number,
            lanes=(),
            limit=0,
            policy_epoch=choice.policy_epoch,
        )
    if call.is_idle and choice.quarantined:
        return ClaimRequest(
            session_id=call.session_id,
            number=call.number,
            lanes=choice.quarantined,
            limit=1,
            is_quarantined=True,
            policy_epoch=choice.policy_epoch,
            caps=choice.caps,
        )
    return ClaimRequest(
        session_id=call.session_id,
        number=call.number,
        lanes=choice.lanes,
        limit=limit,
        lows=choice.lows,
        quotas=choice.quotas,
        policy_epoch=choice.policy_epoch,
    )
