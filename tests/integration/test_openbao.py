"""Secrets in a real OpenBao, as far as the fake of Vault does not go: TLS, namespaces, pods, and too many requests."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from mainspring.core.vault import AppRoleLogin, KubernetesLogin, TokenLogin
from mainspring.testing.clock import FakeClock
from tests.deployment.prometheus import free_port
from tests.support.certificates import make_authority, make_certificate
from tests.support.fake_vault import ROOT
from tests.support.vault_readers import REPORTS, place, reading
from tests.support.vaults import Vault, find_openbao, running_real

TOKEN = "hunter2-hunter2"


@asynccontextmanager
async def openbao(folder: Path, **options: Any) -> AsyncIterator[Vault]:
    async with running_real(find_openbao(), folder, FakeClock(), **options) as vault:
        await vault.put("secret/data/reports", token=TOKEN)
        await vault.allow("reports", "secret/data/reports")
        yield vault


async def test_its_certificate_is_checked(tmp_path: Path) -> None:
    async with openbao(tmp_path, has_tls=True) as vault:
        login = TokenLogin(token=await vault.make_token("reports"))
        async with reading(vault, login, ca=str(vault.authority)) as reader:
            assert reader.reveal() == TOKEN
        async with reading(vault, login) as reader:
            assert reader.failure().kind == "away"
            assert "certificate" in reader.failure().problem


async def test_it_may_ask_for_a_certificate_of_the_process(tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    server, client = (make_certificate(tmp_path, authority, name) for name in ("server", "client"))
    port = free_port()
    listener = f"""
        listener "tcp" {{
          address = "127.0.0.1:{port}"
          tls_cert_file = "{server.cert}"
          tls_key_file = "{server.key}"
          tls_client_ca_file = "{authority.cert}"
          tls_require_and_verify_client_cert = true
        }}
    """
    async with openbao(tmp_path, config=listener) as vault:
        login = TokenLogin(token=await vault.make_token("reports"))
        vault.address = f"https://localhost:{port}"
        shown = {"client_cert": str(client.cert), "client_key": str(client.key)}
        async with reading(vault, login, ca=str(authority.cert), **shown) as reader:
            assert reader.reveal() == TOKEN
        async with reading(vault, login, ca=str(authority.cert)) as reader:
            assert reader.failure().kind == "away"


async def test_a_namespace_is_read_by_its_name_and_as_part_of_the_path(tmp_path: Path) -> None:
    async with openbao(tmp_path) as vault:
        await vault.ask("POST", "sys/namespaces/shop", {})
        kv = {"type": "kv", "options": {"version": "2"}}
        await vault.ask("POST", "shop/sys/mounts/secret", kv)
        await vault.put("shop/secret/data/reports", token="of-the-shop")
        await vault.ask("POST", "shop/sys/auth/approle", {"type": "approle"})
        policy = {"policy": json.dumps({"path": {"secret/data/reports": {"capabilities": ["read"]}}})}
        await vault.ask("POST", "shop/sys/policies/acl/reports", policy)
        role = "shop/auth/approle/role/mainspring"
        await vault.ask("POST", role, {"token_policies": ["reports"], "bind_secret_id": True})
        role_id = (await vault.ask("GET", f"{role}/role-id"))["data"]["role_id"]
        file = tmp_path / "secret-id"
        file.write_text((await vault.ask("POST", f"{role}/secret-id", {}))["data"]["secret_id"])
        login = AppRoleLogin(mount="approle", role_id=role_id, secret_id_file=str(file))
        async with reading(vault, login, namespace="shop") as reader:
            assert reader.reveal() == "of-the-shop"
        long = place("shop/secret/reports#token")
        async with reading(vault, TokenLogin(token=ROOT), REPORTS, long) as reader:
            assert (reader.reveal(), reader.reveal(long)) == (TOKEN, "of-the-shop")
        async with reading(vault, login) as reader:
            assert reader.failure().problem == "the login at auth/approle is refused (status 403)"


async def test_a_server_that_is_asked_too_much_takes_no_value_away(tmp_path: Path) -> None:
    async with openbao(tmp_path) as vault, reading(vault, TokenLogin(token=ROOT)) as reader:
        await vault.ask("POST", "sys/quotas/rate-limit/all", {"rate": 0.001})
        for _ in range(2):  # at most the first request is answered
            await reader.read_again()
        assert reader.reveal() == TOKEN
        assert reader.count("away") >= 1


def _write_token(file: Path, account: str) -> None:
    """Write a token as a pod has one. Nothing checks its signature but Kubernetes, which stands in here."""
    now = int(time.time())
    of_pod = {"namespace": "jobs", "serviceaccount": {"name": account, "uid": "u-1"}}
    claims = {"iat": now - 60, "nbf": now - 60, "exp": now + 600, "kubernetes.io": of_pod}
    parts: tuple[object, ...] = ({"alg": "RS256", "typ": "JWT"}, claims, "signature")
    file.write_text(
        ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    )


@asynccontextmanager
async def running_kubernetes(account: str) -> AsyncIterator[str]:
    """Run what stands for the API of Kubernetes: it says that each token is this account's."""

    async def review(request: web.Request) -> web.Response:
        assert (await request.json())["spec"]["token"]
        user = {"username": f"system:serviceaccount:jobs:{account}", "uid": "u-1", "groups": []}
        return web.json_response({"status": {"authenticated": True, "user": user}}, status=201)

    application = web.Application()
    application.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", review)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("account", "role", "status"),
    [("mainspring", "mainspring", None), ("other", "mainspring", 403), ("mainspring", "no-role", 400)],
)
async def test_a_pod_logs_in_as_its_account(
    tmp_path: Path, account: str, role: str, status: int | None
) -> None:
    file = tmp_path / "token"
    _write_token(file, account)
    async with openbao(tmp_path) as vault, running_kubernetes(account) as kubernetes:
        await vault.ask("POST", "sys/auth/k8s", {"type": "kubernetes"})
        ca = make_authority(tmp_path).cert.read_text()
        config = {"kubernetes_host": kubernetes, "kubernetes_ca_cert": ca, "token_reviewer_jwt": "reviewer"}
        await vault.ask("POST", "auth/k8s/config", config | {"disable_local_ca_jwt": True})
        bound = {"bound_service_account_names": ["mainspring"], "bound_service_account_namespaces": ["jobs"]}
        await vault.ask("POST", "auth/k8s/role/mainspring", bound | {"token_policies": ["reports"]})
        login = KubernetesLogin(mount="k8s", role=role, token_file=str(file))
        async with reading(vault, login) as reader:
            if status is None:
                assert reader.reveal() == TOKEN
            else:
                assert reader.failure().problem == f"the login at auth/k8s is refused (status {status})"
