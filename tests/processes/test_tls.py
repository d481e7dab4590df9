"""Servers with TLS, and behind a proxy that has it: real processes, clients, and certificates of a test's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from mainspring.core.access import write_token
from tests.processes.processes import await_that, run, running, server
from tests.processes.test_access import APP, close, say
from tests.support.certificates import Pair, make_authority, make_certificate

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl here")
MEMORY = ("--store", "memory://")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def tls(tmp_path: Path, authority: Pair) -> tuple[object, ...]:
    pair = make_certificate(tmp_path, authority)
    return ("--tls-cert", pair.cert, "--tls-key", pair.key)


def test_commands_workers_and_the_app_itself_call_over_tls(
    tmp_path: Path, tls: tuple[object, ...], authority: Pair
) -> None:
    (tmp_path / "shop.py").write_text(APP)
    trust = {"SSL_CERT_FILE": str(authority.cert)}
    with server("shop:app", *MEMORY, "--slots", 4, *tls, cwd=tmp_path) as (_, url):
        assert url.startswith("https://127.0.0.1:")
        at = ("--server", url)
        done = run(
            "job", "run", "order", "--payload", '{"number": 7}', "--wait", "30", *at, cwd=tmp_path, **trust
        )
        assert done.returncode == 0, done.stderr
        refused = run("job", "list", *at, cwd=tmp_path)
        assert refused.returncode == 1
        assert "the certificate of https://127.0.0.1" in refused.stderr
        assert "SSL_CERT_FILE" in refused.stderr
        assert refused.stderr.count("\n") <= 2
        with running("worker", *at, cwd=tmp_path, **trust) as worker:
            worker.wait_for("ready")
            assert worker.stop() == 0

        def shipped() -> bool:
            runs = say("run", "list", "--job", "ship", *at, cwd=tmp_path, **trust)["items"]
            return [one["status"] for one in runs] == ["SUCCEEDED"]

        await_that("the function that called its own server has its run", shipped)


def test_a_client_without_the_certificate_that_is_asked_for_gets_nowhere(
    tmp_path: Path, tls: tuple[object, ...], authority: Pair
) -> None:
    client = make_certificate(tmp_path, authority, "client")
    with server(*MEMORY, "--slots", 0, *tls, "--tls-client-ca", authority.cert, cwd=tmp_path) as (_, url):

        def ask(*options: object) -> str:
            curl = [
                "curl",
                "-s",
                "-w",
                "%{http_code}",
                "-o",
                "/dev/null",
                "--cacert",
                authority.cert,
                *options,
                url,
            ]
            return subprocess.run(list(map(str, curl)), capture_output=True, text=True, check=False).stdout

        assert ask() == "000"
        assert ask("--cert", client.cert, "--key", client.key) == "404"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--tls-cert", "none.pem"), "error: tls.cert: none.pem cannot be read (No such file or directory)"),
        (("--tls-key", "none.key"), "error: tls_key: goes with a certificate; give --tls-cert, too"),
        (
            ("--allow-host", "jobs.example.com"),
            "there is no TLS; give --tls-cert and --tls-key, or --behind-proxy",
        ),
        (("--behind-proxy", "nginx"), "error: behind_proxy: 'nginx' is not an address"),
        (("--behind-proxy", "127.0.0.1"), "it needs accounts, and there are none yet"),
    ],
)
def test_what_is_missing_stops_the_start(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    done = run("server", *MEMORY, "--port", 0, *options, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_others_reach_needs_an_account_first(
    tmp_path: Path, tls: tuple[object, ...], authority: Pair
) -> None:
    reached = ("--data", "data", *tls, "--allow-host", "jobs.example.com")
    refused = run("server", *reached, "--port", 0, cwd=tmp_path)
    assert refused.returncode == 2
    assert "mainspring token create --role admin --store" in refused.stderr
    admin = say("token", "create", "--role", "admin", "--store", f"sqlite:///{tmp_path}/data", cwd=tmp_path)[
        "token"
    ]
    with server(*reached, "--slots", 0, cwd=tmp_path) as (_, url):
        trust = {"SSL_CERT_FILE": str(authority.cert)}
        assert run("job", "list", "--server", url, cwd=tmp_path, **trust).returncode == 1
        done = run("job", "list", "--server", url, cwd=tmp_path, MAINSPRING_TOKEN=admin, **trust)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("is_behind", [True, False])
def test_callers_of_a_proxy_are_told_apart_and_nobody_else_is_believed(
    tmp_path: Path, is_behind: bool
) -> None:
    options: tuple[object, ...] = ("--data", "data", "--slots", 0)
    if is_behind:
        say("token", "create", "--role", "admin", "--store", f"sqlite:///{tmp_path}/data", cwd=tmp_path)
        options = (*options, "--behind-proxy", "127.0.0.1")
    with server(*options, cwd=tmp_path) as (_, url):
        if not is_behind:
            close(url, tmp_path)

        def ask(number: int, address: str) -> int:
            headers = {
                "Authorization": f"Bearer {write_token(bytes([number]) * 37)}",
                "X-Forwarded-For": address,
            }
            return httpx.get(f"{url}/api/v1/jobs", headers=headers).status_code

        statuses = {ask(number, "10.0.0.1") for number in range(30)}
        assert statuses == {401, 429}
        others = {ask(number, f"10.0.1.{number}") for number in range(30, 60)}
        assert others == {401} if is_behind else 429 in others
