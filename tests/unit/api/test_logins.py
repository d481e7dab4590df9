"""People sign in with a password, and a browser's requests prove that a page of this server has made them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, cast

import pytest
from httpx import AsyncClient, Response

from mainspring.api.cookies import csrf_of
from mainspring.config.access import Access
from mainspring.core.access import ROTATION_GRACE, TokenWish
from mainspring.core.actors import Actor, ActorKind
from mainspring.core.rights import AccessRole
from mainspring.core.terminal_logins import challenge_of
from mainspring.engine.usecases.identities import Identities
from mainspring.engine.usecases.logins import FailedLogins, Logins
from mainspring.errors import StoreUnavailable
from mainspring.login.passwords import Argon2Hasher
from mainspring.ports.store.access import NewToken
from mainspring.ports.store.logins import SessionAdded
from mainspring.testing.clock import ManualWaiter
from mainspring.testing.factories import IdSequence
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import HERE, api_of, client_of

PASSWORD = "correct horse battery staple"
LASTS = timedelta(hours=12)


@pytest.fixture
async def identities(runtime: ManualRuntime) -> Identities:
    return Identities(runtime.store, clock=runtime.clock, ids=IdSequence(1000), waiter=ManualWaiter())


@pytest.fixture
async def sign_in(runtime: ManualRuntime) -> AsyncIterator[Logins]:
    hasher = Argon2Hasher()
    yield Logins(runtime.store, clock=runtime.clock, ids=IdSequence(2000), hasher=hasher, lasts=LASTS)
    hasher.close()


@pytest.fixture
async def http(runtime: ManualRuntime, identities: Identities, sign_in: Logins) -> AsyncIterator[AsyncClient]:
    async with client_of(api_of(runtime, identities=identities, sign_in=sign_in)) as client:
        yield client


@pytest.fixture
async def admin(http: AsyncClient) -> dict[str, str]:
    """What the first account sends, whose making closes the server."""
    made = await http.post("/api/v1/tokens", json={"name": "first", "role": "admin", "account": "root"})
    return {"Authorization": f"Bearer {made.json()['token']}"}


@pytest.fixture
async def ann(http: AsyncClient, admin: dict[str, str]) -> str:
    """An account with a password."""
    await http.put("/api/v1/accounts/ann", json={"grants": {"default": "editor"}}, headers=admin)
    await set_password(http, "ann", PASSWORD, headers=admin)
    return "ann"


async def set_password(http: AsyncClient, name: str, text: str, **given: Any) -> Response:
    old = given.pop("old", None)
    body = {"password": text, "old_password": old}
    return await http.put(f"/api/v1/accounts/{name}/password", json=body, **given)


async def login(http: AsyncClient, account: str = "ann", password: str = PASSWORD, **more: Any) -> Response:
    http.cookies.clear()
    return await http.post("/login", json={"account": account, "password": password, **more})


def page_of(http: AsyncClient, **headers: str) -> dict[str, str]:
    """What a script of this server's own page sends with the cookie."""
    return {"Origin": HERE, "Mainspring-Csrf": csrf_of(http.cookies["mainspring"]), **headers}


async def test_a_password_begins_a_session_in_a_cookie(http: AsyncClient, ann: str) -> None:
    answer = await login(http)
    assert answer.status_code == 200, answer.text
    assert answer.json()["token"] is None
    cookie = answer.headers["set-cookie"]
    assert {"Path=/", "HttpOnly", "SameSite=Lax", "Max-Age=43200"} <= set(cookie.split("; "))
    assert answer.headers["cache-control"] == "no-store"
    me = (await http.get("/api/v1/me")).json()
    assert (me["account"], me["token"]["login"], me["csrf"]) == ("ann", "password", answer.json()["csrf"])
    assert me["ends_at"] == answer.json()["expires_at"]


async def test_a_page_of_this_server_may_change_things(http: AsyncClient, ann: str) -> None:
    await login(http)
    body = {"name": "report", "cron": "0 9 * * *", "function": "work"}
    answer = await http.post("/api/v1/jobs", json=body, headers=page_of(http))
    assert answer.status_code == 201, answer.text


# -- what a foreign page, and a thief, cannot do -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ({"Mainspring-Csrf": ""}, 403, "Mainspring-Csrf"),
        ({"Mainspring-Csrf": "0" * 64}, 403, "Mainspring-Csrf"),
        ({"Origin": "http://127.0.0.1:1"}, 403, "the origin 'http://127.0.0.1:1' is not"),
        ({"Origin": "https://127.0.0.1:8620"}, 403, "X-Forwarded-Proto"),
        ({"Origin": "null"}, 403, "not for web pages of other sites"),
        ({"Origin": "https://evil.example"}, 403, "not for web pages of other sites"),
        ({"Content-Type": "text/plain"}, 415, "must be JSON"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "must be JSON"),
    ],
)
async def test_a_foreign_page_changes_nothing_by_the_cookie(
    http: AsyncClient, ann: str, headers: dict[str, str], status: int, words: str
) -> None:
    await login(http)
    content = b'{"name": "report", "cron": "0 9 * * *", "function": "work"}'
    sent = page_of(http, **{"Content-Type": "application/json"} | headers)
    refused = await http.post("/api/v1/jobs", content=content, headers=sent)
    assert refused.status_code == status, refused.text
    assert words in refused.json()["detail"]
    assert (await http.get("/api/v1/jobs")).json()["items"] == []


async def test_a_request_without_an_origin_changes_nothing_by_the_cookie(http: AsyncClient, ann: str) -> None:
    await login(http)
    headers = page_of(http)
    del headers["Origin"]
    assert (await http.post("/logout", headers=headers)).status_code == 403
    assert (await http.get("/api/v1/me")).status_code == 200


async def test_the_csrf_token_of_one_session_is_not_that_of_another(http: AsyncClient, ann: str) -> None:
    await login(http)
    other = page_of(http)
    await login(http)
    assert (await http.post("/logout", headers=other)).status_code == 403


async def test_every_login_begins_another_session(http: AsyncClient, ann: str) -> None:
    """Nobody can put his own session, or one that he knows, under a user (CVE-2022-38054)."""
    await login(http)
    planted = http.cookies["mainspring"]
    answer = await http.post("/login", json={"account": "ann", "password": PASSWORD})
    assert answer.status_code == 200
    assert http.cookies["mainspring"] != planted


async def test_only_a_session_works_in_a_cookie(http: AsyncClient, admin: dict[str, str]) -> None:
    token = admin["Authorization"].removeprefix("Bearer ")
    for text in (token, "ms_aaaaaaaa_" + "a" * 52, "x", ""):
        http.cookies.set("mainspring", text)
        assert (await http.get("/api/v1/me")).status_code == 401, text
        http.cookies.clear()


async def test_of_two_cookies_none_counts(http: AsyncClient, ann: str) -> None:
    await login(http)
    text = http.cookies["mainspring"]
    http.cookies.clear()
    twice = f"mainspring={text}; mainspring={text}"
    assert (await http.get("/api/v1/me", headers={"Cookie": f"mainspring={text}"})).status_code == 200
    assert (await http.get("/api/v1/me", headers={"Cookie": twice})).status_code == 401
    doubled = [("Cookie", f"mainspring={text}"), ("Cookie", "other=1")]
    assert (await http.get("/api/v1/me", headers=doubled)).status_code == 400


async def test_the_worker_protocol_takes_no_cookie(http: AsyncClient, ann: str) -> None:
    await login(http)
    answer = await http.post("/api/v1/worker/register", json={}, headers=page_of(http))
    assert answer.status_code == 401
    assert "Bearer" in answer.json()["detail"]


async def test_what_comes_by_the_cookie_stays_in_no_cache(http: AsyncClient, ann: str) -> None:
    await login(http)
    assert (await http.get("/api/v1/jobs")).headers["cache-control"] == "no-store"


# -- over TLS ----------------------------------------------------------------------------------------------------------


async def test_over_tls_the_cookie_is_bound_to_it(http: AsyncClient, ann: str) -> None:
    body = {"account": "ann", "password": PASSWORD}
    answer = await http.post("https://127.0.0.1:8620/login", json=body)
    name, _, rest = answer.headers["set-cookie"].partition("=")
    assert name == "__Host-mainspring"
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(rest.split("; "))
    text = rest.partition(";")[0]
    http.cookies.clear()
    for cookie, status in ((f"__Host-mainspring={text}", 200), (f"mainspring={text}", 401)):
        answer = await http.get("https://127.0.0.1:8620/api/v1/me", headers={"Cookie": cookie})
        assert answer.status_code == status


# -- what every answer says to a browser -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/health", "/nothing", "/api/v1/jobs", "/login", "/openapi.json"])
async def test_every_answer_keeps_browsers_from_harm(http: AsyncClient, ann: str, path: str) -> None:
    headers = (await http.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == ("same-origin" if path == "/login" else "no-referrer")
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "'unsafe-inline'" not in headers["content-security-policy"]
    assert "strict-transport-security" not in headers
    assert not [name for name in headers if name.startswith("access-control-")]


async def test_tls_is_insisted_on_but_for_this_machine(runtime: ManualRuntime) -> None:
    async with client_of(api_of(runtime, access=Access(names=frozenset({"jobs.example.org"})))) as http:
        for url, given in (
            ("https://jobs.example.org/health", True),
            ("https://localhost/health", False),
            ("https://[::1]:8620/health", False),
            ("http://jobs.example.org/health", False),
        ):
            assert ("strict-transport-security" in (await http.get(url)).headers) is given, url


# -- wrong passwords ---------------------------------------------------------------------------------------------------


async def test_a_wrong_password_and_a_wrong_name_look_the_same(
    http: AsyncClient, admin: dict[str, str], ann: str
) -> None:
    await http.put("/api/v1/accounts/bob", json={"grants": {}}, headers=admin)
    refused = [
        await login(http, password="wrong password"),
        await login(http, "nobody", "wrong password"),
        await login(http, "bob", "wrong password"),
        await login(http, "../é\0", "wrong password"),
    ]
    assert {answer.status_code for answer in refused} == {401}
    assert {answer.json()["detail"] for answer in refused} == {"there is no such account with this password"}
    assert not any("set-cookie" in answer.headers for answer in refused)


class CountingHasher:
    """Counts what is verified, and how."""

    def __init__(self) -> None:
        self.kept: list[bool] = []

    async def hash(self, password: str) -> str:
        return f"#{password}"

    async def verify(self, kept: str | None, password: str) -> bool:
        self.kept.append(kept is not None)
        return kept == f"#{password}"


async def test_an_unknown_account_costs_as_much_work_as_a_known_one(
    runtime: ManualRuntime, identities: Identities
) -> None:
    hasher = CountingHasher()
    sign_in = Logins(runtime.store, clock=runtime.clock, ids=IdSequence(), hasher=hasher, lasts=LASTS)
    async with client_of(api_of(runtime, identities=identities, sign_in=sign_in)) as http:
        made = await http.post("/api/v1/tokens", json={"name": "first", "role": "admin", "account": "root"})
        headers = {"Authorization": f"Bearer {made.json()['token']}"}
        await http.put("/api/v1/accounts/ann", json={"grants": {}}, headers=headers)
        await set_password(http, "ann", PASSWORD, headers=headers)
        for name in ("ann", "root", "nobody", "not a word"):
            assert (await login(http, name, "wrong password")).status_code == 401
    assert hasher.kept == [True, False, False, False]


async def test_guesses_are_bounded_and_the_right_password_counts_none(
    http: AsyncClient, runtime: ManualRuntime, ann: str
) -> None:
    for _ in range(8):
        assert (await login(http)).status_code == 200
    for _ in range(5):
        assert (await login(http, password="wrong password")).status_code == 401
    refused = await login(http)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    assert (await login(http, "bob", "wrong password")).status_code == 401
    await runtime.advance(int(refused.headers["retry-after"]))
    assert (await login(http)).status_code == 200


async def test_an_address_cannot_try_one_password_at_many_accounts(http: AsyncClient, ann: str) -> None:
    answers = [(await login(http, f"user{number}", PASSWORD)).status_code for number in range(25)]
    assert answers == [401] * 20 + [429] * 5


async def test_an_account_that_is_refused_takes_no_tries_from_others(http: AsyncClient, ann: str) -> None:
    answers = [(await login(http, password="wrong password")).status_code for _ in range(30)]
    assert answers == [401] * 5 + [429] * 25
    assert (await login(http, "bob", "wrong password")).status_code == 401


async def test_a_try_that_the_store_failed_does_not_count(
    http: AsyncClient, runtime: ManualRuntime, ann: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: str) -> str:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(runtime.store, "find_password", fail)
        assert {(await login(http)).status_code for _ in range(6)} == {503}
    assert (await login(http)).status_code == 200


async def test_a_token_begins_so_many_sessions(
    http: AsyncClient, runtime: ManualRuntime, admin: dict[str, str]
) -> None:
    body = {"token": admin["Authorization"].removeprefix("Bearer ")}
    answers = [(await http.post("/login", json=body)).status_code for _ in range(22)]
    assert answers == [200] * 20 + [429] * 2
    refused = await http.post("/login", json=body)
    assert "too many logins by ms_" in refused.json()["detail"]
    await runtime.advance(int(refused.headers["retry-after"]))
    assert (await http.post("/login", json=body)).status_code == 200


async def test_a_token_signs_in_no_more_often_than_its_rate(
    http: AsyncClient, admin: dict[str, str], ann: str
) -> None:
    body = {"name": "ci", "role": "viewer", "account": "ann", "rate": 1}
    made = (await http.post("/api/v1/tokens", json=body, headers=admin)).json()
    given = {"token": made["token"], "cookie": True}
    assert (await http.post("/login", json=given)).status_code == 200
    assert (await http.post("/login", json=given)).status_code == 429
    csrf = csrf_of(http.cookies["mainspring"])
    assert "Signed in as ann" in (await http.get("/login")).text
    assert "Signed in as ann" not in (await http.get("/login")).text
    refused = await post_form(http, "/logout/form", csrf=csrf)
    assert refused.status_code == 429, "it does not look as if the session were over"


async def test_an_attack_does_not_fill_the_audit(
    http: AsyncClient, runtime: ManualRuntime, admin: dict[str, str], ann: str
) -> None:
    for _ in range(3):
        for _ in range(5):
            await login(http, password="wrong password")
        await runtime.advance(120, step=60)
    await login(http, "hunter2-the-secret", "wrong password")
    await runtime.advance(600, step=300)
    await login(http, password="wrong password")
    audit = (await http.get("/api/v1/audit?action=login", headers=admin)).json()["items"]
    told = [(one["subject_id"], one["outcome"], one["after"]["failures"]) for one in reversed(audit)]
    assert told == [("ann", "refused", 1), (None, "refused", 1), ("ann", "refused", 14)]
    assert "hunter2" not in str(audit)


async def failures_told(http: AsyncClient, admin: dict[str, str]) -> list[tuple[str, int]]:
    audit = (await http.get("/api/v1/audit?action=login", headers=admin)).json()["items"]
    return [
        (one["subject_id"], one["after"]["failures"])
        for one in reversed(audit)
        if one["outcome"] == "refused"
    ]


async def test_failures_are_told_though_none_follows(
    http: AsyncClient,
    runtime: ManualRuntime,
    sign_in: Logins,
    identities: Identities,
    admin: dict[str, str],
    ann: str,
) -> None:
    service = FailedLogins(sign_in, waiter=ManualWaiter())
    for _ in range(3):
        await login(http, password="wrong password")
    assert await service.tick(runtime.clock.now()) == 60
    assert await failures_told(http, admin) == [("ann", 1)]
    await runtime.advance(600, step=300)
    for _ in range(2):
        await service.tick(runtime.clock.now())
    await identities.refresh()
    assert await failures_told(http, admin) == [("ann", 1), ("ann", 2)]


async def test_who_is_right_at_last_has_the_failures_told(
    http: AsyncClient, runtime: ManualRuntime, admin: dict[str, str], ann: str
) -> None:
    for _ in range(3):
        await login(http, password="wrong password")
    await runtime.advance(600, step=300)
    assert (await login(http)).status_code == 200
    assert await failures_told(http, admin) == [("ann", 1), ("ann", 2)]


async def test_at_the_end_all_failures_are_told(
    http: AsyncClient, sign_in: Logins, admin: dict[str, str], ann: str
) -> None:
    for _ in range(3):
        await login(http, password="wrong password")
    for _ in range(2):
        await sign_in.tell_failures(at_end=True)
    assert await failures_told(http, admin) == [("ann", 1), ("ann", 2)]


async def test_failures_that_the_store_did_not_take_are_told_later(
    http: AsyncClient,
    runtime: ManualRuntime,
    sign_in: Logins,
    admin: dict[str, str],
    ann: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(3):
        await login(http, password="wrong password")
    await runtime.advance(600, step=300)

    async def fail(_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(runtime.store, "add_audit", fail)
    assert (await login(http)).status_code == 200, "whoever is right does not wait for it"
    with pytest.raises(StoreUnavailable):
        await sign_in.tell_failures()
    monkeypatch.undo()
    await sign_in.tell_failures()
    assert await failures_told(http, admin) == [("ann", 1), ("ann", 2)]


# -- the page ----------------------------------------------------------------------------------------------------------


async def post_form(http: AsyncClient, path: str, **fields: str) -> Response:
    return await http.post(path, data=fields, headers={"Origin": HERE})


async def test_the_page_signs_in_and_out_without_a_script(http: AsyncClient, ann: str) -> None:
    page = await http.get("/login")
    assert "<script" not in page.text
    assert 'action="/login/form"' in page.text
    answer = await post_form(http, "/login/form", account="ann", password=PASSWORD)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    page = await http.get("/login")
    assert "Signed in as ann" in page.text
    csrf = csrf_of(http.cookies["mainspring"])
    assert csrf in page.text
    text = http.cookies["mainspring"]
    assert (await post_form(http, "/logout/form", csrf="wrong")).status_code == 403
    assert (await post_form(http, "/logout/form", csrf=csrf)).headers["location"] == "/login"
    assert "mainspring" not in http.cookies
    assert (await http.get("/api/v1/me", headers={"Authorization": f"Bearer {text}"})).status_code == 401


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://127.0.0.1:1"])
async def test_a_form_of_a_foreign_page_signs_nobody_in(
    http: AsyncClient, ann: str, origin: str | None
) -> None:
    """Else a user would work in the account of whoever made that page."""
    headers = {} if origin is None else {"Origin": origin}
    fields = {"account": "ann", "password": PASSWORD}
    refused = await http.post("/login/form", data=fields, headers=headers)
    assert refused.status_code in {400, 403}
    assert "mainspring" not in http.cookies


@pytest.mark.parametrize("origin", ["http://127.0.0.1:1", "https://127.0.0.1:8620"])
async def test_a_script_of_a_foreign_page_signs_nobody_in(http: AsyncClient, ann: str, origin: str) -> None:
    body = {"account": "ann", "password": PASSWORD}
    for cookie, status in ((True, 403), (False, 200)):
        http.cookies.clear()
        answer = await http.post("/login", json={**body, "cookie": cookie}, headers={"Origin": origin})
        assert answer.status_code == status, answer.text
        assert "mainspring" not in http.cookies
    answer = await http.post("/login", json={**body, "cookie": True}, headers={"Origin": HERE})
    assert answer.status_code == 200


async def test_the_page_escapes_what_was_typed(http: AsyncClient, ann: str) -> None:
    hurt = '"><script>alert(1)</script>'
    refused = await post_form(http, "/login/form", account=hurt, password="wrong password")
    assert refused.status_code == 401
    assert "<script" not in refused.text
    assert "&quot;&gt;&lt;script&gt;" in refused.text


@pytest.mark.parametrize("path", ["/login/form", "/logout/form"])
async def test_a_form_with_fields_that_no_page_has_is_refused(http: AsyncClient, ann: str, path: str) -> None:
    signed_in = await post_form(http, "/login/form", account="ann", password=PASSWORD)
    assert signed_in.status_code == 303
    refused = await post_form(http, path, **{f"field{number}": "x" for number in range(11)})
    assert refused.status_code == 400, refused.text
    assert "more than 10 fields" in refused.json()["detail"]


async def test_the_page_says_what_is_wrong_and_when_to_try_again(http: AsyncClient, ann: str) -> None:
    assert 'autocapitalize="none" spellcheck="false" required autofocus>' in (await http.get("/login")).text
    pages = [await post_form(http, "/login/form", account="ann", password="wrong") for _ in range(6)]
    assert "There is no such account with this password.</p>" in pages[0].text
    assert 'autocomplete="current-password" required autofocus>' in pages[0].text, (
        "the name stands there already"
    )
    assert pages[0].text.count("autofocus") == 1
    assert pages[5].status_code == 429
    seconds = pages[5].headers["retry-after"]
    assert f"Too many wrong passwords from this address; wait, and try again in {seconds} s." in pages[5].text


async def test_a_session_of_a_token_ends_with_it(http: AsyncClient, admin: dict[str, str], ann: str) -> None:
    body = {"name": "ci", "role": "viewer", "account": "ann"}
    made = (await http.post("/api/v1/tokens", json=body, headers=admin)).json()
    assert (await http.post("/login", json={"token": made["token"]})).status_code == 200
    me = (await http.get("/api/v1/me")).json()
    assert (me["account"], me["token"]["role"], me["token"]["login"]) == ("ann", "viewer", "token")
    assert (await http.post(f"/api/v1/tokens/{made['prefix']}/revoke", headers=admin)).status_code == 200
    assert (await http.get("/api/v1/me")).status_code == 401


async def make_token(http: AsyncClient, account: str, role: str = "viewer", **sent: Any) -> dict[str, str]:
    """Make a token, and return what is sent with it."""
    made = await http.post("/api/v1/tokens", json={"name": "mine", "role": role, "account": account}, **sent)
    assert made.status_code == 201, made.text
    return {"Authorization": f"Bearer {made.json()['token']}"}


async def status_of(http: AsyncClient, bearer: dict[str, str]) -> int:
    http.cookies.clear()
    return (await http.get("/api/v1/me", headers=bearer)).status_code


async def test_a_token_that_is_made_in_a_session_ends_with_it(
    http: AsyncClient, admin: dict[str, str], ann: str
) -> None:
    await login(http)
    page, first = page_of(http), http.cookies["mainspring"]
    bearer = await make_token(http, "ann", headers=page)
    second = await make_token(http, "ann", headers=bearer)
    rotated = await http.post(f"/api/v1/tokens/{second['Authorization'][7:]}/rotate", headers=bearer)
    third = {"Authorization": f"Bearer {rotated.json()['token']}"}
    assert (await http.post("/login", json={"token": bearer["Authorization"][7:]})).status_code == 200
    session = http.cookies["mainspring"]
    http.cookies.clear()
    assert (await http.get("/api/v1/me", headers=bearer)).json()["token"]["parent"] is not None
    await login(http)  # another session, which goes on
    other = http.cookies["mainspring"]
    http.cookies.clear()
    http.cookies.set("mainspring", first)
    assert (await http.post("/logout", headers=page)).status_code == 204
    assert [await status_of(http, each) for each in (bearer, second, third)] == [401, 401, 401]
    for text, status in ((session, 401), (other, 200)):
        http.cookies.set("mainspring", text)
        assert (await http.get("/api/v1/me")).status_code == status


async def test_a_token_that_an_administrator_makes_goes_on(
    http: AsyncClient, admin: dict[str, str], ann: str
) -> None:
    """It is for a program, which must not stop when he signs out."""
    await http.put("/api/v1/accounts/ci", json={"grants": {"default": "operator"}}, headers=admin)
    await set_password(http, "root", PASSWORD, headers=admin)
    await login(http, "root")
    page = page_of(http)
    tokens = [await make_token(http, account, headers=page) for account in ("ci", "root")]
    assert (await http.post("/logout", headers=page)).status_code == 204
    assert (await set_password(http, "root", f"{PASSWORD} 2", old=PASSWORD, headers=admin)).status_code == 204
    assert [await status_of(http, each) for each in tokens] == [200, 200]


async def test_a_new_password_ends_the_tokens_that_were_made_in_sessions(
    http: AsyncClient, admin: dict[str, str], ann: str
) -> None:
    lasting = await make_token(http, "ann", headers=admin)
    await login(http)
    lost = await make_token(http, "ann", headers=page_of(http))
    await login(http)
    page = page_of(http)
    mine = await make_token(http, "ann", headers=page)
    changed = await set_password(http, "ann", f"{PASSWORD} 2", old=PASSWORD, headers=page)
    assert changed.status_code == 204
    assert [await status_of(http, each) for each in (lost, mine, lasting)] == [401, 200, 200]


async def test_no_token_is_made_in_a_session_that_ends_meanwhile(
    http: AsyncClient,
    runtime: ManualRuntime,
    admin: dict[str, str],
    ann: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await login(http)
    page, me = page_of(http), (await http.get("/api/v1/me")).json()
    add = runtime.store.add_token

    async def add_after_the_end(new: NewToken, **given: Any) -> bool:
        await runtime.store.revoke_token(me["token"]["prefix"], now=runtime.clock.now())
        return await add(new, **given)

    monkeypatch.setattr(runtime.store, "add_token", add_after_the_end)
    made = await http.post("/api/v1/tokens", json={"name": "mine", "role": "viewer"}, headers=page)
    assert made.status_code == 409, made.text
    assert "has ended meanwhile; sign in again" in made.json()["detail"]


async def test_a_session_does_not_outlast_a_token_that_is_replaced_meanwhile(
    runtime: ManualRuntime, http: AsyncClient, admin: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    long = Logins(
        runtime.store,
        clock=runtime.clock,
        ids=IdSequence(5000),
        hasher=cast("Any", None),
        lasts=timedelta(days=30),
    )
    access = runtime.client.access
    made = await access.make_token(TokenWish(name="x", role=AccessRole.VIEWER, account="root"), asker=None)
    found = await runtime.store.find_token(made.token.prefix)
    assert found is not None
    add = runtime.store.add_session

    async def add_after_a_rotation(new: NewToken, **given: Any) -> SessionAdded:
        monkeypatch.undo()
        await access.rotate(made.token.prefix, asker=None)
        return await add(new, **given)

    monkeypatch.setattr(runtime.store, "add_session", add_after_a_rotation)
    by = Actor(name="somebody", kind=ActorKind.ANYBODY, action="login")
    session = await long.sign_in_by_token(found.identity, name="x", by=by)
    assert session is not None
    assert session.token.expires_at == runtime.clock.now() + ROTATION_GRACE


async def test_only_the_owner_who_knows_it_and_administrators_change_a_password(
    http: AsyncClient, admin: dict[str, str], ann: str
) -> None:
    other = "another long password"
    await login(http)
    for account, old, status in (("ann", None, 422), ("ann", "wrong password", 422), ("root", None, 403)):
        refused = await set_password(http, account, other, old=old, headers=page_of(http))
        assert refused.status_code == status, refused.text
    assert (await set_password(http, "ann", other, old=PASSWORD, headers=page_of(http))).status_code == 204
    assert (await http.get("/api/v1/me")).status_code == 200
    text = http.cookies["mainspring"]
    assert (await login(http)).status_code == 401
    assert (await set_password(http, "ann", PASSWORD, headers=admin)).status_code == 204
    http.cookies.set("mainspring", text)
    assert (await http.get("/api/v1/me")).status_code == 401


async def test_a_bounded_token_sets_no_first_password(http: AsyncClient, admin: dict[str, str]) -> None:
    """Else it would get all that its account may."""
    body = {"name": "ci", "role": "viewer", "account": "root"}
    text = (await http.post("/api/v1/tokens", json=body, headers=admin)).json()["token"]
    bearer = {"Authorization": f"Bearer {text}"}
    assert (await set_password(http, "root", PASSWORD, headers=bearer)).status_code == 403


async def test_nobody_signs_in_by_a_browser_without_a_provider(http: AsyncClient, ann: str) -> None:
    refused = await http.post("/login/browser", json={"challenge": challenge_of("x")})
    assert refused.status_code == 409
    assert "knows no identity provider" in refused.json()["detail"]
