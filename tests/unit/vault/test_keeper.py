"""What only a fake Vault can be made to do: its clock, its account of pods, answers of no use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from mainspring.core.vault import (
    AppRoleLogin,
    KubernetesLogin,
    TokenLogin,
    VaultFailed,
    VaultPlace,
    VaultRules,
)
from mainspring.errors import InvalidInput
from mainspring.ports.telemetry import Telemetry
from mainspring.testing.clock import FakeClock, ManualWaiter
from mainspring.vault import VaultSecrets
from mainspring.vault.client import VaultClient
from tests.support.certificates import make_authority, make_certificate
from tests.support.fake_vault import ROOT
from tests.support.vaults import Vault, running_fake

REPORTS = VaultPlace("secret/reports", "token")
TOKEN = "hunter2-hunter2"
MOUNT = {"path": "secret/", "type": "kv", "options": {"version": "2"}}


class _None:
    def random(self) -> float:
        return 0.0


@pytest.fixture
async def vault() -> AsyncIterator[Vault]:
    async with running_fake(FakeClock()) as found:
        await found.put("secret/data/reports", token=TOKEN, other="o")
        await found.allow("reports", "secret/data/reports")
        yield found


def make(vault: Vault, *places: VaultPlace, **rules: object) -> VaultSecrets:
    given = {"address": vault.address, "login": TokenLogin(token=ROOT), **rules}
    return VaultSecrets(
        VaultRules(**given),  # type: ignore[arg-type]
        places or (REPORTS,),
        monotonic=vault.clock.monotonic,
        random=_None(),
        waiter=ManualWaiter(),
    )


async def again(secrets: VaultSecrets) -> None:
    waiter, before = secrets.waiter, secrets.rounds
    assert isinstance(waiter, ManualWaiter)
    waiter.signal()
    while secrets.rounds == before:
        await asyncio.sleep(0)
        await waiter.until_waiting()


def problem_of(secrets: VaultSecrets, place: VaultPlace = REPORTS) -> str:
    with pytest.raises(VaultFailed) as refused:
        secrets.reveal(place)
    return refused.value.problem


def count(vault: Vault, method: str, path: str) -> int:
    assert vault.fake is not None
    return vault.fake.requests.count((method, path))


async def test_a_token_at_its_very_last_is_replaced_by_a_login(vault: Vault, tmp_path: Path) -> None:
    await vault.ask("POST", "sys/auth/approle", {"type": "approle"})
    role_id = await vault.make_role("short", "reports", token_ttl=60, token_max_ttl=90)
    (tmp_path / "id").write_text(await vault.make_secret_id("short"))
    login = AppRoleLogin(mount="approle", role_id=role_id, secret_id_file=str(tmp_path / "id"))
    secrets = make(vault, login=login)
    async with secrets.running(Telemetry()):
        assert isinstance(secrets.waiter, ManualWaiter)
        assert secrets.waiter.waits[-1] == pytest.approx(40)  # before the usual 60 s, as the token is due
        logins = []
        for _ in range(4):
            vault.clock.advance(40)
            await again(secrets)
            assert secrets.reveal(REPORTS) == TOKEN
            logins.append(count(vault, "POST", "auth/approle/login"))
        # Renewed at 40 s to 90 s; at 80 s nothing is gained by it, so there is a new one, with the same course.
        assert logins == [1, 2, 2, 3]


async def test_a_token_that_vault_fails_to_renew_is_replaced_by_a_login(vault: Vault, tmp_path: Path) -> None:
    await vault.ask("POST", "sys/auth/approle", {"type": "approle"})
    role_id = await vault.make_role("short", "reports", token_ttl=60, token_max_ttl=60, bind_secret_id=False)
    login = AppRoleLogin(mount="approle", role_id=role_id, secret_id_file=None)
    secrets = make(vault, login=login)
    async with secrets.running(Telemetry()):
        vault.clock.advance(59.75)
        await vault.put("secret/data/reports", token="changed")
        await again(secrets)
        assert secrets.reveal(REPORTS) == "changed"
        assert count(vault, "POST", "auth/approle/login") == 2


async def test_a_token_of_the_operator_that_vault_fails_to_renew_is_used_to_its_end(vault: Vault) -> None:
    assert vault.fake is not None
    token = await vault.make_token("reports", ttl="60s")
    vault.fake.tokens[token].last_end = vault.clock.monotonic() + 60
    secrets = make(vault, login=TokenLogin(token=token), keep=0.0)
    async with secrets.running(Telemetry()):
        vault.clock.advance(59.75)
        await vault.put("secret/data/reports", token="changed")
        await again(secrets)
        assert secrets.reveal(REPORTS) == "changed"


async def test_a_token_of_the_operator_is_used_to_its_end_and_then_told(vault: Vault) -> None:
    token = await vault.make_token("reports", ttl="60s", renewable=False)
    secrets = make(vault, login=TokenLogin(token=token), keep=100.0)
    async with secrets.running(Telemetry()):
        vault.clock.advance(50)
        await again(secrets)
        assert secrets.reveal(REPORTS) == TOKEN
        vault.clock.advance(20)
        await again(secrets)
        assert secrets.reveal(REPORTS) == TOKEN  # the last value
        vault.clock.advance(90)
        assert "Vault does not take the token (status 403)" in problem_of(secrets)


async def test_a_token_that_ends_is_no_reason_to_ask_all_the_time(vault: Vault, tmp_path: Path) -> None:
    fixed = await vault.make_token("reports", ttl="60s", renewable=False)
    await vault.ask("POST", "sys/auth/approle", {"type": "approle"})
    role_id = await vault.make_role("short", "reports", token_ttl=60, bind_secret_id=False)
    role = AppRoleLogin(mount="approle", role_id=role_id, secret_id_file=None)
    of_file, of_role = make(vault, login=TokenLogin(token=fixed)), make(vault, login=role)
    async with of_file.running(Telemetry()), of_role.running(Telemetry()):
        vault.clock.advance(50)
        await again(of_file)
        await vault.seal()
        await again(of_role)
        await again(of_role)
        for secrets, pause in ((of_file, 60), (of_role, 2)):
            assert isinstance(secrets.waiter, ManualWaiter)
            assert secrets.waiter.waits[-1] == pytest.approx(pause)
        await vault.unseal()


async def test_a_token_that_can_be_renewed_is_renewed(vault: Vault) -> None:
    token = await vault.make_token("reports", ttl="60s")
    secrets = make(vault, login=TokenLogin(token=token))
    async with secrets.running(Telemetry()):
        for _ in range(10):
            vault.clock.advance(45)
            await again(secrets)
        assert secrets.reveal(REPORTS) == TOKEN
        assert count(vault, "POST", "auth/token/renew-self") == 10


async def test_a_pod_logs_in_as_its_account(vault: Vault, tmp_path: Path) -> None:
    assert vault.fake is not None
    await vault.ask("POST", "sys/auth/k8s", {"type": "kubernetes"})
    await vault.make_role("mainspring", "reports")
    vault.fake.accounts["first.of.pod"] = "mainspring"
    (tmp_path / "token").write_text("first.of.pod\n")
    login = KubernetesLogin(mount="k8s", role="mainspring", token_file=str(tmp_path / "token"))
    secrets = make(vault, login=login)
    async with secrets.running(Telemetry()):
        assert secrets.reveal(REPORTS) == TOKEN
        vault.fake.accounts = {"second.of.pod": "mainspring"}
        (tmp_path / "token").write_text("second.of.pod")
        vault.fake.tokens = {ROOT: vault.fake.tokens[ROOT]}
        await vault.put("secret/data/reports", token="changed")
        await again(secrets)
        assert secrets.reveal(REPORTS) == "changed"
    wrong = make(vault, login=KubernetesLogin(mount="k8s", role="other", token_file=str(tmp_path / "token")))
    async with wrong.running(Telemetry()):
        assert problem_of(wrong) == "the login at auth/k8s is refused (status 400)"


async def test_several_fields_of_a_path_are_one_read(vault: Vault) -> None:
    other = VaultPlace("secret/reports", "other")
    secrets = make(vault, REPORTS, other, REPORTS)
    async with secrets.running(Telemetry()):
        assert (secrets.reveal(REPORTS), secrets.reveal(other)) == (TOKEN, "o")
        await again(secrets)
        assert count(vault, "GET", "secret/data/reports") == 2
        assert count(vault, "GET", "sys/internal/ui/mounts/secret/reports") == 1


async def test_a_path_that_is_refused_for_good_takes_one_login(vault: Vault, tmp_path: Path) -> None:
    assert vault.fake is not None
    vault.fake.policies["default"] = {
        "auth/token/renew-self": ["update"]
    }  # so that no token can look at itself
    await vault.ask("POST", "sys/auth/approle", {"type": "approle"})
    role_id = await vault.make_role("bare", "reports", bind_secret_id=False)
    denied = VaultPlace("secret/others", "token")
    login = AppRoleLogin(mount="approle", role_id=role_id, secret_id_file=None)
    secrets = make(vault, REPORTS, denied, login=login)
    async with secrets.running(Telemetry()):
        for _ in range(3):
            await again(secrets)
        assert secrets.reveal(REPORTS) == TOKEN
        assert "status 403" in problem_of(secrets, denied)
        assert count(vault, "POST", "auth/approle/login") == 2
        vault.fake.tokens = {ROOT: vault.fake.tokens[ROOT]}
        await again(secrets)
        assert secrets.reveal(REPORTS) == TOKEN
        assert count(vault, "POST", "auth/approle/login") == 3


@pytest.mark.parametrize(
    ("status", "text", "problem"),
    [
        (200, "<html>", "what answers is not Vault: status 200 without a JSON object"),
        (400, "Client sent an HTTP request to an HTTPS server.", "what answers is not Vault: status 400"),
        (200, "[" * 100_000, "what answers is not Vault"),
        (200, f'{{"a": "{"x" * 1024 * 1024}"}}', "Vault's answer has more than 1048576 bytes"),
        (307, "", "Vault answers with status 307: it leads elsewhere; let vault.address name the active"),
        (429, "{}", "Vault answers with status 429: too many requests"),
        (500, "{}", "Vault answers with status 500"),
        (503, "{}", "Vault answers with status 503: it is sealed, or in maintenance"),
        (200, '{"data": 1}', "there is nothing at secret/reports"),
        (200, '{"data": {"data": [1]}}', "there is nothing at secret/reports"),
        (200, '{"data": {"data": {"token": "\\ud800"}}}', "is not text that UTF-8 has"),
        (200, '{"data": {"data": {"token": null}}}', "the field token of secret/reports is not there"),
        (200, f'{{"data": {{"data": {{"token": "{"x" * 65537}"}}}}}}', "has more than 65536 bytes"),
    ],
)
async def test_answers_of_no_use(vault: Vault, status: int, text: str, problem: str) -> None:
    assert vault.fake is not None

    async def answer(request: web.Request) -> web.Response:
        if "/ui/mounts/" in request.path and "data" in text:
            return web.json_response({"data": MOUNT})
        return web.Response(status=status, text=text, headers={"Location": "http://127.0.0.1:1/"})

    secrets = make(vault)
    async with secrets.running(Telemetry()):
        vault.fake.answer_all = answer
        await again(secrets)
        vault.clock.advance(3601)  # over what the last value counts
        assert problem in problem_of(secrets)


@pytest.mark.parametrize("data", ['{"path": "secret/", "type": ["kv"]}', f'{{"ttl": {"9" * 400}}}'])
async def test_what_vault_never_says_is_a_problem_like_others(vault: Vault, data: str) -> None:
    assert vault.fake is not None

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=f'{{"data": {data}}}')

    vault.fake.answer_all = answer
    assert await make(vault).read_once() == {REPORTS: "secret/reports is in a secrets engine that is not KV"}


async def test_no_answer_at_all_holds_up_a_start_for_a_moment_only(vault: Vault) -> None:
    assert vault.fake is not None
    never = asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        del request
        await never.wait()
        return web.Response()

    vault.fake.answer_all = wait
    secrets = make(vault, timeout=0.1)
    async with secrets.running(Telemetry()):
        assert problem_of(secrets) == "Vault gave no answer within 0.1 s"
        vault.fake.answer_all = None
        await again(secrets)
        assert secrets.reveal(REPORTS) == TOKEN
        vault.fake.answer_all = wait  # a stop waits for no answer either
        assert isinstance(secrets.waiter, ManualWaiter)
        secrets.waiter.signal()
    never.set()


async def test_where_no_one_listens_is_told_and_no_thread_stays(vault: Vault) -> None:
    before = threading.active_count()
    secrets = make(vault, address="http://localhost:1")
    async with secrets.running(Telemetry()):
        assert problem_of(secrets).startswith("Vault cannot be asked: no connection to localhost:1")
    for thread in threading.enumerate():
        if thread.name == "mainspring-names":  # it was told to end
            thread.join(30)
    assert threading.active_count() == before


async def test_vault_is_known_by_its_authority_and_gets_the_namespace(tmp_path: Path) -> None:
    import ssl

    authority = make_authority(tmp_path)
    pair = make_certificate(tmp_path, authority)
    asked: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(dict(request.headers))
        return web.json_response({"data": {}})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    address = f"https://localhost:{runner.addresses[0][1]}"
    try:
        for ca, fits in ((str(authority.cert), True), (None, False)):
            login = TokenLogin(token=ROOT)
            client = VaultClient(VaultRules(address=address, login=login, namespace="shop/", ca=ca))
            await client.start()
            try:
                if fits:
                    assert (await client.ask("GET", "a b/c?d", token="t")).status == 200
                else:
                    with pytest.raises(VaultFailed, match=r"the certificate of localhost:.* is not accepted"):
                        await client.ask("GET", "a")
            finally:
                await client.stop()
    finally:
        await runner.cleanup()
    [headers] = asked
    assert (headers["X-Vault-Token"], headers["X-Vault-Namespace"]) == ("t", "shop/")
    assert headers["X-Vault-Request"] == "true"


def test_files_of_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("no")
    for given, said in (
        ({"ca": "/none/ca.pem"}, "vault.ca: /none/ca.pem has no certificates that can be read"),
        ({"ca": str(tmp_path / "no.pem")}, "vault.ca: "),
        ({"client_cert": str(tmp_path / "no.pem")}, "vault.client_cert: "),
    ):
        with pytest.raises(InvalidInput) as refused:
            VaultClient(VaultRules(address="https://v", login=TokenLogin(token="t"), **given))  # type: ignore[arg-type]
        assert str(refused.value).startswith(said)
