"""What browsers were made to do in other schedulers, tried on a real server: pages, cookies, answers to strangers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.security.tenants import FOREIGN, OWN, Tenants, two_tenants

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SCRIPT = "<script>alert(1)</script>"
HOSTILE = (SCRIPT, '"><img src=x onerror=alert(1)>', "javascript:alert(1)", "</title><svg onload=alert(1)>")
PASSWORD = "correct horse battery staple"


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    with two_tenants(tmp_path_factory.mktemp("server")) as tenants:
        for account in ("ann", "mallory"):
            tenants.ask("PUT", f"accounts/{account}", json={"grants": {OWN: "editor"}})
            tenants.ask("PUT", f"accounts/{account}/password", json={"password": f"{PASSWORD} {account}"})
        yield tenants


def check_harmless(answer: httpx.Response) -> None:
    """No browser carries out what is in an answer, whatever that is."""
    headers = answer.headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    if headers["content-type"].startswith("text/html"):
        assert not any(text in answer.text for text in HOSTILE if "<" in text)
        assert re.search(r"(?i)(href|src|action)\s*=\s*[\"']?\s*javascript:|<script", answer.text) is None
    else:
        assert headers["content-type"].startswith(("application/json", "application/problem+json"))


@pytest.mark.parametrize("text", HOSTILE)
def test_what_others_write_is_no_page(tenants: Tenants, text: str) -> None:
    """CVE-2020-17513, CVE-2021-28359, CVE-2020-11983 (Airflow), CVE-2023-26120, CVE-2026-106706 (XXL-JOB), and
    CVE-2022-44303 (resque-scheduler): reflected and stored XSS."""
    headers = {"Authorization": f"Bearer {tenants.tokens['editor']}"}
    body = {"name": text, "function": "work", "payload": {"text": text}, "every": "1d", "pause_note": text}
    stored = httpx.post(f"{tenants.url}/api/v1/jobs", json=body, headers=headers)
    for answer in (
        stored,
        httpx.get(f"{tenants.url}/api/v1/jobs", headers=headers),
        httpx.get(f"{tenants.url}/api/v1/jobs/{text}", headers=headers),
        httpx.get(f"{tenants.url}/api/v1/jobs", params={text: text}, headers=headers),
        httpx.get(f"{tenants.url}/{text}"),
        httpx.get(f"{tenants.url}/login", params={"next": text, "error": text, "account": text}),
        httpx.post(
            f"{tenants.url}/login/form",
            data={"account": text, "password": text},
            headers={"Origin": tenants.url},
        ),
        httpx.get(f"{tenants.url}/login/callback", params={"error": text, "state": text, "code": text}),
    ):
        check_harmless(answer)
    assert stored.status_code in {201, 422}, stored.text


def sign_in(tenants: Tenants, account: str, **headers: str) -> str:
    """Sign in as a browser does; return the cookie."""
    body = {"account": account, "password": f"{PASSWORD} {account}"}
    answer = httpx.post(f"{tenants.url}/login", json=body, headers={"Origin": tenants.url, **headers})
    assert answer.status_code == 200, answer.text
    return answer.headers["set-cookie"].partition(";")[0]


def who_is(tenants: Tenants, cookie: str) -> str | None:
    answer = httpx.get(f"{tenants.url}/api/v1/me", headers={"Cookie": cookie})
    return answer.json()["account"] if answer.is_success else None


def test_a_session_that_was_planted_is_not_that_of_its_victim(tenants: Tenants) -> None:
    """CVE-2022-38054 (Airflow): session fixation."""
    theirs = sign_in(tenants, "mallory")
    for planted in (theirs, f"mainspring=ms_aaaaaaaa_{'a' * 52}"):
        before = who_is(tenants, planted)
        own = sign_in(tenants, "ann", Cookie=planted)
        assert own != planted
        assert who_is(tenants, own) == "ann"
        assert who_is(tenants, planted) == before != "ann"


def test_a_foreign_page_does_nothing_with_the_cookie(tenants: Tenants) -> None:
    """CVE-2021-39133 (Rundeck), CVE-2022-51020 (Flower), CVE-2026-106708 (XXL-JOB), Prefect: CSRF and CORS."""
    cookie = sign_in(tenants, "ann")
    evil = {"Cookie": cookie, "Origin": "https://evil.example"}
    url = f"{tenants.url}/api/v1/jobs"
    body = {"name": "planted", "every": "1h", "function": "work"}
    assert httpx.post(url, json=body, headers=evil).status_code == 403
    assert httpx.post(url, json=body, headers={"Cookie": cookie}).status_code == 403
    asked = {
        **evil,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "mainspring-csrf",
    }
    answers = [httpx.options(url, headers=asked), httpx.get(url, headers=evil), httpx.get(url, headers=asked)]
    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    names = [one["name"] for one in tenants.ask("GET", "jobs", tenant=OWN)["items"]]
    assert "planted" not in names


def test_strangers_are_told_nothing_of_the_server(tenants: Tenants) -> None:
    """Kestra #17539: the version, by which one looks up its holes, was told to everyone."""
    health = httpx.get(f"{tenants.url}/health")
    assert {name for name, told in health.json().items() if told} == {"status"}
    for answer in (health, httpx.get(f"{tenants.url}/login"), httpx.get(f"{tenants.url}/api/v1/jobs")):
        assert "server" not in answer.headers
        assert "x-powered-by" not in answer.headers
        assert tenants.ask("GET", "../../health", tenant=FOREIGN)["version"] not in answer.text
