"""Servers on an address that others can reach (ADR 0018), with real processes in a network of their own."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mainspring.cli.calling import call
from tests.processes.processes import await_that, running
from tests.support.networks import ADDRESS, on_other_network

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient

APP = """
from mainspring import App

app = App()


@app.job(name="add")
async def add(x: int, y: int) -> int:
    return x + y
"""
pytestmark = pytest.mark.timeout(600)  # many processes start, on a host that may be busy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def ask(address: str, port: str, path: str = "/health", **headers: str) -> tuple[int, dict[str, object]]:
    """Ask a server, by its address, with headers as they may come from anywhere."""
    connection = http.client.HTTPConnection(address, int(port), timeout=60)
    try:
        connection.request("GET", path, headers={"host": f"{address}:{port}", **headers})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def add(url: str) -> None:
    """Have a run carried out by way of the server at `url`."""

    async def submit(client: AsyncClient) -> str:
        (job,) = (await client.list_jobs(name="add")).items
        return (await client.submit_run(job.job_id, {"payload": {"x": 2, "y": 3}})).run_id

    run_id = call(url, submit)
    await_that("the run does not end", lambda: call(url, lambda client: client.get_run(run_id)).result == 5)


def test_server_on_another_address_works_and_is_closed_to_strangers_names(folder: Path) -> None:
    def work() -> None:
        options = ("--trusted-network", "--allow-host", "scheduler.internal")
        with running(
            "server", "--store", "memory://", "--host", ADDRESS, "--port", 0, *options, cwd=folder
        ) as server:
            url = server.wait_for("listening on ")
            assert url.startswith(f"http://{ADDRESS}:")
            port = url.rpartition(":")[2]
            with running("worker", "shop:app", "--server", url, cwd=folder) as worker:
                worker.wait_for("ready")
                add(url)
                assert worker.stop() == 0
            status, health = ask(ADDRESS, port)
            assert (status, health["access"]) == (200, "trusted_network")
            assert ask(ADDRESS, port, host=f"scheduler.internal:{port}")[0] == 200
            rebound = {"host": f"rebound.example:{port}"}
            for path in ("/health", "/api/v1/jobs", "/openapi.json", "/api/v1/workers"):
                assert ask(ADDRESS, port, path, **rebound)[0] == 403
            assert ask(ADDRESS, port, origin="https://stranger.example")[0] == 403
            with pytest.raises(ConnectionRefusedError):
                ask("127.0.0.1", port)
            assert server.stop() == 0

    on_other_network(work)
    log = (folder / "stderr.log").read_text()
    assert "level=warning event=open_to_network" in log
    assert "scheduler.internal" in log
    assert "Traceback" not in log


def test_server_on_all_addresses_answers_to_each_of_them(folder: Path) -> None:
    def work() -> None:
        options = ("--host", "0.0.0.0", "--port", 0, "--data", "data")
        with running("up", "shop:app", *options, cwd=folder, MAINSPRING_TRUSTED_NETWORK="1") as server:
            url = server.wait_for("listening on ")
            port = url.rpartition(":")[2]
            add(f"http://{ADDRESS}:{port}")
            add(f"http://127.0.0.1:{port}")
            assert ask("127.0.0.1", port, host=f"{ADDRESS}:{port}")[0] == 403
            assert ask(ADDRESS, port, host=f"0.0.0.0:{port}")[0] == 403
            assert server.stop() == 0

    on_other_network(work)
    assert "Traceback" not in (folder / "stderr.log").read_text()


def test_worker_is_refused_under_a_name_that_is_not_the_servers(folder: Path) -> None:
    """Where a worker finds the server under another name, it is told how to make that name known."""

    def work() -> None:
        options = ("--store", "memory://", "--host", ADDRESS, "--port", 0, "--trusted-network")
        with running("server", *options, cwd=folder) as server:
            port = server.wait_for("listening on ").rpartition(":")[2]
            body = json.dumps({}).encode()
            connection = http.client.HTTPConnection(ADDRESS, int(port), timeout=60)
            headers = {"host": f"server-1:{port}", "content-type": "application/json"}
            connection.request("POST", "/api/v1/worker/register", body, headers)
            answer = connection.getresponse()
            assert answer.status == 403
            assert "--allow-host" in json.loads(answer.read())["detail"]
            connection.close()
            assert server.stop() == 0

    on_other_network(work)
