"""Vaults for tests: the fake one, and real ones, all set up by the same requests."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from mainspring.testing.clock import FakeClock
from tests.deployment.prometheus import free_port
from tests.support.fake_vault import ROOT, FakeVault

BINARY = os.environ.get("VAULT_BINARY")
"""The program of one more real server, like HashiCorp's Vault, which no package index has."""
REAL = ("openbao", *(("named",) if BINARY else ()))
KINDS = ("fake", *REAL)
_SCRIPT = Path(__file__).parents[2] / "scripts" / "vault_server"


def find_openbao() -> str:
    """Return OpenBao's program, after it was installed if need be. Without it, tests are skipped with the reason."""
    done = subprocess.run([_SCRIPT], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip()[-300:]
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return done.stdout.strip()


@dataclass
class Vault:
    """A running server, with its administrator's requests.

    Attributes:
        clock: the clock of whom it serves; the fake one goes by it, too.
        fake: None if it is a real one.
        authority: what its certificate is of, if it speaks TLS.
    """

    address: str
    session: aiohttp.ClientSession
    clock: FakeClock
    fake: FakeVault | None
    unseal_key: str = ""
    authority: Path | None = None

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Make a request as root."""
        headers = {"X-Vault-Token": ROOT}
        async with self.session.request(
            method, URL(f"{self.address}/v1/{quote(path)}", encoded=True), json=body, headers=headers
        ) as answer:
            text = await answer.text()
            assert answer.status in {200, 204}, f"{path}: {answer.status} {text}"
            said: dict[str, Any] = json.loads(text) if text else {}
            return said

    async def mount(self, path: str, version: int) -> None:
        """Mount an engine of KV."""
        await self.ask("POST", f"sys/mounts/{path}", {"type": "kv", "options": {"version": str(version)}})

    async def upgrade(self, path: str) -> None:
        """Begin to bring an engine to version 2. It answers nothing meanwhile."""
        await self.ask("POST", f"sys/mounts/{path}/tune", {"options": {"version": "2"}})

    async def await_upgrade(self, path: str, secret: str) -> None:
        """Return when an engine answers again for a secret in it."""
        if self.fake is not None:
            self.fake.upgrading.remove(f"{path}/")
        status = 400
        while status == 400:
            headers = {"X-Vault-Token": ROOT}
            async with self.session.get(f"{self.address}/v1/{path}/data/{secret}", headers=headers) as answer:
                status = answer.status
        assert status == 200

    async def put(self, path: str, **fields: Any) -> None:
        """Write a secret. The path is that of the API; below `data/` it is of version 2."""
        await self.ask("POST", path, {"data": fields} if "/data/" in path else fields)

    async def allow(self, name: str, *paths: str) -> None:
        """Write a policy that lets read some paths of the API."""
        rules = {path: {"capabilities": ["read"]} for path in paths}
        await self.ask("POST", f"sys/policies/acl/{name}", {"policy": json.dumps({"path": rules})})

    async def make_token(self, *policies: str, **more: Any) -> str:
        """Return a new token."""
        said = await self.ask("POST", "auth/token/create", {"policies": list(policies), **more})
        return str(said["auth"]["client_token"])

    async def revoke(self, token: str) -> None:
        """End a token."""
        await self.ask("POST", "auth/token/revoke", {"token": token})

    async def make_role(self, name: str, *policies: str, **more: Any) -> str:
        """Make a role of AppRole. Return its id."""
        body = {"token_policies": list(policies), "token_ttl": 600, "token_max_ttl": 3600, **more}
        await self.ask("POST", f"auth/approle/role/{name}", body)
        return str((await self.ask("GET", f"auth/approle/role/{name}/role-id"))["data"]["role_id"])

    async def make_secret_id(self, role: str) -> str:
        """Return a new secret id of a role."""
        said = await self.ask("POST", f"auth/approle/role/{role}/secret-id", {})
        return str(said["data"]["secret_id"])

    async def seal(self) -> None:
        """Let it answer nothing more."""
        await self.ask("POST", "sys/seal")

    async def unseal(self) -> None:
        """Let it answer again."""
        if self.fake is not None:
            self.fake.is_sealed = False
            return
        body = {"key": self.unseal_key}
        async with self.session.post(f"{self.address}/v1/sys/unseal", json=body) as answer:
            assert answer.status == 200


@asynccontextmanager
async def running_fake(clock: FakeClock, *, port: int = 0) -> AsyncIterator[Vault]:
    """Run a fake one on loopback."""
    fake = FakeVault(clock.monotonic)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", fake.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with aiohttp.ClientSession() as session:
            yield Vault(address, session, clock, fake)
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running_real(
    binary: str, folder: Path, clock: FakeClock, *, has_tls: bool = False, config: str = ""
) -> AsyncIterator[Vault]:
    """Run a real one, in memory, as its developers' mode does.

    Args:
        config: more of its own configuration, like another listener.
    """
    file = folder / "vault.hcl"
    file.write_text(config)
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        binary,
        "server",
        "-dev",
        "-dev-no-store-token",
        f"-dev-root-token-id={ROOT}",
        f"-dev-listen-address=127.0.0.1:{port}",
        f"-config={file}",
        *(("-dev-tls", f"-dev-tls-cert-dir={folder}") if has_tls else ()),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={"PATH": os.defpath, "HOME": str(folder)},
    )
    try:
        key = await _read_key(process)
        reading = asyncio.create_task(_read_rest(process))
        authority = folder / "vault-ca.pem" if has_tls else None
        context = None if authority is None else ssl.create_default_context(cafile=authority)
        connector = aiohttp.TCPConnector(ssl=True if context is None else context)
        async with aiohttp.ClientSession(connector=connector) as session:
            address = f"{'https' if has_tls else 'http'}://127.0.0.1:{port}"
            yield Vault(address, session, clock, None, key, authority)
    finally:
        process.terminate()
        await process.wait()
    await reading


def running_vault(kind: str, folder: Path, clock: FakeClock) -> AbstractAsyncContextManager[Vault]:
    """Run the one of `KINDS` that is meant."""
    if kind == "fake":
        return running_fake(clock)
    return running_real(BINARY if kind == "named" and BINARY else find_openbao(), folder, clock)


async def _read_key(process: asyncio.subprocess.Process) -> str:
    """Return the key that unseals it, which it says at its start."""
    assert process.stdout is not None
    said = b""
    while line := await process.stdout.readline():
        if found := re.search(rb"Unseal Key: (\S+)", line):
            return found[1].decode()
        said += line
    raise AssertionError(f"it ended at its start: {said.decode(errors='replace')}")


async def _read_rest(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    await process.stdout.read()
