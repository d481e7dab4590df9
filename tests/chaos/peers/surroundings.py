"""What a peer needs around it: an environment of its own, a Redis that forgets, and worker processes to kill."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache" / "peers"
MODULE = "tests.chaos.peers.celery_app"
WITH_PARENT = ("setpriv", "--pdeathsig=TERM")
"""Should this process be killed, what it started still ends."""
REDIS_BINARIES = ("redis-server", "redis-check-rdb")
"""The second is the same program by another name, and lies in Debian's redis-tools, which starts no service."""
START_TIMEOUT = 30.0
CLIENT_TIMEOUT = 90.0


def make_environment(requirements: Path) -> Path:
    """Return the Python of a virtual environment that holds what is pinned; it is kept in `.cache`."""
    folder = CACHE / requirements.stem
    stamp = folder / "stamp"
    wanted = f"{hashlib.sha256(requirements.read_bytes()).hexdigest()} {folder}"
    python = folder / "bin" / "python"
    if not (stamp.exists() and stamp.read_text() == wanted):
        print(f"installing what {requirements.name} names", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "--only-binary=:all:", "-r", str(requirements)], check=True)
        stamp.write_text(wanted)
    return python


def find_redis() -> str:
    """Return the path of a Redis server's program; root gets Debian's where there is none.

    Raises:
        RuntimeError: there is none, and it cannot be installed.
    """
    for is_last in (False, True):
        for name in REDIS_BINARIES:
            path = shutil.which(name)
            if path is not None:
                return path
        if is_last or shutil.which("apt-get") is None or os.geteuid() != 0:
            break
        print("installing Debian's redis-tools", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for step in (["update"], ["install", "redis-tools"]):
            command = ["apt-get", "-q", "-y", "--no-install-recommends", *step]
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=600)
    raise RuntimeError("there is no redis-server; install it, or run this as root on Debian")


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Run a Redis without persistence on a free loopback port; give its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    program = folder / "redis-server"
    program.symlink_to(find_redis())  # it acts by the name that it is called with
    command = [*WITH_PARENT, str(program), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
    command += ["--save", "", "--appendonly", "no"]
    with (folder / "redis.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_TIMEOUT
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Redis did not start: see {log.name}")
            time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(16).startswith(b"+PONG")
    return False


class Peer:
    """Celery on one Redis: workers by name, and a client."""

    def __init__(self, python: Path, folder: Path, address: str, options: Mapping[str, float]) -> None:
        self._python = python
        self._folder = folder
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PEER_REDIS": address,
            "PEER_OPTIONS": json.dumps(options),
            "PEER_EFFECTS": str(folder / "effects"),
        }
        self._workers: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *, slots: int) -> None:
        """Start a worker in a process group of its own."""
        options = ["--pool=prefork", f"--concurrency={slots}", "--loglevel=WARNING", f"--hostname={name}"]
        command = [*WITH_PARENT, str(self._python), "-m", "celery", "-A", MODULE, "worker", *options]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._workers[name] = subprocess.Popen(
                command, cwd=ROOT, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, name: str) -> None:
        """Kill a worker and its children at once, as the loss of its machine would."""
        worker = self._workers.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def ask(self, command: str, question: Any) -> Any:
        """Have a client process carry out a command of the peer's module."""
        done = subprocess.run(
            [self._python, "-m", MODULE, command],
            cwd=ROOT,
            env=self._environment,
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=CLIENT_TIMEOUT,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
        return json.loads(done.stdout)

    def acts(self) -> list[str]:
        """Return the lines that the tasks have written so far."""
        path = self._folder / "effects"
        return path.read_text().splitlines() if path.exists() else []

    def close(self) -> None:
        """Kill every worker that still runs."""
        for name in list(self._workers):
            self.kill(name)


@contextmanager
def celery(
    python: Path, folder: Path, options: Mapping[str, float], *, workers: tuple[str, ...], slots: int
) -> Iterator[Peer]:
    """Run Redis and workers; return once all of them answer."""
    with ExitStack() as stack:
        peer = Peer(python, folder, stack.enter_context(redis_server(folder)), options)
        stack.callback(peer.close)
        for name in workers:
            peer.start(name, slots=slots)
        if peer.ask("ready", len(workers)) < len(workers):
            raise RuntimeError(f"the workers did not start: see {folder}")
        yield peer
