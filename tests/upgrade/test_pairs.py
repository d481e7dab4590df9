"""A worker and a client of one version at a server of another: what they were promised holds between versions."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mainspring.core.ids import format_run_id
from tests.chaos.effects import read_effects
from tests.upgrade.cluster import APP, Member, free_ports
from tests.upgrade.versions import ROOT, Version

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
CURRENT = Version("under test", None)
RUNS = 20
# The SDK of its own version: every call, each submission twice by one key, and the results awaited.
CLIENT = """
import asyncio, json, sys
import mainspring
from mainspring.sdk.client import AsyncClient

async def main(server, count):
    async with AsyncClient(server) as client:
        await client.get_health()
        (job,) = (await client.list_jobs(name="chaos-async")).items
        own = await client.put_job({"name": "own", "function": "chaos-async", "every": "1s"})
        own = await client.edit_job(own.job_id, {"timeout": "30s"})
        assert own.version == 2, own
        runs = []
        for number in range(count):
            given = dict(idempotency_key=f"key-{number}")
            ids = {(await client.submit_run(job.job_id, {}, **given)).run_id for _ in range(2)}
            runs += ids
        assert len(set(runs)) == len(runs) == count, runs
        for run in runs:
            while (view := await client.get_run(run)).status != "SUCCEEDED":
                assert view.status in ("PENDING", "RUNNING", "RETRYING"), view
                await asyncio.sleep(0.05)
        while not (await client.list_runs(job_id=own.job_id, state="SUCCEEDED")).items:
            await asyncio.sleep(0.05)
        await client.pause_job(own.job_id)
        await client.get_status(own.job_id)
        await client.get_ledger(own.job_id)
        later = (await client.submit_runs([{"job": "own", "run_at": "2100-01-01T00:00:00Z"}]))[0]
        assert (await client.cancel_run(later.run_id)).result == "cancelled"
        assert len((await client.list_workers()).items) == 1
        await client.count_runs()
        await client.delete_job(own.job_id)
    print(json.dumps({"code": mainspring.__file__, "runs": runs}))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@contextmanager
def started(version: Version, folder: Path, name: str, *arguments: str) -> Iterator[Member]:
    member = Member(folder, name=name, arguments=arguments)
    member.python_path = version.python_path
    try:
        member.start()
        yield member
        assert member.stop() == 0, member.log.name
    finally:
        member.close()


def call_all(version: Version, address: str) -> list[str]:
    """Have the client of a version make its calls; return the runs that it submitted."""
    path = {} if version.python_path is None else {"PYTHONPATH": str(version.python_path)}
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, address, str(RUNS)],
        env=os.environ | path,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    expected = version.python_path or ROOT / "src"
    assert Path(said["code"]).is_relative_to(expected)
    runs: list[str] = said["runs"]
    return runs


def check_pair(folder: Path, *, server: Version, others: Version) -> None:
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    store = ("server", "--data", str(folder / "data"), "--port", str(port), "--beat-period", "1")
    with (
        started(server, folder, "server", *store),
        started(others, folder, "worker", "worker", APP, "--server", address),
    ):
        runs = call_all(others, address)
    done = Counter(format_run_id(effect.run_id) for effect in read_effects(folder / "effects"))
    assert {run: done[run] for run in runs} == dict.fromkeys(runs, 1)


def test_older_worker_and_client_at_a_newer_server(
    tmp_path: Path, older: Version, successor: Version
) -> None:
    check_pair(tmp_path, server=successor, others=older)


def test_newer_worker_and_client_at_an_older_server(tmp_path: Path, older: Version) -> None:
    check_pair(tmp_path, server=older, others=CURRENT)
