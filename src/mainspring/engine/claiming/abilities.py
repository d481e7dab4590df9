"""What the sessions that ask for work can execute."""

from __future__ import annotations

from mainspring.core.claiming import accepts_route
from mainspring.core.ids import SessionId
from mainspring.core.model import LaneKey
from mainspring.core.reach import Reach
from mainspring.engine.claiming.waiting import WaitingCalls
from mainspring.ports.gateway import ClaimCall, Registration
from mainspring.ports.store import Store
from mainspring.ports.store.sessions import SessionFacts

SESSIONS_PERIOD = 5.0
"""A call gets an empty answer only if its session was seen alive within this many seconds."""
_MOST_KEPT = 16
"""Sets of functions for which an `Abilities` keeps the rest. Usually all its sessions name the same set."""

AbilityKey = tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str], str | None]


class Abilities:
    """What a session can execute, and which routes that includes. Sessions with the same offer share one object.

    Attributes:
        tenant: the only one whose runs it gets; None means all.
        reach: what that is at the moment.
        width: for how many of their calls it is worth asking the store at a time; grows while all that ask get runs.
        is_turn_of_lines: the last claim that could have got runs with limits and others went to those with limits.
        are_lines_short: the last claim of runs with limits did not fill its seats.
        is_turn_of_batches: the last claim that could have got batches and runs with limits went to batches.
    """

    __slots__ = (
        "_routes",
        "_without",
        "are_lines_short",
        "functions",
        "is_turn_of_batches",
        "is_turn_of_lines",
        "labels",
        "queues",
        "reach",
        "tenant",
        "types",
        "width",
    )

    def __init__(self, offer: SessionFacts | Registration | Abilities) -> None:
        self.queues: frozenset[str] = frozenset(offer.queues)
        self.types: frozenset[str] = frozenset(offer.types)
        self.functions: frozenset[str] = frozenset(offer.functions)
        self.labels: frozenset[str] = frozenset(offer.labels)
        self.tenant: str | None = offer.tenant
        self.reach: Reach = Reach(self.serve, tenant=offer.tenant)
        self._routes: dict[str, bool] = {}
        self._without: dict[frozenset[str], Abilities] = {}
        self.width: int = 1
        self.is_turn_of_lines: bool = False
        self.are_lines_short: bool = False
        self.is_turn_of_batches: bool = False

    def widen(self, lucky: int, *, most: int) -> None:
        """Note how many of the calls that were asked for got runs. If all did, there may be as much again."""
        self.width = min(max(2 * lucky if lucky >= self.width else lucky, 1), most)

    @property
    def key(self) -> AbilityKey:
        """The offer. Two objects with the same key are equal in what they can execute, and for whom."""
        return self.queues, self.types, self.functions, self.labels, self.tenant

    def without(self, functions: frozenset[str]) -> Abilities:
        """Return what is left if none of these functions can be executed."""
        known = self._without.get(functions)
        if known is None:
            if len(self._without) >= _MOST_KEPT:
                self._without.clear()
            known = self._without[functions] = Abilities(self)
            known.functions -= functions
        return known

    def serve(self, queue: str, route: str) -> bool:
        """Return whether runs of a queue and a route can be executed, if they are of the tenant."""
        if self.queues and queue not in self.queues:
            return False
        known = self._routes.get(route)
        if known is None:
            known = accepts_route(route, types=self.types, functions=self.functions, labels=self.labels)
            self._routes[route] = known
        return known

    def serve_lane(self, lane: LaneKey) -> bool:
        """Return whether runs of a lane can be executed, and are of the tenant."""
        return (self.tenant is None or lane.tenant == self.tenant) and self.serve(lane.queue, lane.route)


class KnownSessions:
    """The sessions that are alive, as far as this process knows, and what each of them can execute."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._abilities: dict[SessionId, Abilities] = {}
        self._shared: dict[AbilityKey, Abilities] = {}
        self._slots: dict[SessionId, int] = {}
        self._read_at = -1.0e9

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._abilities

    def welcome(self, session_id: SessionId, offer: Registration) -> None:
        """Note what a session offers that was just opened."""
        self._abilities[session_id] = self._share(Abilities(offer))
        self._slots[session_id] = offer.slots

    def forget(self, session_id: SessionId) -> None:
        """Drop what is known of a session that has ended."""
        self._abilities.pop(session_id, None)
        self._slots.pop(session_id, None)

    def get(self, session_id: SessionId) -> Abilities | None:
        """Return what a session offers; None if it is not known to be alive."""
        return self._abilities.get(session_id)

    def slots(self, session_id: SessionId) -> int:
        """Return how many attempts a session can run at a time; 1 if it is not known."""
        return self._slots.get(session_id, 1)

    def find(self, call: ClaimCall) -> Abilities | None:
        """Return what a call can get: what its session offers, without the functions that it has no room for."""
        abilities = self._abilities.get(call.session_id)
        bound = call.function_limit
        if abilities is None or bound is None or bound.limit:
            return abilities
        return abilities.without(bound.functions)

    async def read(self, waiting: WaitingCalls, at: float) -> bool:
        """Read which sessions are alive, if one that asks is unknown, or if one may have ended before its call.

        Return whether they were read.
        """
        is_unknown = any(item.call.session_id not in self._abilities for item in waiting.new())
        if not is_unknown and not (at - self._read_at >= SESSIONS_PERIOD and waiting.over(at)):
            return False
        before = set(self._abilities)  # the read may miss sessions that are welcomed meanwhile
        if is_unknown:
            offers = {session.id: session for session in await self._store.list_sessions()}
            live = {key: abilities for key, abilities in self._abilities.items() if key not in before}
            self._slots |= {key: offer.slots for key, offer in offers.items()}
            for key, offer in offers.items():
                live[key] = self._abilities.get(key) or self._share(Abilities(offer))
        else:
            # Their offers never change, and reading thousands of full rows would hold up everything else.
            pulses = await self._store.read_pulses()
            live = {
                key: abilities
                for key, abilities in self._abilities.items()
                if key in pulses or key not in before
            }
        self._read_at = at
        self._abilities = live
        if len(self._slots) > len(live):
            self._slots = {key: slots for key, slots in self._slots.items() if key in live}
        self._shared = {abilities.key: abilities for abilities in live.values()}
        return True

    def _share(self, abilities: Abilities) -> Abilities:
        return self._shared.setdefault(abilities.key, abilities)
