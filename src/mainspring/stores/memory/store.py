"""`MemoryStore`: the whole port.

It is atomic because no verb awaits anything, and deterministic because it keeps order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from mainspring.ports.store import FailoverFacts, StoreCapabilities
from mainspring.stores.memory.access import AccessTables, MemoryAccessStore
from mainspring.stores.memory.alerts import AlertTables, MemoryAlertStore
from mainspring.stores.memory.applying import MemoryApplyStore
from mainspring.stores.memory.archive import ArchiveParts, MemoryArchiveStore
from mainspring.stores.memory.artifacts import ArtifactTables, MemoryArtifactStore
from mainspring.stores.memory.audit import MemoryAuditStore
from mainspring.stores.memory.backfills import MemoryBackfillStore
from mainspring.stores.memory.browse import MemoryBrowseStore
from mainspring.stores.memory.calendars import MemoryCalendarStore
from mainspring.stores.memory.caps import MemoryCapStore
from mainspring.stores.memory.census import MemoryCensusStore
from mainspring.stores.memory.checkpoints import MemoryCheckpointStore
from mainspring.stores.memory.claims import MemoryClaimStore
from mainspring.stores.memory.dead import MemoryDeadStore
from mainspring.stores.memory.encryption import MemoryEncryptionStore
from mainspring.stores.memory.ends import MemoryEndStore
from mainspring.stores.memory.failures import MemoryFailureStore
from mainspring.stores.memory.flows import MemoryFlowStore
from mainspring.stores.memory.jobs import MemoryJobStore
from mainspring.stores.memory.ledger_check import MemoryLedgerCheckStore
from mainspring.stores.memory.limits import MemoryLimitStore
from mainspring.stores.memory.logins import MemoryLoginStore
from mainspring.stores.memory.monitors import MemoryMonitorStore, MonitorTables
from mainspring.stores.memory.nodes import MemoryNodeStore
from mainspring.stores.memory.notify import MemoryNotifyStore
from mainspring.stores.memory.objectives import MemoryObjectiveStore
from mainspring.stores.memory.owners import MemoryOwnerStore
from mainspring.stores.memory.policies import MemoryPolicyStore
from mainspring.stores.memory.preemption import MemoryPreemptionStore
from mainspring.stores.memory.priorities import MemoryPriorityStore
from mainspring.stores.memory.redrives import MemoryRedriveStore
from mainspring.stores.memory.restrictions import MemoryRestrictionStore
from mainspring.stores.memory.run_logs import MemoryRunLogStore, RunLogTables
from mainspring.stores.memory.runs import MemoryRunStore
from mainspring.stores.memory.schedule import MemoryScheduleStore
from mainspring.stores.memory.sessions import MemorySessionStore
from mainspring.stores.memory.storage import MemoryStorageStore
from mainspring.stores.memory.tables import Tables
from mainspring.stores.memory.upkeep import MemoryUpkeepStore
from mainspring.stores.memory.usage import MemoryUsageStore, UsageTables

_CAPABILITIES = StoreCapabilities(
    concurrent_writers=False, is_durable=False, time_precision=timedelta(microseconds=1)
)


class MemoryStore(
    MemoryAuditStore,
    MemoryApplyStore,
    MemoryJobStore,
    MemoryFailureStore,
    MemoryDeadStore,
    MemoryRedriveStore,
    MemoryEndStore,
    MemoryScheduleStore,
    MemoryRunStore,
    MemoryClaimStore,
    MemorySessionStore,
    MemoryNodeStore,
    MemoryUpkeepStore,
    MemoryBrowseStore,
    MemoryCensusStore,
    MemoryLedgerCheckStore,
    MemoryPolicyStore,
    MemoryPriorityStore,
    MemoryPreemptionStore,
    MemoryRestrictionStore,
    MemoryLimitStore,
    MemoryCapStore,
    MemoryCalendarStore,
    MemoryBackfillStore,
    MemoryOwnerStore,
    MemoryAccessStore,
    MemoryLoginStore,
    MemoryAlertStore,
    MemoryMonitorStore,
    MemoryNotifyStore,
    MemoryUsageStore,
    MemoryArchiveStore,
    MemoryEncryptionStore,
    MemoryStorageStore,
    MemoryObjectiveStore,
    MemoryFlowStore,
    MemoryArtifactStore,
    MemoryCheckpointStore,
    MemoryRunLogStore,
):
    """A `Store` that lasts as long as the process.

    Args:
        time: the clock that `read_time` returns. No other verb reads a clock.
    """

    def __init__(self, *, time: Callable[[], datetime]) -> None:
        self._tables = Tables()
        self._access = AccessTables()
        self._monitors = MonitorTables()
        self._usage = UsageTables()
        self._archive: ArchiveParts = {}
        self._objectives = {}
        self._artifacts = ArtifactTables()
        self._run_logs = RunLogTables()
        self._checkpoints = {}
        self._alerts = AlertTables()
        self._time = time

    @property
    def capabilities(self) -> StoreCapabilities:
        """What this store can do."""
        return _CAPABILITIES

    @property
    def failovers(self) -> Sequence[FailoverFacts]:
        """Always empty: there is nothing to fail over to."""
        return ()

    async def open(self) -> None:
        """Do nothing: there is nothing to connect to."""

    async def close(self) -> None:
        """Do nothing. The data stays readable, so that a test can check it afterwards."""

    async def read_time(self) -> datetime:
        """Return the injected clock's instant."""
        return self._time()
