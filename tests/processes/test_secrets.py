"""Secrets by the settings file, against a real server with a worker: docs/howto/keep-secrets.md, done."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import standardwebhooks

from tests.processes.processes import run, server
from tests.unit.channels.messages import running_receiver

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "keep-secrets.md").read_text()
KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TOKEN = "hunter2-hunter2"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


async def test_the_job_of_the_page_calls_with_its_secrets_and_no_one_sees_them(tmp_path: Path) -> None:
    [settings, _] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)  # the second is of test_vault
    [definition] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "ops-hook").write_text(KEY + "\n")
    listed = '\n[executors.http]\nallow = ["127.0.0.1"]\n'
    (tmp_path / "mainspring.toml").write_text(
        settings.replace("/run/secrets/ops-hook", str(tmp_path / "ops-hook")) + listed
    )
    async with running_receiver() as receiver:
        job: dict[str, Any] = json.loads(definition)
        job["target"]["url"] = receiver.url
        job["payload"] = {"day": "today"}
        with server("--data", tmp_path / "data", cwd=tmp_path, REPORTS_TOKEN=TOKEN) as (_, url):

            async def in_tenant(tenant: str) -> str:
                headers = {"Mainspring-Tenant": tenant}
                async with httpx.AsyncClient(base_url=url, headers=headers) as client:
                    made = await client.post("/api/v1/jobs", json=job)
                    assert made.status_code == 201, made.text
                asked = ("job", "run", job["name"], "--tenant", tenant, "--wait", 30, "--server", url)
                done = await asyncio.to_thread(run, *asked, cwd=tmp_path)
                return done.stdout + done.stderr

            assert "SUCCEEDED" in await in_tenant("shop")
            ((_, headers, body),) = receiver.requests
            assert headers["authorization"] == f"Bearer {TOKEN}"
            assert standardwebhooks.Webhook(KEY).verify(body, headers) == {"day": "today"}

            job["retry"] = {"max_retries": 0}
            shown = await in_tenant("bank")
            assert "there is no secret 'reports-token' for tenant 'bank'" in shown
            assert len(receiver.requests) == 1
            settings_shown = await asyncio.to_thread(run, "config", "show", "--json", cwd=tmp_path)
            assert "env:REPORTS_TOKEN" in settings_shown.stdout
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data").iterdir() if path.is_file())
    assert b"${secret:reports-token}" in kept
    for text in (TOKEN, KEY):
        assert text.encode() not in kept
        assert text not in shown + settings_shown.stdout + (tmp_path / "stderr.log").read_text()
