"""What is known of an installation. Durations are in seconds, sizes in bytes. What could not be found out is None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from mainspring.core.ciphertexts import KeyUses
from mainspring.core.ledger_check import LedgerCheck
from mainspring.core.storage import Disk
from mainspring.core.values import value


@value(kw_only=True)
class FileFinding:
    """A file with a secret, as its setting names it.

    Attributes:
        is_private: only its user may read it; None if it cannot be read.
    """

    setting: str
    path: str
    is_private: bool | None


@value(kw_only=True)
class SettingFacts:
    """What the settings of this host say.

    Attributes:
        problems: what `mainspring config check` finds.
        is_open: the API is bound beyond this machine, and its network is trusted.
        is_encrypted: it has a certificate, or a proxy that has one.
        certificate_ends_in: None without a certificate.
        allows_shell, has_shell_list: whether workers run commands, and whether only those of a list.
        executors: the executors that are turned on, and that jobs get only where they are.
        executor_problems: what each of those lacks here, with what to do.
        secrets: files that only one user should read.
        keys: ids of the keys that encrypt, the one that writes first; None without a file that can be read.
        key_checks: by id, what tells each of these from another one of its id.
        tzdata: the version of this host's zone data.
        history_keep: how long ended runs are kept.
        artifacts: where the files of runs lie; None if none are kept.
        artifacts_error: why that cannot be used from here; None if it can.
        archive: where days of the history are written before they are removed; None without an archive.
        archive_error: why that cannot be used from here; None if it can.
        archive_owner: the installation that it belongs to; None if no installation has used it yet.
        vault_secrets: how many secrets are in Vault.
        vault_errors: why some of them cannot be read from here, each with its name.
    """

    problems: Sequence[str] = ()
    is_open: bool = False
    is_encrypted: bool = False
    certificate_ends_in: float | None = None
    allows_shell: bool = False
    has_shell_list: bool = False
    executors: Sequence[str] = ()
    executor_problems: Sequence[tuple[str, str]] = ()
    secrets: Sequence[FileFinding] = ()
    keys: Sequence[str] | None = None
    key_checks: Mapping[str, bytes] = field(default_factory=dict)
    tzdata: str = ""
    history_keep: float = 0.0
    artifacts: str | None = None
    artifacts_error: str | None = None
    archive: str | None = None
    archive_error: str | None = None
    archive_owner: str | None = None
    vault_secrets: int = 0
    vault_errors: Sequence[str] = ()


@value(kw_only=True)
class FolderFacts:
    """The folder of a store on SQLite.

    Attributes:
        filesystem: its type, as the kernel names it.
        free, size: of its file system.
        is_private: only its user may read the database.
        is_own: this user may write it.
        log_size: of what SQLite has not yet taken over into the database.
        sync: how long a write takes until it is on the disk.
    """

    path: str
    filesystem: str
    free: int
    size: int
    is_private: bool
    is_own: bool
    journal: str
    log_size: int
    sync: float


@value(kw_only=True)
class ServerLook:
    """A PostgreSQL server.

    Attributes:
        connections: how many clients there are, of any kind.
        longest_transaction, longest_idle: how long the oldest transaction is open, and the oldest that does nothing.
        stale_slots: replication slots that nobody reads.
        live_rows, dead_rows: of the table that has the most dead ones.
        commit: how long a small commit takes.
        role: who looks, as SQL names it.
        is_here: it was reached by a socket of this machine.
        folder: where it keeps the database; None if that is not known: it is not here, or the role lacks a right.
        has_right: the role was given the right to read settings. Without `folder`, it does not inherit it.
        disk: the folder's; None if this user cannot look at it.
        is_disk_slow: the disk has not answered in time.
    """

    version: int
    is_standby: bool
    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    autovacuum: bool
    max_connections: int
    connections: int
    longest_transaction: float
    longest_idle: float
    stale_slots: int
    table: str
    live_rows: int
    dead_rows: int
    commit: float
    role: str
    is_here: bool
    folder: str | None
    has_right: bool
    disk: Disk | None = None
    is_disk_slow: bool = False


@value(kw_only=True)
class NodeLook:
    """A server as its last heartbeat left it.

    Attributes:
        silent: since when it has not beaten; `period` is how often it should.
        refusal: why it owns no shards; None if it may.
    """

    host: str
    version: str
    tzdata: str
    refusal: str | None
    silent: float
    period: float

    @property
    def is_alive(self) -> bool:
        """Whether it has beaten lately. Only another server can tell for certain."""
        return self.silent < 5 * self.period + 1


@value(kw_only=True)
class WaitingQueue:
    """A queue with runs that are ready, and no live worker that serves it."""

    queue: str
    runs: int
    oldest: float


@value(kw_only=True)
class TokenLook:
    """An access token that ends soon, and was not replaced.

    Attributes:
        is_renewed_by_login: it ends because its account has not signed in at its provider for long.
    """

    name: str
    account: str
    ends_in: float
    is_renewed_by_login: bool = False


@value(kw_only=True)
class ChannelLook:
    """A channel whose last message could not be delivered, why, and how many messages wait for it."""

    tenant: str
    name: str
    error: str
    waiting: int


@value(kw_only=True)
class ClusterLook:
    """What servers, workers and jobs have in the store.

    Attributes:
        free_shards: shards that no node owns.
        overdue: jobs' clocks that should have fired a minute ago; `overdue_by` is the longest.
        unsealed_for: how long the oldest entry of the audit has waited for its seal; None if none waits.
        ledger_age: how long ago all ledgers were compared; None if they never were.
        installation: tells the store from others; None if it is of an earlier release.
        archive_url: where its days of the history go, as its servers say; None if they go nowhere.
        unarchived_for: how long ago the oldest day of the history ended that is not in the archive; None without one.
        keys: ids of the keys that its contents are encrypted with.
        key_checks: by id, what tells each of these from another one of its id.
    """

    tzdata: str | None
    nodes: Sequence[NodeLook]
    free_shards: int
    accounts: int
    jobs: int
    dead: int
    unsealed_for: float | None
    overdue: int
    overdue_by: float
    workers: int
    slots: int
    queues: Sequence[WaitingQueue]
    tokens: Sequence[TokenLook]
    channels: Sequence[ChannelLook]
    ledger: LedgerCheck | None
    ledger_age: float | None
    unarchived_for: float | None = None
    installation: str | None = None
    archive_url: str | None = None
    keys: Sequence[str] = ()
    key_checks: Mapping[str, bytes] = field(default_factory=dict)


@value(kw_only=True)
class StoreLook:
    """The store as it is found.

    Attributes:
        label: where it is, without a password.
        error: why it cannot be read; then nothing else is known of it.
        schema: the number of its last migration; None if it has none yet.
        clock_ahead: how far its clock is ahead of this host's.
        round_trip: how long a read takes.
    """

    label: str
    error: str | None = None
    schema: int | None = None
    clock_ahead: float = 0.0
    round_trip: float = 0.0
    folder: FolderFacts | None = None
    server: ServerLook | None = None
    cluster: ClusterLook | None = None


@value(kw_only=True)
class InstallationFacts:
    """All that was gathered.

    Attributes:
        product: the version of the program that looks, and `schema` the last migration that it knows.
        api_error: why the server at `address` does not answer; None if it does.
        key_uses: of the keys that this host lacks, or has another one of, what needs them.
    """

    product: str
    schema: int
    store: StoreLook
    settings: SettingFacts = field(default_factory=SettingFacts)
    address: str = ""
    api_error: str | None = None
    key_uses: Mapping[str, KeyUses] = field(default_factory=dict)


def keys_lost(settings: SettingFacts, cluster: ClusterLook | None) -> tuple[list[str], list[str]]:
    """Return which keys of a store this host lacks, and of which it has another one, by id."""
    if cluster is None:
        return [], []
    mine = settings.key_checks
    missing = sorted(set(cluster.keys) - set(settings.keys or ()))
    other = [key_id for key_id, check in cluster.key_checks.items() if mine.get(key_id, check) != check]
    return missing, sorted(other)
