"""Secrets that jobs name, in calls and in commands."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks
from aiohttp import web

from mainspring.config.secret_settings import SecretPlace
from mainspring.config.secrets import ConfiguredSecrets
from mainspring.core.outcomes import Failure
from mainspring.executors import HttpExecutor, ShellExecutor
from mainspring.executors._text import OUTPUT_LIMIT
from mainspring.ports.executor import Outcome, Success
from tests.unit.channels.messages import NOW, Receiver, running_receiver
from tests.unit.executors.attempts import make_attempt

LOOPBACK = ("127.0.0.0/8",)
KEPT = 32 * 1024
"""Bytes that are kept of each end of an output."""
KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SECRET = "hunter2-hunter2"
SECRETS = ConfiguredSecrets(
    [
        SecretPlace("key", "env:KEY", ("default",)),
        SecretPlace("token", "env:TOKEN", ("default",)),
        SecretPlace("lines", "env:LINES", ("*",)),
        SecretPlace("unset", "env:UNSET", ("default",)),
        SecretPlace("others", "env:TOKEN", ("bank",)),
    ],
    {"KEY": KEY, "TOKEN": SECRET, "LINES": f"{SECRET}\nX-Other: 1"},
)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with running_receiver() as running:
        yield running


async def call(params: dict[str, Any], **options: Any) -> Outcome:
    executor = HttpExecutor(allow=LOOPBACK, secrets=SECRETS, now=lambda: NOW)
    await executor.start()
    try:
        return await executor.execute(make_attempt(params, **options))
    finally:
        await executor.stop()


async def test_call_is_signed_and_each_attempt_has_the_same_id(receiver: Receiver) -> None:
    payload = '{"größe": 1}'.encode()
    assert isinstance(await call({"url": receiver.url, "signing": "secret:key"}, payload=payload), Success)
    ((_, headers, body),) = receiver.requests
    assert headers["webhook-id"] == headers["mainspring-run-id"]
    assert headers["webhook-timestamp"] == str(int(NOW.timestamp()))
    signed = standardwebhooks.Webhook(KEY).sign(headers["webhook-id"], NOW, body.decode())
    assert headers["webhook-signature"] == signed


async def test_call_without_a_body_is_signed_too_and_own_headers_forge_nothing(receiver: Receiver) -> None:
    params = {
        "url": receiver.url,
        "method": "GET",
        "signing": "secret:key",
        "headers": {"WEBHOOK-signature": "v1,forged"},
    }
    await call(params)
    ((_, headers, _),) = receiver.requests
    assert headers["webhook-signature"] == standardwebhooks.Webhook(KEY).sign(headers["webhook-id"], NOW, "")


async def test_headers_hold_secrets_and_the_answer_does_not_show_them(receiver: Receiver) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=500, text=f"you said {request.headers['Authorization']}")

    receiver.handler = handler
    outcome = await call({"url": receiver.url, "headers": {"authorization": "Bearer ${secret:token}"}})
    ((_, headers, _),) = receiver.requests
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert isinstance(outcome, Failure)
    assert outcome.output == "you said Bearer ***"


WRONG = [
    ("unset", "the secret 'unset' cannot be read on this host; its log says why"),
    ("nothing", "there is no secret 'nothing' for tenant 'default' in the settings of this process"),
    ("others", "there is no secret 'others' for tenant 'default' in the settings of this process"),
    ("lines", "the header X would hold a line break, which is in its secret"),
]


@pytest.mark.parametrize(("name", "said"), WRONG)
async def test_secret_that_cannot_be_had_stops_the_call(receiver: Receiver, name: str, said: str) -> None:
    outcome = await call({"url": receiver.url, "headers": {"x": f"${{secret:{name}}}"}})
    assert outcome == Failure(error=said)  # which is tried again: the operator may add it
    assert receiver.requests == []


async def test_signing_secret_that_is_no_key_stops_the_call(receiver: Receiver) -> None:
    outcome = await call({"url": receiver.url, "signing": "secret:token"})
    assert isinstance(outcome, Failure)
    assert outcome.error is not None
    assert outcome.error.startswith("the secret 'token' is no signing key; write whsec_")
    assert SECRET not in outcome.error
    assert receiver.requests == []


async def test_worker_without_secrets_says_so(receiver: Receiver) -> None:
    executor = HttpExecutor(allow=LOOPBACK)
    await executor.start()
    params = {"url": receiver.url, "signing": "secret:key"}
    assert await executor.execute(make_attempt(params)) == Failure(error="there is no secret 'key' here")
    await executor.stop()


async def test_tab_in_a_header_without_secrets_is_left_alone(receiver: Receiver) -> None:
    assert isinstance(await call({"url": receiver.url, "headers": {"x": "a\tb"}}), Success)


async def run(params: dict[str, Any]) -> Outcome:
    executor = ShellExecutor(enabled=True, secrets=SECRETS, grace=timedelta(seconds=1))
    await executor.start()
    try:
        return await executor.execute(make_attempt({"shell": False, **params}))
    finally:
        await executor.stop()


async def test_command_gets_secrets_in_its_environment_and_its_output_does_not_show_them(
    tmp_path: Path,
) -> None:
    script = 'printf %s "$PASSWORD" > kept; echo "password: $PASSWORD"; cat /proc/*/cmdline 2>/dev/null > all; exit 3'
    env = {"PASSWORD": "${secret:token}", "PLAIN": "$HOME"}
    outcome = await run({"command": script, "shell": True, "env": env, "cwd": str(tmp_path)})
    assert (tmp_path / "kept").read_text() == SECRET
    assert isinstance(outcome, Failure)
    assert outcome.output == "password: ***\n"
    assert SECRET.encode() not in (tmp_path / "all").read_bytes()  # which is what ps reads


async def test_command_without_its_secret_does_not_start(tmp_path: Path) -> None:
    outcome = await run(
        {"command": ["touch", "made"], "env": {"A": "${secret:others}"}, "cwd": str(tmp_path)}
    )
    said = "there is no secret 'others' for tenant 'default' in the settings of this process"
    assert outcome == Failure(error=said)
    assert not (tmp_path / "made").exists()


async def test_answer_cut_within_a_secret_shows_no_part_of_it(receiver: Receiver) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text="x" * (OUTPUT_LIMIT - 6) + SECRET)

    receiver.handler = handler
    outcome = await call({"url": receiver.url, "headers": {"x": "${secret:token}"}})
    assert isinstance(outcome, Success)
    assert outcome.output == "x" * (OUTPUT_LIMIT - 6) + "***\n[… the rest was not read …]"


@pytest.mark.parametrize("more", [0, 100_000])
async def test_output_cut_within_a_secret_shows_no_part_of_it(more: int) -> None:
    half = len(SECRET) // 2
    script = (
        f"import os, sys; s = os.environ['PASSWORD']; "
        f"sys.stdout.write('x' * ({KEPT} - {half}) + s + 'y' * {more} + s + 'z' * ({KEPT} - {half}))"
    )
    if not more:
        script = f"import os, sys; sys.stdout.write('x' * ({KEPT} - {half}) + os.environ['PASSWORD'] + 'z')"
    env = {"PASSWORD": "${secret:token}"}
    outcome = await run({"command": [sys.executable, "-c", script], "env": env})
    assert isinstance(outcome, Success)
    assert outcome.output is not None
    start, end = "x" * (KEPT - half), "z" * (KEPT - half)
    if more:
        assert outcome.output.startswith(f"{start}***\n[… ")
        assert outcome.output.endswith(f" …]\n***{end}")
    else:
        assert outcome.output == f"{start}***z"
