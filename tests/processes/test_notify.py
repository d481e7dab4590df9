"""A service manager that asks for it is told when a process is ready and when it stops (sd_notify)."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.processes import SECONDS, running

pytestmark = pytest.mark.timeout(600)  # processes start, on a host that may be busy


@contextlib.contextmanager
def manager(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(address)
        channel.settimeout(SECONDS)
        yield channel


def test_server_and_worker_processes_say_once_that_they_are_ready_and_that_they_stop(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("from mainspring import App\n\napp = App()\n")
    with (
        manager(str(tmp_path / "server")) as of_server,
        manager(str(tmp_path / "workers")) as of_workers,
        running(
            *("server", "--store", "memory://", "--port", 0), cwd=tmp_path, NOTIFY_SOCKET=f"{tmp_path}/server"
        ) as server,
    ):
        url = server.wait_for("listening on ")
        assert of_server.recv(100) == b"READY=1"
        arguments = ("worker", "shop:app", "--server", url, "--processes", 2)
        with running(*arguments, cwd=tmp_path, NOTIFY_SOCKET=f"{tmp_path}/workers") as workers:
            workers.wait_for("ready")
            assert of_workers.recv(100) == b"READY=1"
            assert workers.stop() == 0
        assert of_workers.recv(100) == b"STOPPING=1"
        assert server.stop() == 0
        assert of_server.recv(100) == b"STOPPING=1"
        for channel in (of_server, of_workers):
            channel.setblocking(False)
            with pytest.raises(BlockingIOError):
                channel.recv(100)


def test_abstract_address_is_understood_and_one_that_nobody_listens_at_does_no_harm(tmp_path: Path) -> None:
    name = f"mainspring-test-{os.getpid()}"
    options = ("up", "--data", "data", "--port", 0)
    with (
        manager(f"\0{name}") as channel,
        running(*options, cwd=tmp_path, NOTIFY_SOCKET=f"@{name}") as process,
    ):
        process.wait_for("listening on ")
        assert channel.recv(100) == b"READY=1"
        assert process.stop() == 0
    with running(*options, cwd=tmp_path, NOTIFY_SOCKET=str(tmp_path / "nobody")) as process:
        process.wait_for("listening on ")
        assert process.stop() == 0
    assert "Traceback" not in (tmp_path / "stderr.log").read_text()
