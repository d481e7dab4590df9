"""What a server or worker process is told at its start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from mainspring.errors import InvalidInput
from mainspring.ports.gateway import MAX_SLOTS

DEFAULT_PORT = 8620
DEFAULT_DATA = Path("mainspring-data")
DATABASE_NAME = "mainspring.db"


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where the store is: a folder for SQLite, a DSN for PostgreSQL, or this process's memory."""

    scheme: str
    target: str

    @classmethod
    def parse(cls, url: str) -> StoreLocation:
        """Read `postgresql://…`, `sqlite:///FOLDER` or `memory://`.

        Raises:
            InvalidInput: the scheme is unknown or the folder is missing.
        """
        scheme, separator, rest = url.partition("://")
        if separator and scheme in {"postgresql", "postgres"}:
            return cls("postgresql", url)
        if separator and scheme == "sqlite" and rest:
            return cls("sqlite", rest.removeprefix("/") if rest.startswith("//") else rest)
        if separator and scheme == "memory":
            return cls("memory", "")
        raise InvalidInput(
            "store", f"{_without_password(url)!r} is not postgresql://…, sqlite:///FOLDER or memory://"
        )

    @property
    def label(self) -> str:
        """The location as it may be shown: without a password."""
        return self.target if self.scheme == "sqlite" else _without_password(self.target) or "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A process's settings.

    Attributes:
        host: the address the API is bound to; loopback only, as long as there are no tokens.
        allow_shell: accept shell jobs (server) and carry them out (worker).
        callback_allow: internal targets that HTTP callbacks may reach (networks or hosts, with or without a port).
        slots: attempts that the embedded worker carries out at a time; 0 is no embedded worker.
        beat_period: seconds between a worker's heartbeats; three silent periods are a loss.
        node_period: seconds between a server's heartbeats; a dead one's shards are taken within four.
        clock_limit: by how much the host's clock may differ from the store's; beyond, the server schedules nothing.
        drain: how long a stop waits for attempts under way before they are handed back.
        history: how long finished runs are kept.
    """

    store: StoreLocation = StoreLocation("sqlite", str(DEFAULT_DATA))
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    allow_shell: bool = False
    callback_allow: tuple[str, ...] = ()
    slots: int = 100
    beat_period: timedelta = timedelta(seconds=10)
    node_period: timedelta = timedelta(seconds=1.4)
    clock_limit: timedelta = timedelta(seconds=5)
    drain: timedelta = timedelta(seconds=30)
    history: timedelta = timedelta(days=30)

    def __post_init__(self) -> None:
        """Check the values, each by its name.

        Raises:
            InvalidInput: a value is out of range.
        """
        if not is_loopback(self.host):
            message = f"{self.host} is not a loopback address; without access tokens only 127.0.0.1 and ::1 are served"
            raise InvalidInput("host", message)
        if not 0 <= self.port <= 65535:
            raise InvalidInput("port", f"{self.port} is not between 0 and 65535")
        if not 0 <= self.slots <= MAX_SLOTS:
            raise InvalidInput("slots", f"{self.slots} is not between 0 and {MAX_SLOTS}")
        if not timedelta(seconds=0.1) <= self.beat_period <= timedelta(minutes=5):
            raise InvalidInput("beat_period", "must be between 0.1 and 300 seconds")
        if not timedelta(seconds=0.1) <= self.node_period <= timedelta(minutes=1):
            raise InvalidInput("node_period", "must be between 0.1 and 60 seconds")
        if self.clock_limit < timedelta(seconds=0.1):
            raise InvalidInput("clock_limit", "must be at least 0.1 seconds")
        if self.history < timedelta(minutes=1):
            raise InvalidInput("history", "must be at least a minute")


def is_loopback(host: str) -> bool:
    """Say whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
        if parts.password is None:
            return url
        return parts._replace(netloc=f"{parts.username}:***@{parts.netloc.rpartition('@')[2]}").geturl()
    except ValueError:
        return url.partition("://")[0] + "://…"
