"""What a server or worker process is told at its start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from mainspring.config.access import Access, read_access
from mainspring.config.dsn import hide_password, read_connect_timeout, read_dsn
from mainspring.errors import InvalidInput
from mainspring.ports.executor import MAX_THREADS
from mainspring.ports.gateway import MAX_SLOTS

DEFAULT_PORT = 8620
DEFAULT_DATA = Path("mainspring-data")
DATABASE_NAME = "mainspring.db"
_MAX_STATEMENTS = 10_000


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where the store is: a folder for SQLite, a DSN for PostgreSQL, or this process's memory.

    Attributes:
        is_pooled: the DSN leads to a pooler that lends connections for a transaction at a time.
        statement_cache: prepared statements that each connection keeps; None is what suits the DSN.
        connect_timeout: seconds for opening a connection; None is the usual time.
        listen: the DSN at which PostgreSQL itself is reached for wake-ups, where the first one leads to a pooler.
        ignored: names of the DSNs' parameters that are not heeded.
    """

    scheme: str
    target: str
    is_pooled: bool = False
    statement_cache: int | None = None
    connect_timeout: float | None = None
    listen: str | None = None
    ignored: tuple[str, ...] = ()

    @classmethod
    def parse(cls, url: str, *, listen: str | None = None) -> StoreLocation:
        """Read `postgresql://…`, `sqlite:///FOLDER` or `memory://`.

        A PostgreSQL DSN may name several hosts, and bear the parameters `pooler=transaction`, `statement_cache=N` and
        `connect_timeout=SECONDS` beside the driver's own.

        Args:
            listen: a second DSN, for wake-ups past a pooler.

        Raises:
            InvalidInput: the scheme is unknown, the folder is missing, a parameter is wrong.
        """
        scheme, separator, rest = url.partition("://")
        if separator and scheme in {"postgresql", "postgres"}:
            return cls._parse_dsn(url, listen)
        if listen is not None:
            raise InvalidInput("listen_store", "only a store on PostgreSQL has wake-ups between processes")
        if separator and scheme == "sqlite" and rest:
            return cls("sqlite", rest.removeprefix("/") if rest.startswith("//") else rest)
        if separator and scheme == "memory":
            return cls("memory", "")
        raise InvalidInput(
            "store", f"{hide_password(url)!r} is not postgresql://…, sqlite:///FOLDER or memory://"
        )

    @classmethod
    def _parse_dsn(cls, url: str, listen: str | None) -> StoreLocation:
        dsn, own, ignored = read_dsn(url, "store")
        pooler, cache, patience = map(own.get, ("pooler", "statement_cache", "connect_timeout"))
        if pooler not in {None, "transaction"}:
            message = f"pooler={pooler!r} is not 'transaction'; a pooler in session mode needs no parameter"
            raise InvalidInput("store", message)
        if cache is not None and not (cache.isascii() and cache.isdigit() and int(cache) <= _MAX_STATEMENTS):
            message = f"statement_cache={cache!r} is not a number from 0 to {_MAX_STATEMENTS}"
            raise InvalidInput("store", message)
        if listen is not None:
            if listen.partition("://")[0] not in {"postgresql", "postgres"}:
                raise InvalidInput("listen_store", f"{hide_password(listen)!r} is not postgresql://…")
            listen, others, also = read_dsn(listen, "listen_store")
            ignored = tuple(sorted({*ignored, *also}))
            if "pooler" in others:
                raise InvalidInput(
                    "listen_store", "leads to a pooler; name PostgreSQL itself, or leave it out to poll"
                )
        return cls(
            "postgresql",
            dsn,
            is_pooled=pooler is not None,
            statement_cache=int(cache) if cache is not None else None,
            connect_timeout=read_connect_timeout(patience, "store") if patience is not None else None,
            listen=listen or None,
            ignored=ignored,
        )

    @property
    def label(self) -> str:
        """The location as it may be shown: without a password."""
        return self.target if self.scheme == "sqlite" else hide_password(self.target) or "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A process's settings.

    Attributes:
        host: the address the API is bound to; others than loopback need `trusted_network`.
        trusted_network: the operator's word that whoever can reach the API may do everything; there are no tokens.
        allow_hosts: further names under which the API may be asked.
        allow_shell: accept shell jobs (server) and carry them out (worker).
        callback_allow: internal targets that HTTP callbacks may reach (networks or hosts, with or without a port).
        slots: attempts that the embedded worker carries out at a time; 0 is no embedded worker.
        threads: sync functions that a worker carries out at a time; None is as many as it has slots, up to 1,000.
        beat_period: seconds between a worker's heartbeats; three silent periods are a loss.
        node_period: seconds between a server's heartbeats; a dead one's shards are taken within four.
        clock_limit: by how much the host's clock may differ from the store's; beyond, the server schedules nothing.
        drain: how long a stop waits for attempts under way before they are handed back.
        history: how long finished runs are kept.
        has_api: serve the API; without it the process only schedules.
        has_scheduler: run the scheduler's services; without it the process only answers.
    """

    store: StoreLocation = StoreLocation("sqlite", str(DEFAULT_DATA))
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    trusted_network: bool = False
    allow_hosts: tuple[str, ...] = ()
    allow_shell: bool = False
    callback_allow: tuple[str, ...] = ()
    slots: int = 100
    threads: int | None = None
    beat_period: timedelta = timedelta(seconds=10)
    node_period: timedelta = timedelta(seconds=1.4)
    clock_limit: timedelta = timedelta(seconds=5)
    drain: timedelta = timedelta(seconds=30)
    history: timedelta = timedelta(days=30)
    has_api: bool = True
    has_scheduler: bool = True

    def __post_init__(self) -> None:
        """Check the values, each by its name.

        Raises:
            InvalidInput: a value is out of range.
        """
        _ = self.access
        if not 0 <= self.port <= 65535:
            raise InvalidInput("port", f"{self.port} is not between 0 and 65535")
        if not 0 <= self.slots <= MAX_SLOTS:
            raise InvalidInput("slots", f"{self.slots} is not between 0 and {MAX_SLOTS}")
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            raise InvalidInput("threads", f"{self.threads} is not between 1 and {MAX_THREADS}")
        if not timedelta(seconds=0.1) <= self.beat_period <= timedelta(minutes=5):
            raise InvalidInput("beat_period", "must be between 0.1 and 300 seconds")
        if not timedelta(seconds=0.1) <= self.node_period <= timedelta(minutes=1):
            raise InvalidInput("node_period", "must be between 0.1 and 60 seconds")
        if self.clock_limit < timedelta(seconds=0.1):
            raise InvalidInput("clock_limit", "must be at least 0.1 seconds")
        if self.history < timedelta(minutes=1):
            raise InvalidInput("history", "must be at least a minute")
        self._check_split()

    @property
    def access(self) -> Access:
        """Who may reach the API, and under which names.

        Raises:
            InvalidInput: it would be open to others without the operator's word, or a name is none.
        """
        return read_access(self.host, self.allow_hosts, trusted_network=self.trusted_network)

    def _check_split(self) -> None:
        """Refuse a process that would do nothing, or that would need another one beside it where there can be none."""
        if self.has_api and self.has_scheduler:
            return
        if not self.has_api and not self.has_scheduler:
            message = "together with no_api it leaves nothing to run; give one of the two, or neither"
            raise InvalidInput("no_scheduler", message)
        if self.store.scheme != "postgresql":
            flag = "no_scheduler" if self.has_api else "no_api"
            kind = "SQLite" if self.store.scheme == "sqlite" else "memory"
            message = (
                f"a store in {kind} can have one process only, which must do everything; "
                "leave it out, or give --store postgresql://…"
            )
            raise InvalidInput(flag, message)
