"""Signing in at a real identity provider, and what a browser and its answers must not get away with."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from httpx import AsyncClient, Response
from oidc_provider_mock import User, run_server_in_thread

from mainspring.api.login_desk import LoginDesk
from mainspring.config.secrets import ConfiguredSecrets
from mainspring.core.access import Account
from mainspring.core.actors import Actor, ActorKind
from mainspring.core.identity_providers import LoginAttempt, ProviderRules, read_group_roles
from mainspring.core.terminal_logins import challenge_of
from mainspring.engine.usecases.identities import Identities
from mainspring.engine.usecases.logins import Logins
from mainspring.errors import NeedsRight
from mainspring.login.oidc import OidcProvider
from mainspring.registry import FunctionRegistry
from mainspring.testing.clock import FakeClock, ManualWaiter
from mainspring.testing.factories import IdSequence
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import HERE, api_of, client_of
from tests.unit.api.test_logins import CountingHasher

# The provider runs in this process, and warns of what it uses itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
GROUPS = read_group_roles({"ops": ["operator@shop", "viewer@*"], "admins": ["admin@*"]}, "groups")
USERS = (
    User(sub="ann", claims={"preferred_username": "Ann", "groups": ["ops"]}),
    User(sub="eve", claims={"preferred_username": "root", "email": "root@example.com", "groups": ["sales"]}),
    User(sub="kim", claims={"preferred_username": "root", "groups": ["ops"]}),
)


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with run_server_in_thread(user_claims=USERS) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    """An engine at the time of this machine, which the provider goes by."""
    async with ManualRuntime(FunctionRegistry(), clock=FakeClock(datetime.now(UTC))) as runtime:
        yield runtime


@pytest.fixture
def rules(issuer: str) -> ProviderRules:
    return ProviderRules(
        issuer=issuer,
        client_id="mainspring",
        client_secret="provider",
        name="Example <b>",
        scopes=("openid", "profile", "email"),
        groups=GROUPS,
        groups_claim="groups",
    )


class KnownSecrets(ConfiguredSecrets):
    """One secret."""

    def __init__(self) -> None:
        super().__init__(())

    def reveal(self, name: str, tenant: str | None) -> str:
        assert (name, tenant) == ("provider", None)
        return "s3cret:of provider"


@pytest.fixture
async def identities(runtime: ManualRuntime) -> Identities:
    return Identities(runtime.store, clock=runtime.clock, ids=IdSequence(1000), waiter=ManualWaiter())


@pytest.fixture
async def http(
    runtime: ManualRuntime, rules: ProviderRules, identities: Identities
) -> AsyncIterator[AsyncClient]:
    sign_in = Logins(
        runtime.store,
        clock=runtime.clock,
        ids=IdSequence(2000),
        hasher=CountingHasher(),
        lasts=timedelta(hours=12),
    )
    provider = OidcProvider(rules, secrets=KnownSecrets(), clock=runtime.clock)
    api = api_of(runtime, identities=identities, sign_in=sign_in, provider=provider)
    async with client_of(api) as client:
        yield client
    await provider.stop()


@pytest.fixture
async def admin(http: AsyncClient) -> dict[str, str]:
    made = await http.post("/api/v1/tokens", json={"name": "first", "role": "admin", "account": "root"})
    return {"Authorization": f"Bearer {made.json()['token']}"}


async def go(http: AsyncClient) -> str:
    """Ask to sign in; return where the browser is sent."""
    answer = await http.get("/login/oidc")
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


async def approve(address: str, sub: str) -> str:
    """Sign in at the provider; return where it sends the browser back to."""
    async with httpx.AsyncClient() as browser:
        answer = await browser.post(address, data={"sub": sub})
    assert answer.status_code == 302, answer.text
    return answer.headers["location"]


async def sign_in(http: AsyncClient, sub: str) -> Response:
    return await http.get(await approve(await go(http), sub))


def asked(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


async def test_somebody_signs_in_and_gets_what_his_groups_may(
    http: AsyncClient, admin: dict[str, str], issuer: str
) -> None:
    assert "Sign in with Example &lt;b&gt;</a>" in (await http.get("/login")).text
    address = await go(http)
    assert address.startswith(f"{issuer}/oauth2/authorize?")
    sent = asked(address)
    assert (sent["redirect_uri"], sent["response_type"]) == (f"{HERE}/login/callback", "code")
    assert sent["code_challenge_method"] == "S256"
    cookie = http.cookies["mainspring-login"]
    assert cookie not in address
    answer = await http.get(await approve(address, "ann"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/login"), answer.text
    assert "mainspring-login" not in http.cookies
    me = (await http.get("/api/v1/me")).json()
    assert me["account"].startswith("ann.")
    assert me["grants"] == {"*": "viewer", "shop": "operator"}
    assert me["token"]["login"] == "oidc"
    page = (await http.get("/login")).text
    assert f"Signed in as {me['account']}" in page
    account = (await http.get(f"/api/v1/accounts/{me['account']}", headers=admin)).json()
    assert account["issuer"] == issuer
    again = await sign_in(http, "ann")
    assert again.status_code == 303
    assert (await http.get("/api/v1/me")).json()["account"] == me["account"]


async def test_who_is_in_no_group_that_counts_is_not_let_in(http: AsyncClient, admin: dict[str, str]) -> None:
    refused = await sign_in(http, "eve")
    assert refused.status_code == 401
    assert "None of your groups at Example &lt;b&gt; has a role here" in refused.text
    assert "mainspring" not in http.cookies
    accounts = (await http.get("/api/v1/accounts", headers=admin)).json()["items"]
    assert [one["name"] for one in accounts] == ["root"]


async def test_no_name_leads_to_another_account(http: AsyncClient, admin: dict[str, str]) -> None:
    """CVE-2022-30034: whoever may choose his name or address elsewhere, is not let in as another one here."""
    assert (await sign_in(http, "kim")).status_code == 303
    me = (await http.get("/api/v1/me")).json()
    assert me["account"] != "root"
    assert "admin" not in me["rights"]


async def test_groups_that_are_left_are_lost_at_the_next_login(
    http: AsyncClient, admin: dict[str, str], runtime: ManualRuntime
) -> None:
    await sign_in(http, "ann")
    name = (await http.get("/api/v1/me")).json()["account"]
    await http.put(f"/api/v1/accounts/{name}", json={"grants": {"*": "admin"}}, headers=admin)
    assert (await http.get("/api/v1/me")).json()["grants"] == {"*": "admin"}
    await sign_in(http, "ann")
    assert (await http.get("/api/v1/me")).json()["grants"] == {"*": "viewer", "shop": "operator"}


async def test_payloads_stay_hidden_though_a_group_is_missing_for_once(
    http: AsyncClient, admin: dict[str, str], runtime: ManualRuntime, rules: ProviderRules
) -> None:
    await sign_in(http, "ann")
    me = (await http.get("/api/v1/me")).json()
    body = {"grants": me["grants"], "hides_payloads": ["shop", "*"]}
    url = f"/api/v1/accounts/{me['account']}"
    assert (await http.put(url, json=body, headers=admin)).status_code == 200
    logins = Logins(
        runtime.store,
        clock=runtime.clock,
        ids=IdSequence(5000),
        hasher=CountingHasher(),
        lasts=timedelta(hours=1),
    )
    by = Actor(name="somebody", kind=ActorKind.ANYBODY, action="login")
    with pytest.raises(NeedsRight):
        await logins.sign_in_by_provider(rules, {"sub": "ann", "groups": []}, name="x", by=by)
    shown = (await http.get(url, headers=admin)).json()
    assert (shown["grants"], shown["hides_payloads"]) == ({}, [])
    await sign_in(http, "ann")
    shown = (await http.get(url, headers=admin)).json()
    assert (shown["grants"], shown["hides_payloads"]) == (me["grants"], ["*", "shop"])


async def test_tokens_end_30_days_after_the_last_login(
    http: AsyncClient, admin: dict[str, str], runtime: ManualRuntime, identities: Identities
) -> None:
    await sign_in(http, "ann")
    name = (await http.get("/api/v1/me")).json()["account"]
    body = {"name": "ci", "role": "viewer", "account": name}
    text = (await http.post("/api/v1/tokens", json=body, headers=admin)).json()["token"]
    http.cookies.clear()
    bearer = {"Authorization": f"Bearer {text}"}
    for days, status in ((29, 200), (2, 401)):
        runtime.clock.advance(timedelta(days=days).total_seconds())
        await identities.refresh()
        assert (await http.get("/api/v1/me", headers=bearer)).status_code == status
    account = await runtime.store.get_account(name)
    assert account is not None


async def test_an_account_of_a_provider_has_no_password(http: AsyncClient, admin: dict[str, str]) -> None:
    await sign_in(http, "ann")
    name = (await http.get("/api/v1/me")).json()["account"]
    body = {"password": "correct horse battery staple"}
    refused = await http.put(f"/api/v1/accounts/{name}/password", json=body, headers=admin)
    assert refused.status_code == 409
    assert "has no password here" in refused.json()["detail"]


async def test_a_disabled_account_is_not_let_in(http: AsyncClient, admin: dict[str, str]) -> None:
    await sign_in(http, "ann")
    me = (await http.get("/api/v1/me")).json()
    body = {"grants": me["grants"], "disabled": True}
    await http.put(f"/api/v1/accounts/{me['account']}", json=body, headers=admin)
    assert (await http.get("/api/v1/me")).status_code == 401
    refused = await sign_in(http, "ann")
    assert refused.status_code == 401
    assert "is disabled" in refused.text


async def test_a_login_undoes_nothing_that_an_administrator_changes_meanwhile(
    http: AsyncClient, admin: dict[str, str], runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sign_in(http, "ann")
    url = f"/api/v1/accounts/{(await http.get('/api/v1/me')).json()['account']}"
    viewer = {"grants": {"shop": "viewer"}}
    assert (await http.put(url, json=viewer, headers=admin)).status_code == 200
    find = runtime.store.find_subject

    async def find_before_a_change(issuer: str, subject: str) -> Account | None:
        found = await find(issuer, subject)
        monkeypatch.undo()
        body = {**viewer, "hides_payloads": ["shop"], "disabled": True}
        assert (await http.put(url, json=body, headers=admin)).status_code == 200
        return found

    address = await approve(await go(http), "ann")
    monkeypatch.setattr(runtime.store, "find_subject", find_before_a_change)
    refused = await http.get(address)
    assert refused.status_code == 401, "the login writes the grants of the groups"
    shown = (await http.get(url, headers=admin)).json()
    assert (shown["disabled"], shown["hides_payloads"]) == (True, ["shop"])


async def test_payloads_stay_hidden_though_an_account_is_disabled_for_a_while(
    http: AsyncClient, admin: dict[str, str]
) -> None:
    await sign_in(http, "ann")
    me = (await http.get("/api/v1/me")).json()
    url = f"/api/v1/accounts/{me['account']}"
    body = {"grants": me["grants"], "hides_payloads": ["shop"]}
    assert (await http.put(url, json=body, headers=admin)).status_code == 200
    for disabled in (True, False):
        body = {"grants": {"*": "viewer"}, "disabled": disabled}
        assert (await http.put(url, json=body, headers=admin)).status_code == 200
    assert (await sign_in(http, "ann")).status_code == 303
    shown = (await http.get(url, headers=admin)).json()
    assert (shown["grants"], shown["hides_payloads"]) == (me["grants"], ["shop"])
    body = {"grants": me["grants"], "hides_payloads": []}
    assert (await http.put(url, json=body, headers=admin)).json()["hides_payloads"] == []


async def test_an_account_tells_when_its_tokens_end(
    http: AsyncClient, admin: dict[str, str], runtime: ManualRuntime, issuer: str
) -> None:
    await sign_in(http, "ann")
    url = f"/api/v1/accounts/{(await http.get('/api/v1/me')).json()['account']}"
    shown = (await http.get(url, headers=admin)).json()
    login, end = (datetime.fromisoformat(shown[name]) for name in ("last_login_at", "tokens_end_at"))
    assert (shown["issuer"], login) == (issuer, runtime.clock.now())
    assert end - login == timedelta(days=30)
    root = (await http.get("/api/v1/accounts/root", headers=admin)).json()
    assert (root["issuer"], root["last_login_at"], root["tokens_end_at"]) == (None, None, None)


# -- a command line, which signs in by a browser -----------------------------------------------------------------------

VERIFIER, STATE = "v" * 43, "s" * 43


async def begin(http: AsyncClient, **given: Any) -> str:
    """Begin as a command line does; return the address for the browser."""
    answer = await http.post("/login/browser", json={"challenge": challenge_of(VERIFIER), **given})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["url"])


async def come_back(http: AsyncClient, url: str, sub: str = "ann") -> Response:
    """Sign in with a browser at an address; return what its last answer is."""
    answer = await http.get(url)
    assert answer.status_code == 303, answer.text
    return await http.get(await approve(answer.headers["location"], sub))


async def exchange(http: AsyncClient, code: str, verifier: str = VERIFIER, **more: Any) -> Response:
    return await http.post("/login", json={"code": code, "verifier": verifier, "cookie": False, **more})


async def test_a_command_line_signs_in_by_a_browser_that_comes_back(
    http: AsyncClient, admin: dict[str, str], runtime: ManualRuntime
) -> None:
    url = await begin(http, port=40_123, state=STATE)
    assert url.startswith(f"{HERE}/login/oidc?")
    assert VERIFIER not in url
    back = await come_back(http, url)
    assert back.status_code == 303, back.text
    place = urlsplit(back.headers["location"])
    assert (place.scheme, place.netloc, place.path) == ("http", "127.0.0.1:40123", "/")
    brought = asked(back.headers["location"])
    assert brought["state"] == STATE
    assert "mainspring" not in http.cookies, "the browser is not signed in"
    signed = await exchange(http, brought["code"])
    assert signed.status_code == 200, signed.text
    view = signed.json()
    assert datetime.fromisoformat(view["expires_at"]) == runtime.clock.now() + timedelta(hours=12)
    me = (await http.get("/api/v1/me", headers={"Authorization": f"Bearer {view['token']}"})).json()
    assert (me["account"], me["token"]["login"]) == (view["account"], "oidc")
    assert me["grants"] == {"*": "viewer", "shop": "operator"}
    audit = (await http.get("/api/v1/audit?action=login", headers=admin)).json()["items"]
    assert [one["after"]["session"] for one in audit] == [me["token"]["prefix"]]


async def test_a_code_works_once(http: AsyncClient, admin: dict[str, str]) -> None:
    code = asked((await come_back(http, await begin(http, port=40_123, state=STATE))).headers["location"])[
        "code"
    ]
    assert (await exchange(http, code)).status_code == 200
    refused = await exchange(http, code)
    assert refused.status_code == 401
    assert "was used before" in refused.json()["detail"]


async def test_a_code_is_shown_where_no_port_waits(http: AsyncClient, admin: dict[str, str]) -> None:
    page = await come_back(http, await begin(http))
    assert page.status_code == 200
    assert page.headers["cache-control"] == "no-store"
    found = re.search("<code>([^<]*)</code>", page.text)
    assert found is not None
    assert (await exchange(http, found[1])).status_code == 200


async def test_a_code_is_of_use_only_with_its_verifier_and_not_for_long(
    http: AsyncClient, admin: dict[str, str], runtime: ManualRuntime
) -> None:
    """Who sees the addresses of a browser, or is given a code, has no session."""
    url = await begin(http, port=40_123, state=STATE)
    code = asked((await come_back(http, url)).headers["location"])["code"]
    for wrong in ("w" * 43, challenge_of(VERIFIER)):
        assert (await exchange(http, code, wrong)).status_code == 401
    for bearer in (code, f"ms_{code}"):
        headers = {"Authorization": f"Bearer {bearer}"}
        assert (await http.get("/api/v1/me", headers=headers)).status_code == 401
        assert (await http.post("/login", json={"token": bearer})).status_code == 401
    http.cookies.set("mainspring", f"ms_{code}")
    assert (await http.get("/api/v1/me")).status_code == 401
    await runtime.advance(300)
    assert (await exchange(http, code)).status_code == 401


async def test_a_code_of_an_account_that_is_disabled_meanwhile_signs_nobody_in(
    http: AsyncClient, admin: dict[str, str]
) -> None:
    code = asked((await come_back(http, await begin(http, port=40_123, state=STATE))).headers["location"])[
        "code"
    ]
    accounts = (await http.get("/api/v1/accounts", headers=admin)).json()["items"]
    [name] = [one["name"] for one in accounts if one["issuer"] is not None]
    body = {"grants": {}, "disabled": True}
    assert (await http.put(f"/api/v1/accounts/{name}", json=body, headers=admin)).status_code == 200
    assert (await exchange(http, code)).status_code == 401


async def test_a_command_line_hears_why_nobody_may_sign_in(http: AsyncClient, admin: dict[str, str]) -> None:
    back = await come_back(http, await begin(http, port=40_123, state=STATE), "eve")
    brought = asked(back.headers["location"])
    assert back.headers["location"].startswith("http://127.0.0.1:40123/?")
    assert "none of your groups at Example <b> has a role here" in brought["error"]
    assert (brought["state"], "code" in brought) == (STATE, False)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"challenge": "short"}, "challenge"),
        ({"challenge": 7}, "challenge"),
        ({"port": 80, "state": STATE}, "port"),
        ({"port": 70_000, "state": STATE}, "port"),
        ({"port": 40_123}, "state"),
        ({"port": 40_123, "state": "a b"}, "state"),
        ({"state": STATE}, "port"),
    ],
)
async def test_what_a_command_line_begins_with_is_read(
    http: AsyncClient, admin: dict[str, str], given: dict[str, Any], field: str
) -> None:
    refused = await http.post("/login/browser", json={"challenge": challenge_of(VERIFIER), **given})
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["field"] == field
    query = {"challenge": challenge_of(VERIFIER), **{name: str(value) for name, value in given.items()}}
    assert (await http.get("/login/oidc", params=query)).status_code == 422


async def test_what_a_command_line_began_with_cannot_be_changed_on_the_way(
    http: AsyncClient, admin: dict[str, str]
) -> None:
    sent = (await http.get(await begin(http, port=40_123, state=STATE))).headers["location"]
    address = await approve(sent, "ann")
    cookie = http.cookies["mainspring-login"]
    assert "40123" in cookie
    http.cookies.clear()
    http.cookies.set("mainspring-login", cookie.replace("40123", "40124"))
    refused = await http.get(address)
    assert refused.status_code == 401
    assert "did not begin in this browser" in refused.text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"code": "x"}, "verifier"),
        ({"verifier": "x"}, "code"),
        ({"code": "x", "verifier": ""}, "verifier"),
        ({"code": "x", "verifier": "x" * 129}, "verifier"),
        ({"code": "x", "verifier": "x", "account": "ann"}, "code"),
        ({"code": "x", "verifier": "x", "cookie": True}, "cookie"),
        ({"code": "x", "verifier": "x", "token": "x"}, "token"),
    ],
)
async def test_a_code_goes_with_its_verifier_and_nothing_else(
    http: AsyncClient, admin: dict[str, str], body: dict[str, Any], field: str
) -> None:
    refused = await http.post("/login", json={"cookie": False, **body})
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["field"] == field


async def test_codes_that_are_guessed_count(http: AsyncClient, admin: dict[str, str]) -> None:
    answers = [(await exchange(http, f"code{number}")).status_code for number in range(7)]
    assert answers == [401] * 5 + [429] * 2


# -- what a browser must prove -----------------------------------------------------------------------------------------


async def test_an_answer_counts_only_in_the_browser_that_asked(
    http: AsyncClient, admin: dict[str, str]
) -> None:
    """Else somebody could sign a user in as himself, or use a code that he has caught."""
    back = await approve(await go(http), "ann")
    http.cookies.clear()
    for cookie in (None, "x" * 43, ""):
        headers = {} if cookie is None else {"Cookie": f"mainspring-login={cookie}"}
        refused = await http.get(back, headers=headers)
        assert refused.status_code == 401
        assert "did not begin in this browser" in refused.text
        assert "mainspring" not in http.cookies


async def test_answers_of_other_browsers_keep_nobody_out(http: AsyncClient, admin: dict[str, str]) -> None:
    """Any page can send a browser to the address that logins come back to."""
    for _ in range(25):
        refused = await http.get("/login/callback?state=x&code=y")
        assert (refused.status_code, "did not begin in this browser" in refused.text) == (401, True)
    assert (await sign_in(http, "ann")).status_code == 303


async def test_codes_that_the_provider_does_not_know_count(http: AsyncClient, admin: dict[str, str]) -> None:
    """Who makes up both the cookie and the state would else have the provider asked as often as he likes."""
    answers = []
    for number in range(6):
        attempt = LoginAttempt(f"{number}" * 43)
        cookie = {"Cookie": f"mainspring-login={attempt.secret}"}
        answers.append(await http.get(f"/login/callback?state={attempt.state}&code=x", headers=cookie))
    assert [answer.status_code for answer in answers] == [401] * 5 + [429]


def test_of_too_many_answers_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else who sends many would keep everybody out."""
    monkeypatch.setattr("mainspring.api.login_desk._MOST_ATTEMPTS", 2)
    desk = LoginDesk(cast("Any", None), cast("Any", None), lambda: False)
    now = datetime.now(UTC)
    assert [desk.use_attempt(state, now + timedelta(seconds=9), now) for state in "aabcb"] == [
        *(True, False, True, True, False)
    ]
    assert desk.use_attempt("a", now + timedelta(seconds=9), now)


async def test_an_answer_counts_once(http: AsyncClient, admin: dict[str, str]) -> None:
    back = await approve(await go(http), "ann")
    cookie = {"Cookie": f"mainspring-login={http.cookies['mainspring-login']}"}
    assert (await http.get(back)).status_code == 303
    http.cookies.clear()
    refused = await http.get(back, headers=cookie)
    assert refused.status_code == 401
    assert "is over already" in refused.text


@pytest.mark.parametrize(
    "change",
    [{"state": "other"}, {"state": ""}, {"code": ""}, {"code": "guessed"}, {"iss": "https://evil.example"}],
)
async def test_a_changed_answer_signs_nobody_in(
    http: AsyncClient, admin: dict[str, str], change: dict[str, str]
) -> None:
    back = await approve(await go(http), "ann")
    changed = f"{HERE}/login/callback?{urlencode({**asked(back), **change})}"
    refused = await http.get(changed)
    assert refused.status_code == 401, refused.text
    assert "mainspring" not in http.cookies


async def test_parameters_of_other_providers_do_no_harm(http: AsyncClient, admin: dict[str, str]) -> None:
    back = await approve(await go(http), "ann")
    assert (await http.get(f"{back}&session_state=1&authuser=0&scope=openid&hd=x")).status_code == 303


@pytest.mark.parametrize("name", ["next", "redirect", "redirect_uri", "return_to", "url"])
async def test_no_parameter_leads_anywhere_else(http: AsyncClient, admin: dict[str, str], name: str) -> None:
    evil = urlencode({name: "https://evil.example/"})
    for path in ("/login", "/login/oidc"):
        answer = await http.get(f"{path}?{evil}")
        assert "evil.example" not in answer.headers.get("location", "")
        assert "https://evil.example" not in answer.text or answer.status_code == 422
    back = await approve(await go(http), "ann")
    assert (await http.get(f"{back}&{evil}")).headers["location"] == "/login"


async def test_what_the_provider_says_of_an_error_is_not_shown(
    http: AsyncClient, admin: dict[str, str]
) -> None:
    state = asked(await go(http))["state"]
    hurt = urlencode({"state": state, "error": "<script>alert(1)</script>", "error_description": "<b>x"})
    refused = await http.get(f"/login/callback?{hurt}")
    assert refused.status_code == 401
    assert "Nobody has signed in at Example &lt;b&gt;" in refused.text
    assert "<script" not in refused.text
