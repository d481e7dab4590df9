"""Reading secrets from Vault: against the fake, a real OpenBao, and the server whose program VAULT_BINARY names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mainspring.core.vault import (
    AppRoleLogin,
    Mount,
    TokenLogin,
    VaultRules,
)
from mainspring.testing.clock import FakeClock
from mainspring.vault.client import VaultClient
from tests.support.fake_vault import ROOT
from tests.support.vault_readers import REPORTS, Reader, place, reading
from tests.support.vaults import KINDS, Vault, running_vault

TOKEN = "hunter2-hunter2"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=KINDS)
async def vault(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Vault]:
    async with running_vault(request.param, tmp_path, clock) as found:
        await found.put("secret/data/reports", token=TOKEN, user="ops")
        await found.allow("reports", "secret/data/reports")
        yield found


@asynccontextmanager
async def asking(vault: Vault) -> AsyncIterator[VaultClient]:
    client = VaultClient(VaultRules(address=vault.address, login=TokenLogin(token=ROOT)))
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


async def is_taken(vault: Vault, token: str) -> bool:
    async with asking(vault) as client:
        return (await client.ask("GET", "auth/token/lookup-self", token=token)).status == 200


async def test_both_versions_of_kv_are_found_wherever_they_are_mounted(vault: Vault) -> None:
    await vault.mount("teams/shop", 2)
    await vault.mount("old", 1)
    await vault.put("teams/shop/data/mail/smtp", password="two")
    await vault.put("old/mail", password="one")
    places = [place("teams/shop/mail/smtp#password"), place("old/mail#password"), REPORTS]
    async with asking(vault) as client:
        assert await client.find_mount("teams/shop/mail/smtp", ROOT) == Mount("teams/shop/", 2)
        assert await client.find_mount("old/mail", ROOT) == Mount("old/", 1)
    async with reading(vault, TokenLogin(token=ROOT), *places) as reader:
        assert [reader.reveal(one) for one in places] == ["two", "one", TOKEN]


async def test_a_new_value_counts_after_the_next_round(vault: Vault) -> None:
    async with reading(vault, TokenLogin(token=await vault.make_token("reports"))) as reader:
        assert reader.reveal() == TOKEN
        await vault.put("secret/data/reports", token="changed")
        assert reader.reveal() == TOKEN
        await reader.read_again()
        assert reader.reveal() == "changed"
        assert reader.waiter.waits[-1] == pytest.approx(60)


async def test_what_is_refused_or_missing_counts_no_more_and_is_told_without_values(vault: Vault) -> None:
    await vault.put("secret/data/others", token="of-others-alone")
    await vault.put("secret/data/numbers", token=7, blank="\n")
    await vault.allow("numbers", "secret/data/numbers", "secret/data/none", "secret/data/data/reports")
    token = await vault.make_token("reports", "numbers")
    wrong = {
        "secret/others#token": ("denied", "no policy of the token lets it read this path"),
        "nothing/there#token": ("denied", "there is no such mount"),
        "secret/none#token": ("missing", "there is nothing at secret/none, or it was deleted"),
        "secret/data/reports#token": ("missing", "leave out data/"),
        "secret/reports#pasword": ("missing", "the field pasword of secret/reports is not there"),
        "secret/numbers#token": (
            "missing",
            "the field token of secret/numbers is not text; write it in quotes",
        ),
        "secret/numbers#blank": ("missing", "is empty"),
    }
    with capture_logs() as logs:
        async with reading(vault, TokenLogin(token=token), *map(place, wrong), REPORTS) as reader:
            assert reader.reveal() == TOKEN
            for text, (kind, problem) in wrong.items():
                failure = reader.failure(place(text))
                assert (failure.kind, problem in failure.problem) == (kind, True), (text, failure)
            assert (reader.count("denied"), reader.count("missing"), reader.count("away")) == (2, 5, 0)
            await vault.ask("DELETE", "secret/data/reports")
            await reader.read_again()
            assert "was deleted" in reader.failure().problem
            await vault.put("secret/data/reports", token="back")
            await reader.read_again()
            assert reader.reveal() == "back"
    said = repr(logs)
    # One line each, and one more for what had another reason, or had one again, while its path was deleted.
    assert said.count("vault_secret_unread") == len(wrong) + 3
    assert "vault_secret_read_again" in said
    for hidden in (TOKEN, token, "of-others-alone"):
        assert hidden not in said


async def test_a_right_that_is_taken_away_takes_the_value_with_it(vault: Vault) -> None:
    async with reading(vault, TokenLogin(token=await vault.make_token("reports"))) as reader:
        assert reader.reveal() == TOKEN
        await vault.allow("reports", "secret/data/something-else")
        await reader.read_again()
        assert reader.failure().kind == "denied"


async def test_values_outlast_a_sealed_vault_for_a_bounded_time(vault: Vault, clock: FakeClock) -> None:
    async with reading(vault, TokenLogin(token=await vault.make_token("reports")), keep=600.0) as reader:
        await vault.seal()
        await reader.read_again()
        assert reader.reveal() == TOKEN
        assert reader.count("away") == 1
        assert reader.waiter.waits[-1] == pytest.approx(1)
        clock.advance(600)
        assert reader.reveal() == TOKEN
        clock.advance(1)
        problem = reader.failure().problem
        assert problem.startswith(
            "it was last read 601 s ago, over vault.keep; since then: Vault answers with"
        )
        assert "503" in problem
        await vault.unseal()
        await reader.read_again()
        assert reader.reveal() == TOKEN
        assert reader.waiter.waits[-1] == pytest.approx(60)


async def test_a_start_without_vault_goes_on_and_reads_later(vault: Vault) -> None:
    token = await vault.make_token("reports")
    await vault.seal()
    async with reading(vault, TokenLogin(token=token)) as reader:
        assert (reader.failure().kind, "503" in reader.failure().problem) == ("away", True)
        await vault.unseal()
        await reader.read_again()
        assert reader.reveal() == TOKEN


async def test_a_token_that_was_revoked_is_replaced_from_its_file(vault: Vault, tmp_path: Path) -> None:
    file = tmp_path / "token"
    first = await vault.make_token("reports")
    file.write_text(f"{first}\n")
    async with reading(vault, TokenLogin(file=str(file))) as reader:
        await vault.revoke(first)
        await reader.read_again()
        assert reader.reveal() == TOKEN  # kept, as nothing says that it may not be read
        assert reader.count("login") == 1
        second = await vault.make_token("reports")
        file.write_text(second)
        await vault.put("secret/data/reports", token="changed")
        await reader.read_again()
        assert reader.reveal() == "changed"
    assert await is_taken(vault, second)  # it is not this process's to revoke


@pytest.fixture
async def approle(vault: Vault, tmp_path: Path) -> AppRoleLogin:
    await vault.ask("POST", "sys/auth/approle", {"type": "approle"})
    role_id = await vault.make_role("mainspring", "reports")
    file = tmp_path / "secret-id"
    file.write_text(await vault.make_secret_id("mainspring"))
    return AppRoleLogin(mount="approle", role_id=role_id, secret_id_file=str(file))


def token_of(reader: Reader) -> str:
    lease = reader.secrets._session._lease
    assert lease is not None
    return lease.token


async def test_approle_logs_in_again_when_its_token_was_revoked_and_gives_it_back(
    vault: Vault, approle: AppRoleLogin
) -> None:
    async with reading(vault, approle) as reader:
        assert reader.reveal() == TOKEN
        first = token_of(reader)
        await vault.revoke(first)
        await vault.put("secret/data/reports", token="changed")
        await reader.read_again()
        assert reader.reveal() == "changed"
        second = token_of(reader)
        assert first != second
        assert await is_taken(vault, second)
    assert not await is_taken(vault, second)


async def test_token_of_approle_is_renewed_before_it_ends(
    vault: Vault, approle: AppRoleLogin, clock: FakeClock
) -> None:
    async with reading(vault, approle) as reader:
        first = token_of(reader)
        clock.advance(599 if vault.fake is None else 401)  # of 600 s; the real one has a clock of its own
        await reader.read_again()
        assert token_of(reader) == first
        assert reader.reveal() == TOKEN
        due = reader.secrets._session.due_in()
        assert due == pytest.approx(400, abs=2)


async def test_a_token_whose_role_is_gone_is_used_to_its_end(
    vault: Vault, approle: AppRoleLogin, clock: FakeClock
) -> None:
    async with reading(vault, approle, keep=0.0) as reader:
        await vault.ask("DELETE", "auth/approle/role/mainspring")
        await vault.put("secret/data/reports", token="changed")
        clock.advance(401)
        for _ in range(2):
            await reader.read_again()
            assert reader.reveal() == "changed"
            assert reader.waiter.waits[-1] == pytest.approx(60)  # it is no reason to ask all the time
        clock.advance(199)
        await reader.read_again()
        assert reader.failure().problem.endswith("the login at auth/approle is refused (status 400)")
        assert reader.count("login") == 1


async def test_approle_that_is_refused_is_told_without_its_secret(
    vault: Vault, approle: AppRoleLogin, tmp_path: Path
) -> None:
    (tmp_path / "secret-id").write_text("wrong-secret-id")
    async with reading(vault, approle) as reader:
        assert reader.failure().kind == "login"
        assert reader.failure().problem == "the login at auth/approle is refused (status 400)"
        (tmp_path / "secret-id").unlink()
        await reader.read_again()
        assert reader.failure().problem.endswith("secret-id cannot be read (No such file or directory)")
        (tmp_path / "secret-id").write_text(await vault.make_secret_id("mainspring"))
        await reader.read_again()
        assert reader.reveal() == TOKEN


async def test_a_role_without_secret_id_needs_no_file(vault: Vault, approle: AppRoleLogin) -> None:
    bound = {"bind_secret_id": False, "token_bound_cidrs": ["127.0.0.0/8"], "secret_id_bound_cidrs": []}
    role_id = await vault.make_role("bare", "reports", **bound)
    login = AppRoleLogin(mount="approle", role_id=role_id, secret_id_file=None)
    async with reading(vault, login) as reader:
        assert reader.reveal() == TOKEN


async def test_a_token_without_the_right_to_look_at_itself_is_refused_with_the_reason(vault: Vault) -> None:
    token = await vault.make_token("reports", no_default_policy=True)
    async with reading(vault, TokenLogin(token=token)) as reader:
        assert "has not the policy default" in reader.failure().problem
        assert token not in reader.failure().problem


async def test_wrong_tokens_are_refused(vault: Vault) -> None:
    for token, problem in (("hvs.wrong", "status 403"), ("two words", "holds nothing that can be sent")):
        async with reading(vault, TokenLogin(token=token)) as reader:
            assert (reader.failure().kind, problem in reader.failure().problem) == ("login", True)
            assert token not in reader.failure().problem


async def test_an_engine_that_is_replaced_by_one_of_version_2_is_read_all_the_same(vault: Vault) -> None:
    await vault.mount("kv", 1)
    await vault.put("kv/mail", password="one")
    where = place("kv/mail#password")
    async with reading(vault, TokenLogin(token=ROOT), where) as reader:
        assert reader.reveal(where) == "one"
        await vault.ask("DELETE", "kv/mail")
        await reader.read_again()
        assert reader.failure(where).kind == "missing"
        await vault.ask("DELETE", "sys/mounts/kv")
        await vault.mount("kv", 2)
        await vault.put("kv/data/mail", password="two")
        await reader.read_again()
        assert reader.reveal(where) == "two"


async def test_an_engine_on_its_way_to_version_2_takes_no_value_away(vault: Vault) -> None:
    await vault.mount("kv", 1)
    many = 1 if vault.fake is not None else 500  # a real one is quick with few
    await asyncio.gather(*(vault.put(f"kv/mail-{number}", password="one") for number in range(many)))
    where = place("kv/mail-0#password")
    async with reading(vault, TokenLogin(token=ROOT), where) as reader:
        await vault.upgrade("kv")
        await reader.read_again()
        assert reader.reveal(where) == "one"
        await vault.await_upgrade("kv", "mail-0")
        await vault.put("kv/data/mail-0", password="two")
        await reader.read_again()
        assert reader.reveal(where) == "two"


async def test_paths_and_fields_may_have_any_characters(vault: Vault) -> None:
    odd = place("secret/a b/50%?c+d&e;f/ü漢#the field=1 %")
    await vault.put(odd.path.replace("secret/", "secret/data/"), **{odd.field: "found"})
    async with reading(vault, TokenLogin(token=ROOT), odd) as reader:
        assert reader.reveal(odd) == "found"
