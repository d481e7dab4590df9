"""The store as the engine sees it: verbs of the domain, each one atomic use case (design 8).

Rules that hold for every method:

- It is one transaction: when it returns, all of it is durable, or none of it happened.
- `now` is an argument wherever time matters; a store reads a clock only in `read_time`.
- It takes and returns lists, with results in the order of the arguments. An empty list costs no round trip.
- Rows are locked in id order; bystanders (`expire_*`, `list_orphans`, `prune_*`) skip locked rows.
- Expected outcomes are values; `StoreUnavailable` is raised when the store did not answer.

The types of arguments and results are in the module of their protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from mainspring.core.ids import RunId
from mainspring.core.values import value
from mainspring.ports.store.access import AccessStore
from mainspring.ports.store.alerts import AlertStore
from mainspring.ports.store.applying import ApplyStore
from mainspring.ports.store.archive import ArchiveStore
from mainspring.ports.store.artifacts import ArtifactIndex
from mainspring.ports.store.audit import AuditStore
from mainspring.ports.store.backfills import BackfillStore
from mainspring.ports.store.browse import BrowseStore
from mainspring.ports.store.calendars import CalendarStore
from mainspring.ports.store.caps import CapStore
from mainspring.ports.store.census import CensusStore
from mainspring.ports.store.checkpoints import CheckpointStore
from mainspring.ports.store.claims import ClaimStore
from mainspring.ports.store.dead import DeadStore
from mainspring.ports.store.encryption import EncryptionStore
from mainspring.ports.store.ends import EndStore
from mainspring.ports.store.events import EventStore
from mainspring.ports.store.failures import FailureStore
from mainspring.ports.store.flows import FlowStore
from mainspring.ports.store.jobs import JobStore
from mainspring.ports.store.ledger_check import LedgerCheckStore
from mainspring.ports.store.limits import LimitStore
from mainspring.ports.store.logins import LoginStore
from mainspring.ports.store.monitors import MonitorStore
from mainspring.ports.store.nodes import NodeStore
from mainspring.ports.store.notify import NotifyStore
from mainspring.ports.store.objectives import ObjectiveStore
from mainspring.ports.store.owners import OwnerStore
from mainspring.ports.store.policies import PolicyStore
from mainspring.ports.store.preemption import PreemptionStore
from mainspring.ports.store.priorities import PriorityStore
from mainspring.ports.store.redrives import RedriveStore
from mainspring.ports.store.restrictions import RestrictionStore
from mainspring.ports.store.run_logs import RunLogStore
from mainspring.ports.store.runs import RunStore
from mainspring.ports.store.schedule import ScheduleStore
from mainspring.ports.store.sessions import SessionStore
from mainspring.ports.store.storage import StorageStore
from mainspring.ports.store.upkeep import UpkeepStore
from mainspring.ports.store.usage import UsageStore


class Store(
    JobStore,
    ScheduleStore,
    RunStore,
    ClaimStore,
    SessionStore,
    NodeStore,
    UpkeepStore,
    BrowseStore,
    CensusStore,
    LedgerCheckStore,
    PolicyStore,
    PriorityStore,
    PreemptionStore,
    RestrictionStore,
    LimitStore,
    CapStore,
    CalendarStore,
    FailureStore,
    DeadStore,
    RedriveStore,
    EndStore,
    BackfillStore,
    OwnerStore,
    AccessStore,
    LoginStore,
    ApplyStore,
    AuditStore,
    AlertStore,
    MonitorStore,
    NotifyStore,
    UsageStore,
    ArchiveStore,
    EncryptionStore,
    StorageStore,
    ObjectiveStore,
    FlowStore,
    ArtifactIndex,
    CheckpointStore,
    EventStore,
    RunLogStore,
    Protocol,
):
    """The durable truth."""

    @property
    def capabilities(self) -> StoreCapabilities:
        """What this store can do."""
        ...

    @property
    def failovers(self) -> Sequence[FailoverFacts]:
        """The latest database failovers that this process has noticed, the newest last.

        It is empty for a store without database servers.
        """
        ...

    async def open(self) -> None:
        """Connect, and bring an older schema up to date.

        Raises:
            SchemaMismatch: the schema is newer than this program.
            StoreLocked: another process owns this store, which takes only one.
        """
        ...

    async def close(self) -> None:
        """Finish the calls under way and disconnect."""
        ...

    async def read_time(self) -> datetime:
        """Return the store's clock, aware UTC."""
        ...


@value(kw_only=True)
class StoreCapabilities:
    """What a store can do, as data that engine and conformance suite check.

    Attributes:
        concurrent_writers: several processes may write at once (row locks, SKIP LOCKED).
        is_durable: acknowledged writes survive the process.
        time_precision: the smallest difference between stored instants.
        carries_hints: it offers a `HintChannel` to the other processes that use it. Without one, they find changes by
            polling.
    """

    concurrent_writers: bool
    is_durable: bool
    time_precision: timedelta
    carries_hints: bool = False


@value(kw_only=True)
class FailoverFacts:
    """A failover of the database, and what is known to have been lost in it.

    Attributes:
        noticed_at: when this process noticed it, by the clock of the new server.
        from_timeline, to_timeline: the timelines of the old and of the new server.
        last_position: how much WAL the old server was last seen to have written, in bytes.
        shared_position: the WAL position, in bytes, up to which the new server surely has the same.
        missing_wal: how many bytes of WAL, at least, the old server had and the new one lacks.
        runs_checked: how many acknowledged submissions and fires were looked up.
        are_all_checked: whether those were all of the last minute.
        runs_lost: how many of them the new server does not have.
        lost_run_ids: the first of those.
    """

    noticed_at: datetime
    from_timeline: int
    to_timeline: int
    last_position: int
    shared_position: int
    missing_wal: int
    runs_checked: int
    are_all_checked: bool
    runs_lost: int
    lost_run_ids: tuple[RunId, ...]
