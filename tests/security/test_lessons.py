"""What went wrong in other schedulers, tried here: each test attacks as its advisory describes.

Other tests of the same kind: `test_fuzz` (derived views of other tenants), tests/unit/api/test_gatekeeper (each
operation with each role), tests/unit/executors/test_egress (addresses that callbacks may not reach),
tests/processes/test_callers (other users of the machine), tests/integration/test_audit_guards.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.processes.processes import await_that, run, server
from tests.security.tenants import FOREIGN, OWN, Tenants, make_token, two_tenants

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    folder = tmp_path_factory.mktemp("server")
    with two_tenants(folder, "--allow-shell") as tenants:
        yield tenants


def speak(url: str, text: str) -> str:
    """Send a request as it is, which no client would, and return the answer."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port or 80), timeout=60) as link:
        head, _, body = text.partition("\n\n")
        lines = [*head.split("\n"), f"Host: {place.netloc}", "Connection: close"]
        link.sendall(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
        told = b""
        while piece := link.recv(65536):
            told += piece
    return told.decode(errors="replace")


PUBLIC_ENDS = ("health", "openapi.json", "metrics", "configs", "login", "ping/x")
DISGUISES = (
    *(f"/api/v1/jobs/{end}" for end in PUBLIC_ENDS),
    *(f"/api/v1/jobs;/{end}" for end in PUBLIC_ENDS),
    *(f"/api/v1/jobs%2f{end}" for end in PUBLIC_ENDS),
    *(f"/api/v1/jobs%00/{end}" for end in PUBLIC_ENDS),
    *(f"/api/v1/jobs?at=/{end}" for end in PUBLIC_ENDS),
    *(f"/api/v1/jobs%3F/{end}" for end in PUBLIC_ENDS),
    *(
        "/health/../api/v1/jobs",
        "/health/%2e%2e/api/v1/jobs",
        "/health/..%2fapi/v1/jobs",
        "/health//api/v1/jobs",
    ),
    *("//api/v1/jobs", "/./api/v1/jobs", "/api//v1/jobs", "/api/v1/jobs/", "/api/v1/jobs/.", "/API/V1/JOBS"),
    *("/openapi.json/../api/v1/jobs", "/api/v1/tokens", "/api/v1/audit", "/api/v1/accounts"),
)


@pytest.mark.parametrize("verb", ["GET", "HEAD", "POST", "OPTIONS", "TRACE", "get", "PROPFIND"])
def test_no_path_and_no_method_passes_as_public(tenants: Tenants, verb: str) -> None:
    """CVE-2026-53576 (Kestra): any path that ended like a public one was public. GHSA-phmw-jx86-x666 (Rundeck)."""
    for path in DISGUISES:
        told = speak(tenants.url, f"{verb} {path} HTTP/1.1")
        status = told.split(" ", 2)[1]
        assert status in {"400", "401", "403", "404", "405"}, f"{verb} {path}: {told[:300]}"
        assert "report" not in told
        assert tenants.canary not in told


@pytest.mark.parametrize(
    "header",
    [
        "X-HTTP-Method-Override: GET",
        "X-Original-URL: /health",
        "X-Rewrite-URL: /health",
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-Prefix: /health",
        "Forwarded: for=127.0.0.1",
        "Authorization: Basic YWRtaW46YWRtaW4=",
        "Authorization: Bearer default_token",
        "XXL-JOB-ACCESS-TOKEN: default_token",
        "Cookie: session=admin; token=admin",
    ],
)
def test_no_header_stands_for_a_token(tenants: Tenants, header: str) -> None:
    """GHSA-m54f-rp6r-rrrm (XXL-JOB): a default token; and proxies' headers believed from strangers."""
    assert " 401 " in speak(tenants.url, f"GET /api/v1/jobs HTTP/1.1\n{header}").split("\r\n")[0]


def test_two_tokens_in_one_request_are_none(tenants: Tenants) -> None:
    lines = "\n".join(f"Authorization: Bearer {token}" for token in ("ms_x", tenants.admin))
    told = speak(tenants.url, f"GET /api/v1/jobs HTTP/1.1\n{lines}")
    assert told.split(" ", 2)[1] in {"400", "401"}, told


def test_no_secret_is_the_same_on_two_servers(tenants: Tenants, tmp_path: Path) -> None:
    """CVE-2020-17526 (Airflow): what site A signed, site B believed."""
    with two_tenants(tmp_path) as other:
        for token in (tenants.admin, *tenants.tokens.values()):
            answer = httpx.get(f"{other.url}/api/v1/jobs", headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 401


def test_what_changes_something_is_no_get_and_no_form(tenants: Tenants) -> None:
    """CVE-2022-51020 (Flower), CVE-2021-39133 (Rundeck), CVE-2026-106708 (XXL-JOB): CSRF, by any method."""
    headers = {"Authorization": f"Bearer {tenants.admin}", "Mainspring-Tenant": OWN}
    job, url = tenants.own["job_id"], f"{tenants.url}/api/v1"
    for path in (f"jobs/{job}/pause", f"jobs/{job}/run", "tokens/k3v9q2xa/revoke", "pause", "runs/bulk"):
        assert httpx.get(f"{url}/{path}", headers=headers).status_code in {404, 405}
    body = {"name": "x", "every": "1h", "function": "work"}
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"):
        answer = httpx.post(
            f"{url}/jobs", content=json.dumps(body), headers={**headers, "Content-Type": kind}
        )
        assert answer.status_code == 415, answer.text
    answer = httpx.post(f"{url}/jobs", json=body, headers={**headers, "Origin": "https://evil.example"})
    assert answer.status_code == 403


@pytest.mark.parametrize("target", [{"function": "work"}, {"command": ["cat"]}])
def test_results_and_payloads_are_data(tenants: Tenants, tmp_path: Path, target: dict[str, Any]) -> None:
    """CVE-2020-11981 (Airflow), CVE-2021-23727 (Celery), CVE-2026-25917 (Airflow), CVE-2020-22083 (jsonpickle)."""
    trap = tmp_path / "trap"
    text = json.dumps(
        {"py/object": "posix.system", "args": [f"touch {trap}"], "exc_module": "os", "exc_type": "system"}
    )
    body = {"name": f"data-{next(iter(target))}", "payload": {"text": text, "py/reduce": [text]}, **target}
    job = tenants.ask("POST", "jobs", tenant=OWN, json=body)["job_id"]
    run_id = tenants.ask("POST", f"jobs/{job}/runs", tenant=OWN, json={})["run_id"]
    await_that(
        "it has ended", lambda: tenants.ask("GET", f"runs/{run_id}", tenant=OWN)["status"] == "SUCCEEDED"
    )
    assert "posix.system" in json.dumps(tenants.ask("GET", f"runs/{run_id}", tenant=OWN))
    assert not trap.exists()


def test_a_worker_cannot_report_an_exception_of_its_choice(tenants: Tenants) -> None:
    """CVE-2021-23727 (Celery): the class of an exception came from the result store, and was called."""
    offer = {"protocol": 2, "name": "evil", "functions": ["os.system"]}
    session = tenants.ask("POST", "worker/register", json=offer)
    report = {
        "run_id": tenants.foreign["run_id"],
        "token": 1,
        "outcome": "failure",
        "error": {"exc_module": "os", "exc_type": "system", "exc_message": ["touch /tmp/trap"]},
    }
    headers = {"Authorization": f"Bearer {tenants.admin}"}
    answer = httpx.post(
        f"{tenants.url}/api/v1/worker/report",
        json={"session_id": session["session_id"], "reports": [report]},
        headers=headers,
    )
    assert answer.status_code in {400, 422}
    assert "error" in answer.text


@pytest.mark.parametrize(
    "text",
    [
        "${1237*1237} * * * *",
        "{{1237*1237}} * * * *",
        "%(x)s %s %n * *",
        "{0.__class__.__mro__} * * * *",
        "T(java.lang.Runtime).getRuntime().exec('id') * * *",
        "${jndi:ldap://127.0.0.1/x} * * * *",
    ],
)
def test_what_is_refused_is_quoted_and_never_carried_out(tenants: Tenants, text: str) -> None:
    """CVE-2020-26238 (cron-utils): a cron expression went into a message that was a template."""
    headers = {"Authorization": f"Bearer {tenants.admin}"}
    body = {"name": text, "cron": text, "function": "work"}
    answer = httpx.post(f"{tenants.url}/api/v1/jobs", json=body, headers=headers)
    assert answer.status_code == 422
    assert "1530169" not in answer.text
    assert "<class" not in answer.text
    assert answer.headers["content-type"].startswith("application/")


def test_no_shell_reads_what_a_run_brings(tenants: Tenants, tmp_path: Path) -> None:
    """CVE-2020-11978 (Airflow), CVE-2022-45462 and -45875 (DolphinScheduler): parameters became commands."""
    trap = tmp_path / "trap"
    for number, hook in enumerate(
        (f"$(touch {trap})", f"; touch {trap} #", f"`touch {trap}`", f"\n touch {trap}")
    ):
        body = {"name": f"{hook[:100]}", "command": ["printf", "%s", hook], "payload": {"x": hook}}
        job = tenants.ask("POST", "jobs", tenant=OWN, json={**body, "name": f"hook {number}"})["job_id"]
        run_id = tenants.ask("POST", f"jobs/{job}/runs", tenant=OWN, json={"payload": {"y": hook}})["run_id"]
        path = f"runs/{run_id}"
        await_that("it has ended", lambda: tenants.ask("GET", path, tenant=OWN)["status"] == "SUCCEEDED")  # noqa: B023
        assert hook.strip("\n") in tenants.ask("GET", path, tenant=OWN)["attempts"][0]["output"]
    assert not trap.exists()


def test_yaml_makes_no_objects(tenants: Tenants, tmp_path: Path) -> None:
    """CVE-2021-39132 (Rundeck): YAML that made objects; CVE-2019-13990 (Quartz): entities of XML that grow."""
    trap = tmp_path / "trap"
    call = f"!!python/object/apply:os.system ['touch {trap}']"
    for text in (
        f"apiVersion: batch/v1\nkind: CronJob\nmetadata: {call}\n",
        f"jobs: {call}\n",
        "jobs: {a: &a [x, x], b: &b [*a, *a], c: &c [*b, *b], d: [*c, *c]}\n",
    ):
        (tmp_path / "jobs.yaml").write_text(text)
        for words in (("import", "kubernetes", "jobs.yaml"), ("apply", "jobs.yaml", "--server", tenants.url)):
            done = run(*words, cwd=tmp_path, MAINSPRING_TOKEN=tenants.admin)
            assert "Traceback" not in done.stderr
            if words[0] == "apply" or call in text:
                assert done.returncode == 2, done.stderr
                assert "error: jobs.yaml" in done.stderr
    assert not trap.exists()


def test_a_tenant_cannot_be_named_without_a_grant(tenants: Tenants) -> None:
    """CVE-2026-23902, -47340 (DolphinScheduler): tenants that nobody had defined were taken at run time."""
    for role, token in tenants.tokens.items():
        for tenant in (FOREIGN, "nobody", "*", "default", "", "SHOP", "shop.", "shop,bank"):
            headers = {"Authorization": f"Bearer {token}", "Mainspring-Tenant": tenant}
            answer = httpx.get(f"{tenants.url}/api/v1/jobs", headers=headers)
            assert answer.status_code in {400, 403, 422}, f"{role} {tenant!r}: {answer.text}"


def test_another_tenants_calendar_cannot_be_used_or_changed(tenants: Tenants) -> None:
    """CVE-2021-41111, -41112 (Rundeck): calendars changed, and webhooks of other projects called, without a right."""
    headers = {"Authorization": f"Bearer {tenants.tokens['editor']}"}
    before = tenants.ask("GET", "calendars/holidays")
    body = {"rules": [{"yearly": "01-01"}]}
    assert httpx.put(f"{tenants.url}/api/v1/calendars/holidays", json=body, headers=headers).is_success
    assert tenants.ask("GET", "calendars/holidays") == before
    job = {"name": "stolen", "cron": "0 9 * * *", "function": "work", "calendars": {"skip": [tenants.canary]}}
    assert httpx.post(f"{tenants.url}/api/v1/jobs", json=job, headers=headers).status_code in {409, 422}


def test_a_viewer_cannot_do_more_by_asking_for_a_token(tenants: Tenants) -> None:
    """Rundeck #1550: a token kept what its owner had lost, and could be made for more than its owner had."""
    viewer = make_token(tenants.url, tenants.admin, "viewer", OWN)
    headers = {"Authorization": f"Bearer {viewer}"}
    for more in (
        {"role": "editor"},
        {"role": "viewer", "tenant": FOREIGN},
        {"role": "viewer", "account": "root"},
    ):
        answer = httpx.post(f"{tenants.url}/api/v1/tokens", json={"name": "more", **more}, headers=headers)
        assert answer.status_code in {403, 422}, answer.text
    tenants.ask("PUT", f"accounts/{OWN}-viewer", json={"grants": {}})
    await_that(
        "the grant is gone",
        lambda: httpx.get(f"{tenants.url}/api/v1/jobs", headers=headers).status_code in {401, 403},
    )
    tenants.ask("PUT", f"accounts/{OWN}-viewer", json={"grants": {OWN: "viewer"}})


def test_no_key_is_in_the_repository() -> None:
    """CVE-2022-29186 (Rundeck): an image had a fixed pair of keys."""
    kept = subprocess.run(
        ["git", "grep", "-lE", "BEGIN [A-Z ]*PRIVATE KEY|AKIA[0-9A-Z]{16}"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert kept.stdout.split() in ([], ["tests/security/test_lessons.py"])


def test_a_server_that_others_reach_does_not_start_open(tmp_path: Path) -> None:
    """CVE-2020-13927 (Airflow), Dkron: an API that was open by default."""
    done = run("up", "--store", "memory://", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert "account" in done.stderr
    with server("--store", "memory://", cwd=tmp_path) as (_, url):
        body = {"name": "x", "command": ["id"], "every": "1h"}
        answer = httpx.post(f"{url}/api/v1/jobs", json=body)
        assert answer.status_code == 422, "shell is off by default"
