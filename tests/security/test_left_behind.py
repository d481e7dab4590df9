"""What runs leave behind, and events, belong to their tenant: each route, for each role of another tenant."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import httpx
import pytest

from tests.security.tenants import FOREIGN, ROLES, Tenants, two_tenants

pytestmark = pytest.mark.timeout(120)
ROUTES = (
    ("GET", "events", 200),
    ("GET", "events?topic={canary}", 200),
    ("GET", "runs/{kept}/logs", 404),
    ("GET", "runs/{kept}/logs?follow=true", 404),
    ("GET", "runs/{kept}/logs?attempt=1", 404),
    ("GET", "runs/{kept}/artifacts", 404),
    ("GET", "artifacts/{artifact_id}", 404),
    ("GET", "artifacts/{artifact_id}/content", 404),
)


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    with two_tenants(tmp_path_factory.mktemp("tenants")) as tenants:
        yield tenants


def ask(
    tenants: Tenants, method: str, path: str, role: str, tenant: str | None, **more: str
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {tenants.tokens[role]}", **more}
    if tenant is not None:
        headers["Mainspring-Tenant"] = tenant
    filled = path.format(canary=tenants.canary, **tenants.foreign)
    return httpx.request(method, f"{tenants.url}/api/v1/{filled}", headers=headers, timeout=20)


def test_who_has_them_sees_them(tenants: Tenants) -> None:
    """Else nothing below would be proven."""
    rows = tenants.rows_of_foreign()
    assert [event["topic"] for event in rows["events"]] == [tenants.canary]
    assert [file["name"] for file in rows["files"]] == [f"{tenants.canary}.txt"]
    assert tenants.canary in rows["logs"]
    content = tenants.read("GET", f"artifacts/{tenants.foreign['artifact_id']}/content")
    assert content == tenants.canary


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("method", "path", "status"), ROUTES)
def test_of_another_tenant_nothing_is_there(
    tenants: Tenants, method: str, path: str, status: int, role: str
) -> None:
    answer = ask(tenants, method, path, role, None)
    assert answer.status_code == status, answer.text
    assert tenants.canary not in answer.text + str(answer.headers)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("method", "path", "_"), ROUTES)
def test_the_other_tenant_cannot_be_asked_for(
    tenants: Tenants, method: str, path: str, _: int, role: str
) -> None:
    answer = ask(tenants, method, path, role, FOREIGN)
    assert answer.status_code == 403, answer.text
    assert tenants.canary not in answer.text + str(answer.headers)


@pytest.mark.parametrize(
    "mark", ["", "x", "-1.0", "1", "1.", "1.1.1", "9999999999.0", "1.99999999999999999", "\u0661.1"]
)
def test_nonsense_as_a_place_is_refused_by_name(tenants: Tenants, mark: str) -> None:
    path = f"runs/{tenants.own['kept']}/logs?follow=true"
    token = f"Bearer {tenants.tokens['viewer']}"
    headers = {b"Authorization": token.encode(), b"Last-Event-ID": mark.encode()}
    answer = httpx.get(f"{tenants.url}/api/v1/{path}", headers=headers, timeout=20)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == "last-event-id"


@pytest.mark.parametrize("mark", ["0.0", "7.0", "2147483647.9", "1.99999", "1.9999999999999"])
def test_a_place_that_there_is_not_ends_the_stream_of_what_has_ended(tenants: Tenants, mark: str) -> None:
    path = f"runs/{tenants.own['kept']}/logs?follow=true"
    answer = ask(tenants, "GET", path, "viewer", None, **{"Last-Event-ID": mark})
    assert answer.status_code == 200, answer.text
    assert "event: end" in answer.text


@pytest.mark.parametrize("role", ROLES)
def test_nobody_puts_a_file_for_a_worker_of_another_tenant(tenants: Tenants, role: str) -> None:
    headers = {"Authorization": f"Bearer {tenants.tokens[role]}"}
    url = f"{tenants.url}/api/v1/worker/artifacts"
    offer = {
        "session_id": "ses_1",
        "run_id": tenants.foreign["kept"],
        "token": 1,
        "name": "mine.txt",
        "content_type": "text/plain",
        "size": 1,
        "sha256": sha256(b"x").hexdigest(),
    }
    asked = httpx.post(url, json=offer, headers=headers)
    assert asked.status_code == (
        409 if role == "editor" else 403
    )  # an editor may be a worker, and holds nothing
    assert tenants.canary not in asked.text
    artifact_id = tenants.foreign["artifact_id"]
    put = httpx.put(
        f"{tenants.url}/api/v1/artifacts/{artifact_id}/content?session_id=ses_1",
        content=b"x",
        headers=headers,
    )
    assert put.status_code in {403, 404, 409}, put.text
    assert tenants.canary not in put.text
