"""Caps of queues, tenants and labels: how many of their runs may be under way at a time, in the whole cluster.

They are about lanes: a full one passes over whole lanes. A cap is a rule of the cluster with one key, so its places are
those of all other limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from mainspring.core.ids import KeyId, RunId
from mainspring.core.kinds import Whole
from mainspring.core.limits import MOST_RUNNING, LimitRule, RunKey
from mainspring.core.model import LaneKey
from mainspring.core.options import Option, Options
from mainspring.core.values import value


class CapScope(StrEnum):
    """What a cap is of."""

    QUEUE = "queue"
    TENANT = "tenant"
    LABEL = "label"


class CapKey(NamedTuple):
    """What is capped; there is one cap of each."""

    scope: CapScope
    name: str

    @property
    def limit(self) -> str:
        """The name of its rule. No user can give a name with a colon."""
        return f"{self.scope.value}:{self.name}"

    @property
    def run_key(self) -> RunKey:
        """What its runs are counted under."""
        return RunKey(self.limit, "")

    @property
    def what(self) -> str:
        """What is capped, as it stands in a sentence."""
        return f"{self.scope.value} {self.name!r}"


@value()
class LaneCap:
    """A cap.

    Attributes:
        max_running: how many runs may be under way at a time; None is no cap.
    """

    key: CapKey
    max_running: int | None

    @property
    def rule(self) -> LimitRule:
        """The cap as a rule of the cluster."""
        return LimitRule(name=self.key.limit, max_running=self.max_running)


class KnownCap(NamedTuple):
    """A cap that is set, and the key of its places."""

    max_running: int
    key_id: KeyId


class LaneCaps:
    """All caps that are set, as of one instant."""

    __slots__ = ("_caps",)

    def __init__(self, caps: Mapping[CapKey, KnownCap] | None = None) -> None:
        self._caps = dict(sorted((caps or {}).items()))

    def __bool__(self) -> bool:
        return bool(self._caps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LaneCaps) and other._caps == self._caps

    def __hash__(self) -> int:
        return hash(tuple(self._caps.items()))

    def get(self, key: CapKey) -> int | None:
        """Return how many runs may be under way at a time; None: there is no cap."""
        known = self._caps.get(key)
        return None if known is None else known.max_running

    def of(self, scope: CapScope) -> list[LaneCap]:
        """Return the caps of one scope, by name."""
        return [LaneCap(key, cap.max_running) for key, cap in self._caps.items() if key.scope is scope]

    def about(self, lane: LaneKey) -> list[LaneCap]:
        """Return the caps that a lane's runs are counted under."""
        return [LaneCap(key, self._caps[key].max_running) for key in cap_keys_of(lane) if key in self._caps]

    def keys_of(self, lane: LaneKey) -> tuple[KeyId, ...]:
        """Return the keys under which a lane's runs need places; none for most lanes."""
        if not self._caps:
            return ()
        return tuple(self._caps[key].key_id for key in cap_keys_of(lane) if key in self._caps)

    def key_of_tenant(self, tenant: str) -> KeyId | None:
        """Return the key under which a tenant's runs need places, if it has a cap."""
        known = self._caps.get(CapKey(CapScope.TENANT, tenant))
        return None if known is None else known.key_id


NO_CAPS = LaneCaps()


def cap_keys_of(lane: LaneKey) -> list[CapKey]:
    """Return what could be capped of a lane: its queue, its tenant, and the labels that its runs need."""
    keys = [CapKey(CapScope.QUEUE, lane.queue), CapKey(CapScope.TENANT, lane.tenant)]
    if "+" in lane.route:
        keys += [CapKey(CapScope.LABEL, label) for label in labels_of(lane.route)]
    return keys


def labels_of(route: str) -> list[str]:
    """Return the labels that the runs of a route need (see `JobSpec.route`), each once."""
    _, *parts = (part.replace("%2B", "+").replace("%25", "%") for part in route.split("+"))
    return list(dict.fromkeys(part for part in parts if not part.startswith("*")))


def cap_key_of(limit: str) -> CapKey:
    """Return what the cap is of whose rule has this name."""
    scope, _, name = limit.partition(":")
    return CapKey(CapScope(scope), name)


class CapHolder(NamedTuple):
    """A run that has a place under a cap."""

    run_id: RunId
    tenant: str


@value()
class CapUse:
    """How much of a cap is taken.

    Attributes:
        held: how many runs have a place under it.
        holders: some of them, at most five.
    """

    held: int = 0
    holders: tuple[CapHolder, ...] = ()

    def seen_by(self, tenant: str) -> tuple[RunId, ...]:
        """Return those of the holders that belong to a tenant. Those of others are counted, and not named."""
        return tuple(holder.run_id for holder in self.holders if holder.tenant == tenant)


def max_running_option(summary: str) -> Option:
    """Make the option by which a cap is set."""
    return Option(
        name="max_running",
        kind=Whole(1, MOST_RUNNING),
        default=None,
        is_nullable=True,
        summary=summary,
    )


LABEL_OPTIONS = Options(
    max_running_option("How many runs that need the label may be under way at a time, in the whole cluster.")
)


def read_label_cap(name: str, body: Mapping[str, Any]) -> LaneCap:
    """Return the cap of a label that a body describes.

    Raises:
        InvalidInput: a value is wrong, or there is no such setting.
    """
    found = LABEL_OPTIONS.read_all(body, lambda field: field)
    return LaneCap(CapKey(CapScope.LABEL, name), found["max_running"])


def changed(caps: Iterable[LaneCap], known: LaneCaps) -> list[LaneCap]:
    """Return those caps that differ from what is known."""
    return [cap for cap in caps if known.get(cap.key) != cap.max_running]
