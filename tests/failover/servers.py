"""PostgreSQL servers that replicate, are killed, promoted and come back, each with its own folder and port."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import asyncpg

from tests.chaos.processes import descendants
from tests.support.postgres import fetch

PATIENCE = 60.0
DATABASE = "scheduler"
_ROOT = Path(__file__).resolve().parents[2]
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",  # processes are killed, never the machine
    "synchronous_commit": "on",
    "wal_level": "replica",
    "wal_log_hints": "on",  # pg_rewind wants it
    "wal_keep_size": "64MB",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "mmap",  # in the folder: of a killed server nothing else is left to remove
    "timezone": "UTC",
    "jit": "off",
}


def _services() -> ModuleType:
    """Load scripts/services, which knows where PostgreSQL is and as whom it may run."""
    path = str(_ROOT / "scripts" / "services")
    module = ModuleType("services")
    module.__file__ = path
    loader = SourceFileLoader("services", path)
    exec(compile(loader.get_data(path), path, "exec"), module.__dict__)
    return module


class NoServers(RuntimeError):
    """PostgreSQL is not there; the message is the reason."""


class Programs:
    """PostgreSQL's programs, run as the user that they demand."""

    def __init__(self) -> None:
        services = _services()
        binaries: Path | None = services.find_binaries()
        if binaries is None:
            raise NoServers("PostgreSQL is not installed")
        self._binaries = binaries
        self.user = services.server_user()
        user = self.user
        self._prefix = ["setpriv"]
        if user is not None:
            self._prefix += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups"]

    def run(self, name: str, *arguments: str, cwd: Path) -> None:
        """Carry out a program to its end."""
        prefix = self._prefix if len(self._prefix) > 1 else []
        command = [*prefix, str(self._binaries / name), *arguments]
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"

    def spawn(
        self, name: str, *arguments: str, cwd: Path, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a program that ends with whoever started it."""
        # Set by `env`, behind the change of user: what libfaketime makes for root another user could not open.
        given = [f"{key}={value}" for key, value in environment.items()]
        command = [*self._prefix, "--pdeathsig=INT", "env", *given, str(self._binaries / name), *arguments]
        with (cwd / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


class Server:
    """One PostgreSQL server.

    Args:
        folder: holds its data and its log.
        environment: added to its environment, such as a shifted clock.
        settings: PostgreSQL's own, in each of its lives.
    """

    def __init__(
        self,
        programs: Programs,
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._programs = programs
        self._environment = dict(environment or {})
        self._settings = dict(settings or {})
        self._folder = folder
        folder.mkdir()
        if programs.user is not None:
            os.chown(folder, programs.user.pw_uid, programs.user.pw_gid)
        self.data = folder / "data"
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Host and port, as in a DSN."""
        return f"127.0.0.1:{self.port}"

    @property
    def dsn(self) -> str:
        """The server without a database."""
        return f"postgresql://postgres@{self.address}"

    @property
    def database(self) -> str:
        """The database for the tests on this server alone."""
        return f"{self.dsn}/{DATABASE}"

    def initialise(self) -> None:
        """Make an empty cluster."""
        options = ("--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
        self._programs.run("initdb", f"--pgdata={self.data}", *options, cwd=self._folder)

    def copy_from(self, primary: Server) -> None:
        """Become a standby of a running server."""
        shutil.rmtree(self.data, ignore_errors=True)
        options = ("--wal-method=stream", "--checkpoint=fast", "--no-sync", "--write-recovery-conf")
        source = ("--host=127.0.0.1", f"--port={primary.port}", "--username=postgres")
        self._programs.run("pg_basebackup", *source, f"--pgdata={self.data}", *options, cwd=self._folder)

    def rewind_to(self, primary: Server) -> None:
        """Undo what this stopped server wrote after the paths parted, and follow the other as its standby."""
        # Until then its control file has the old timeline, and nothing would be undone.
        primary.ask("CHECKPOINT")
        source = f"host=127.0.0.1 port={primary.port} user=postgres dbname=postgres"
        self._programs.run(
            *("pg_rewind", f"--target-pgdata={self.data}", f"--source-server={source}"),
            *("--write-recovery-conf", "--no-sync"),
            cwd=self._folder,
        )

    def start(self, **settings: str) -> None:
        """Start and wait until it answers queries."""
        given = {
            **_SETTINGS,
            **self._settings,
            **settings,
            "port": str(self.port),
            "unix_socket_directories": str(self._folder),
        }
        options = [part for name, value in given.items() for part in ("-c", f"{name}={value}")]
        self._process = self._programs.spawn(
            "postgres", "-D", str(self.data), *options, cwd=self._folder, environment=self._environment
        )
        until(self._answers)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()
        try:
            self.ask("SELECT 1")
        except (OSError, asyncpg.PostgresError):
            return False
        return True

    def ask(self, query: str, *, database: str = "postgres") -> Any:
        """Return a query's first value."""
        return fetch(f"{self.dsn}/{database}", query)

    def kill(self) -> None:
        """Kill the server with all its processes, as a power cut does."""
        assert self._process is not None
        victims = [self._process.pid, *descendants(self._process.pid)]
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(PATIENCE)
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in victims))
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop without waiting for clients: in good order (SIGINT), or at once (SIGQUIT)."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)

    def promote(self) -> None:
        """Make a primary of this standby."""
        assert self.ask("SELECT pg_promote(true, 60)")

    def detach(self) -> None:
        """Cut this standby off from its primary: from now on it lags."""
        self.ask("ALTER SYSTEM SET primary_conninfo = ''")
        self.ask("SELECT pg_reload_conf()")
        until(lambda: self.ask("SELECT count(*) = 0 FROM pg_stat_wal_receiver"))

    def has(self, position: str) -> bool:
        """Say whether this standby has replayed up to a position."""
        return bool(self.ask(f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn"))

    def close(self) -> None:
        """End it in whatever way."""
        if self._process is not None and self._process.poll() is None:
            self.kill()


class Pair:
    """A primary and its streaming standby.

    Attributes:
        primary: the first primary, whatever becomes of it.
        standby: its standby.
    """

    def __init__(self, primary: Server, standby: Server, *, is_synchronous: bool) -> None:
        self.primary = primary
        self.standby = standby
        self._settings = {"synchronous_standby_names": "*"} if is_synchronous else {}

    @property
    def dsn(self) -> str:
        """The database on whichever of the two can be written; the first primary is asked first."""
        hosts = f"{self.primary.address},{self.standby.address}"
        return f"postgresql://postgres@{hosts}/{DATABASE}?target_session_attrs=read-write"

    def start(self) -> None:
        """Bring both up, with an empty database."""
        self.primary.initialise()
        self.primary.start()
        self.primary.ask(f"CREATE DATABASE {DATABASE}")
        self.standby.copy_from(self.primary)
        self.standby.start(hot_standby="on")
        until(
            lambda: self.primary.ask("SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'")
        )
        for name, value in self._settings.items():
            self.primary.ask(f"ALTER SYSTEM SET {name} = '{value}'")
        self.primary.ask("SELECT pg_reload_conf()")
        if self._settings:
            until(
                lambda: self.primary.ask(
                    "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
                )
            )

    def fail_over(self) -> None:
        """Kill the primary and promote the standby."""
        self.primary.kill()
        self.standby.promote()

    def turn(self) -> Pair:
        """Return the pair with the parts exchanged."""
        return Pair(self.standby, self.primary, is_synchronous=bool(self._settings))

    def catch_up(self) -> None:
        """Wait until the standby has all that the primary has written."""
        position = self.primary.ask("SELECT pg_current_wal_lsn()::text")
        until(lambda: self.standby.has(position))


@contextlib.contextmanager
def running_pair(
    *, is_synchronous: bool, standby_environment: Mapping[str, str] | None = None
) -> Iterator[Pair]:
    """Start a pair and make sure that nothing is left of it."""
    programs = Programs()
    folder = Path(tempfile.mkdtemp(prefix="mainspring-failover-"))
    folder.chmod(0o755)
    servers = [
        Server(programs, folder / "primary"),
        Server(programs, folder / "standby", environment=standby_environment),
    ]
    try:
        pair = Pair(*servers, is_synchronous=is_synchronous)
        pair.start()
        yield pair
    finally:
        for server in servers:
            server.close()
        shutil.rmtree(folder, ignore_errors=True)


def until(is_true: Callable[[], object]) -> None:
    """Wait for something that another process brings about."""
    deadline = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
