"""Secrets in Vault, against a real server with a worker: docs/howto/keep-secrets.md, done."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from mainspring.testing.clock import FakeClock
from tests.processes.processes import await_that, run, running, server
from tests.support.vaults import REAL, Vault, running_vault
from tests.unit.channels.messages import Receiver, running_receiver

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "keep-secrets.md").read_text()
TOKEN = "hunter2-hunter2"
JOB: dict[str, Any] = {
    "name": "daily-report",
    "cron": "0 9 1 1 *",
    "target": {"type": "http", "headers": {"Authorization": "Bearer ${secret:reports-token}"}},
}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


async def write_settings(folder: Path, vault: Vault) -> None:
    """Set Vault up as the page has it, and write the page's settings."""
    [settings] = [text for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "[vault]" in text]
    [path, capability] = re.findall(r'path "(.*?)" {\s+capabilities = \["(.*?)"\]', PAGE)[0]
    assert capability == "read"
    await vault.put("secret/data/reports", token=TOKEN)
    await vault.allow("reports", path)
    await vault.ask("POST", "sys/auth/approle", {"type": "approle"})
    role_id = await vault.make_role("mainspring", "reports")
    (folder / "secret-id").write_text(await vault.make_secret_id("mainspring"))
    [given] = [UUID(text) for text in re.findall(r'role_id = "(.*?)"', settings)]
    text = settings.replace("https://vault.example.com:8200", vault.address).replace(str(given), role_id)
    text = text.replace("/run/secrets/vault-secret-id", str(folder / "secret-id"))
    more = 'refresh = "1s"\n[executors.http]\nallow = ["127.0.0.1"]\n'
    (folder / "mainspring.toml").write_text(text + more)


async def make_job(url: str, receiver: Receiver, tenant: str, **more: Any) -> None:
    job = JOB | more
    job["target"] = {**JOB["target"], "url": receiver.url}
    async with httpx.AsyncClient(base_url=url, headers={"Mainspring-Tenant": tenant}) as client:
        made = await client.post("/api/v1/jobs", json=job)
        assert made.status_code == 201, made.text


async def run_job(url: str, folder: Path, tenant: str = "shop") -> str:
    asked = ("job", "run", JOB["name"], "--tenant", tenant, "--wait", 60, "--server", url)
    done = await asyncio.to_thread(run, *asked, cwd=folder)
    return done.stdout + done.stderr


def last_token(receiver: Receiver) -> str:
    return receiver.requests[-1][1]["authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize("kind", REAL)
async def test_runs_get_a_new_value_while_they_go_on_and_the_last_one_while_vault_is_away(
    tmp_path: Path, kind: str
) -> None:
    async with running_receiver() as receiver, running_vault(kind, tmp_path, FakeClock()) as vault:
        await write_settings(tmp_path, vault)
        checked = await asyncio.to_thread(run, "config", "check", cwd=tmp_path)
        assert (checked.returncode, "right" in checked.stdout) == (0, True), checked.stdout
        process = server("--data", tmp_path / "data", cwd=tmp_path)
        _, url = process.__enter__()
        try:
            await make_job(url, receiver, "shop")
            await make_job(url, receiver, "bank", retry={"max_retries": 0})
            assert "SUCCEEDED" in await run_job(url, tmp_path)
            assert last_token(receiver) == TOKEN
            refused = await run_job(url, tmp_path, "bank")
            assert "there is no secret 'reports-token' for tenant 'bank'" in refused
            await vault.put("secret/data/reports", token="changed-changed")
            while last_token(receiver) == TOKEN:  # each run is one more look
                assert "SUCCEEDED" in await run_job(url, tmp_path)
            assert last_token(receiver) == "changed-changed"
            await vault.seal()
            assert "SUCCEEDED" in await run_job(url, tmp_path)
            assert last_token(receiver) == "changed-changed"
            assert await counted(url, "away")
        finally:
            process.__exit__(None, None, None)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data").iterdir() if path.is_file())
    log = (tmp_path / "stderr.log").read_text()
    assert "vault_secret_unread" in log
    for hidden in (TOKEN, "changed-changed", (tmp_path / "secret-id").read_text()):
        assert hidden.encode() not in kept
        assert hidden not in log


async def counted(url: str, reason: str) -> bool:
    async with httpx.AsyncClient(base_url=url) as client:
        while True:
            text = (await client.get("/metrics")).text
            [count] = re.findall(rf'mainspring_vault_failures_total{{reason="{reason}"}} (\d+)', text)
            if int(count):
                return True


@pytest.mark.parametrize("kind", REAL)
async def test_a_worker_without_vault_starts_and_its_run_succeeds_when_vault_comes(
    tmp_path: Path, kind: str
) -> None:
    async with running_receiver() as receiver, running_vault(kind, tmp_path, FakeClock()) as vault:
        await write_settings(tmp_path, vault)
        await vault.seal()
        checked = await asyncio.to_thread(run, "config", "check", "--json", cwd=tmp_path)
        assert checked.returncode == 3
        [problem] = json.loads(checked.stdout)["problems"]
        assert problem["setting"] == "secrets.reports-token"
        assert problem["problem"].startswith("cannot be read: Vault answers with status 503: it is sealed")
        empty = tmp_path / "server"
        empty.mkdir()
        with (
            server("--data", "data", "--slots", 0, cwd=empty) as (_, url),
            running("worker", "--server", url, cwd=tmp_path) as worker,
        ):
            worker.wait_for("ready")
            await make_job(
                url, receiver, "shop", retry={"max_retries": 50, "delay": "1s", "backoff": "fixed"}
            )
            waiting = asyncio.create_task(run_job(url, tmp_path))
            log = empty / "stderr.log"
            await asyncio.to_thread(await_that, "it was tried", lambda: "attempt_failed" in log.read_text())
            assert "'reports-token' cannot be read on this host" in log.read_text()
            why = (tmp_path / "stderr.log").read_text()
            assert re.search(
                r'secret_unread secret=reports-token problem="Vault answers with status 503', why
            )
            assert not receiver.requests
            await vault.unseal()
            assert "SUCCEEDED" in await waiting
            assert last_token(receiver) == TOKEN
        doctor = await asyncio.to_thread(run, "doctor", "--json", cwd=tmp_path)
        [found] = [one for one in json.loads(doctor.stdout)["checks"] if one["check"] == "vault"]
        assert (found["severity"], found["found"]) == ("fine", "1 secret in Vault can be read")
    done = await asyncio.to_thread(run, "doctor", "--json", cwd=tmp_path)
    [found] = [one for one in json.loads(done.stdout)["checks"] if one["check"] == "vault"]
    assert found["severity"] == "failure"
    assert "secrets.reports-token: cannot be read: Vault cannot be asked: no connection" in found["found"]


def test_a_process_that_cannot_know_where_vault_is_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_text(
        '[secrets.a]\nfrom = "vault:secret/reports#token"\ntenants = ["shop"]\n'
    )
    for command in (("up", "--port", 0), ("worker",)):
        done = run(*command, cwd=tmp_path)
        assert done.returncode != 0
        assert "vault.address: is needed, as a secret is in Vault" in done.stderr
        assert "Traceback" not in done.stderr
    checked = run("config", "check", cwd=tmp_path)
    assert (checked.returncode, checked.stdout.count("vault.address: is needed")) == (3, 1)
