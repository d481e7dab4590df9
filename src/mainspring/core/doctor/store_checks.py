"""Checks of the store: is it there, does it fit, is it safe, is it quick enough."""

from __future__ import annotations

from mainspring.core.doctor.facts import FolderFacts, InstallationFacts, ServerLook
from mainspring.core.doctor.findings import Finding, fail, fine, tell, warn, weigh
from mainspring.core.storage import Disk

_REMOTE = ("nfs", "cifs", "smb", "fuse.sshfs", "9p", "afs", "ceph", "glusterfs", "lustre")
_OLDEST = 15
_GRANTS_TELL = 16
"""From here on, each grant says whether its rights are inherited, before that the role does."""
_SLOW_WRITE, _VERY_SLOW_WRITE = 0.05, 0.5
_GB = 1_000_000_000


def reachable(facts: InstallationFacts) -> Finding:
    """The store answers."""
    store = facts.store
    if store.error is not None:
        return fail(
            f"{store.label} cannot be read: {store.error}",
            "without the store nothing is scheduled, submitted or run",
            "see that it runs, and that --store or --data names it; run the doctor as the server's user",
        )
    return fine(f"{store.label} answers in {tell(store.round_trip)}")


def schema(facts: InstallationFacts) -> Finding | None:
    """The store's schema fits this program."""
    found, known = facts.store.schema, facts.schema
    if facts.store.error is not None:
        return None
    if found is None:
        return warn("the store is empty", "it has no tables yet", "start a server: it makes them")
    if found > known:
        return warn(
            f"the schema is {found:04}, and this program ends at {known:04}",
            "a newer program has changed it; an older one may be refused",
            "upgrade this program",
        )
    if found < known:
        return warn(
            f"the schema is {found:04}, and this program has {known:04}",
            "the servers are older than this program, or have not been started since the upgrade",
            "restart the servers; the first one brings the schema up to date",
        )
    return fine(f"schema {found:04}")


def clock(facts: InstallationFacts) -> Finding | None:
    """The store's clock and this host's agree."""
    if facts.store.error is not None:
        return None
    ahead = facts.store.clock_ahead
    if abs(ahead) >= 2:
        return fail(
            f"the store's clock is {tell(ahead)} {'ahead of' if ahead > 0 else 'behind'} this host's",
            "a server whose clock is that wrong gives its shards up, and times in logs do not fit",
            "synchronise both by NTP: timedatectl set-ntp true",
        )
    if abs(ahead) >= 0.5:
        return warn(
            f"the store's clock is {tell(ahead)} {'ahead of' if ahead > 0 else 'behind'} this host's",
            "fires go by the store's clock, so they seem early or late here",
            "synchronise both by NTP: timedatectl set-ntp true",
        )
    return fine(f"the clocks differ by {tell(ahead)}")


def _folder(facts: InstallationFacts) -> FolderFacts | None:
    return facts.store.folder


def disk_space(facts: InstallationFacts) -> Finding | None:
    """There is room for the store to grow, and servers know how much."""
    folder, server = facts.store.folder, facts.store.server
    if folder is not None:
        return _judge_room(Disk(folder.path, free=folder.free, size=folder.size))
    if server is None:
        return None
    return _find_no_disk(server) if server.disk is None else _judge_room(server.disk)


def _judge_room(disk: Disk) -> Finding:
    found = f"{weigh(disk.free)} are free at {disk.path}"
    why = "a store that is full takes no submissions and records no ends"
    remedy = "free some, or keep less: the settings history.keep and dead.keep_settled"
    if disk.free < _GB / 5 or disk.free_share < 0.02:
        return fail(found, why, remedy)
    return warn(found, why, remedy) if disk.free < 2 * _GB or disk.free_share < 0.1 else fine(found)


def _find_no_disk(server: ServerLook) -> Finding:
    """Say why nothing is known of the disk of PostgreSQL."""
    why = "the alert disk never fires, and mainspring capacity does not tell how long the disk lasts"
    if not server.is_here:
        return fine("PostgreSQL is reached over the network, where the alert disk does not see its disk")
    if server.folder is None:
        return warn(
            f"the role {server.role} may not read where PostgreSQL keeps its data",
            why,
            f"as an administrator of PostgreSQL: {_grant_for(server)}",
        )
    if server.is_disk_slow:
        return warn(
            f"the disk of {server.folder} does not answer",
            why,
            "see whether it is broken, or on a network that is away",
        )
    return warn(
        f"this user cannot look at {server.folder}, where PostgreSQL keeps its data",
        why,
        "let the server's user reach that folder (not read it), or watch the disk by other means",
    )


def _grant_for(server: ServerLook) -> str:
    """Return the statement that lets a role read where the data is."""
    if not server.has_right:
        return f"GRANT pg_read_all_settings TO {server.role}"
    if server.version >= _GRANTS_TELL:
        return f"GRANT pg_read_all_settings TO {server.role} WITH INHERIT TRUE"
    return f"ALTER ROLE {server.role} INHERIT"


def file_system(facts: InstallationFacts) -> Finding | None:
    """SQLite's file is on a disk of this host."""
    folder = _folder(facts)
    if folder is None:
        return None
    if folder.filesystem.startswith(_REMOTE):
        return fail(
            f"the store is on {folder.filesystem}",
            "locks and the write-ahead log of SQLite do not hold over a network; the file may be damaged",
            "move the folder to a local disk, or use PostgreSQL",
        )
    if folder.filesystem in {"tmpfs", "ramfs"}:
        return warn(
            f"the store is in memory ({folder.filesystem})",
            "it is gone after the next start of this machine",
            "move the folder to a disk",
        )
    return fine(f"the file system is {folder.filesystem}")


def journal(facts: InstallationFacts) -> Finding | None:
    """SQLite writes ahead."""
    folder = _folder(facts)
    if folder is None:
        return None
    if folder.journal != "wal":
        return warn(
            f"the journal mode is {folder.journal}, not wal",
            "readers and the writer would wait for each other",
            "stop other programs that use the file; the server sets wal when it starts",
        )
    if folder.log_size > _GB:
        return warn(
            f"the write-ahead log has {weigh(folder.log_size)}",
            "something reads the file for long, so the log cannot be taken over",
            "end other programs that have the file open: fuser " + folder.path,
        )
    return fine("the journal mode is wal")


def permissions(facts: InstallationFacts) -> Finding | None:
    """Only the server's user may read SQLite's file, and may write it."""
    folder = _folder(facts)
    if folder is None:
        return None
    if not folder.is_own:
        return fail(
            f"this user may not write {folder.path}",
            "a server of this user does not start",
            "run the doctor as the server's user, or give it the folder: chown -R",
        )
    if not folder.is_private:
        return warn(
            f"others may read {folder.path}",
            "payloads and results of all jobs are in it",
            f"chmod -R go= {folder.path}",
        )
    return fine("only this user may read the store")


def write_latency(facts: InstallationFacts) -> Finding | None:
    """A write is on the disk soon."""
    server, folder = facts.store.server, facts.store.folder
    seconds = server.commit if server is not None else folder.sync if folder is not None else None
    if seconds is None:
        return None
    found = f"a small write is safe after {tell(seconds)}"
    why = "each submission, fire and end waits for it; many share one wait"
    remedy = "use a disk with a quick fsync (NVMe, or a controller with a battery), and see what else uses it"
    if seconds >= _VERY_SLOW_WRITE:
        return fail(found, why, remedy)
    return warn(found, why, remedy) if seconds >= _SLOW_WRITE else fine(found)


def _server(facts: InstallationFacts) -> ServerLook | None:
    return facts.store.server


def server_version(facts: InstallationFacts) -> Finding | None:
    """PostgreSQL is new enough."""
    server = _server(facts)
    if server is None:
        return None
    if server.version < _OLDEST:
        return fail(
            f"PostgreSQL is {server.version}",
            f"Mainspring needs {_OLDEST} or later, and no server starts on it",
            "upgrade PostgreSQL",
        )
    return fine(f"PostgreSQL {server.version}")


def primary(facts: InstallationFacts) -> Finding | None:
    """The store takes writes."""
    server = _server(facts)
    if server is None:
        return None
    if server.is_standby:
        return fail(
            "the server is a standby",
            "it takes no writes, so no server of Mainspring can work with it",
            "name the primary, or all hosts of the cluster: postgresql://a,b/NAME",
        )
    return fine("it is the primary")


def connections(facts: InstallationFacts) -> Finding | None:
    """PostgreSQL has connections left."""
    server = _server(facts)
    if server is None:
        return None
    found = f"{server.connections} of {server.max_connections} connections are used"
    if server.connections > 0.8 * server.max_connections:
        return warn(
            found,
            "a server of Mainspring takes about 15, and one more that cannot connect does not start",
            "raise max_connections, or see who has them: SELECT * FROM pg_stat_activity",
        )
    return fine(found)


def durability(facts: InstallationFacts) -> Finding | None:
    """What PostgreSQL has committed outlasts a power cut."""
    server = _server(facts)
    if server is None:
        return None
    for name, is_on in (("fsync", server.fsync), ("full_page_writes", server.full_page_writes)):
        if not is_on:
            return fail(
                f"{name} is off",
                "a power cut can damage the whole database",
                f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()",
            )
    if server.synchronous_commit == "off":
        return warn(
            "synchronous_commit is off",
            "runs that were acknowledged just before a crash of the server may be lost",
            "ALTER SYSTEM SET synchronous_commit = on, or for this database: ALTER DATABASE … SET",
        )
    return fine(f"fsync is on, synchronous_commit is {server.synchronous_commit}")


def autovacuum(facts: InstallationFacts) -> Finding | None:
    """Dead rows are cleared away."""
    server = _server(facts)
    if server is None:
        return None
    if not server.autovacuum:
        return fail(
            "autovacuum is off",
            "tables of queues grow without end, and every claim becomes slower",
            "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf()",
        )
    if server.dead_rows > 100_000 and server.dead_rows > 5 * server.live_rows:
        return warn(
            f"the table {server.table} has {server.dead_rows:,} dead rows beside {server.live_rows:,} live ones",
            "claims read past them; most often an old transaction keeps them",
            f"end long transactions, then VACUUM (ANALYZE) {server.table}",
        )
    return fine(f"at most {server.dead_rows:,} dead rows, in {server.table}")


def long_transactions(facts: InstallationFacts) -> Finding | None:
    """No transaction keeps dead rows alive for long."""
    server = _server(facts)
    if server is None:
        return None
    if server.longest_idle > 300:
        return warn(
            f"a transaction has been idle for {tell(server.longest_idle)}",
            "it keeps locks and dead rows, and nothing is being done in it",
            "end it with pg_terminate_backend; set idle_in_transaction_session_timeout for that role",
        )
    if server.longest_transaction > 1800:
        return warn(
            f"a transaction has been open for {tell(server.longest_transaction)}",
            "dead rows since then stay, and claims become slower",
            "see what it is: SELECT pid, query, xact_start FROM pg_stat_activity ORDER BY xact_start",
        )
    return fine(f"the oldest transaction is open for {tell(server.longest_transaction)}")


def replication_slots(facts: InstallationFacts) -> Finding | None:
    """No forgotten replication slot fills the disk."""
    server = _server(facts)
    if server is None:
        return None
    if server.stale_slots:
        return warn(
            f"{server.stale_slots} replication slots have no reader",
            "the server keeps its log for them until the disk is full",
            "start their readers, or SELECT pg_drop_replication_slot(…)",
        )
    return fine("no replication slot is left behind")
