"""On loopback a server serves its own user and root, and nobody else of the machine (ADR 0027): real processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring.cli.calling import call
from mainspring.cli.main import run_command
from tests.processes.processes import SECONDS, command, environment, running

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here"),
    pytest.mark.xdist_group("callers"),  # they share servers
]
NOBODY = 65_534
SHELL = {"name": "id", "command": ["id", "-u"]}
WORKER = {"protocol": 2, "name": "w", "types": ["shell"]}


def ask(url: str, path: str, body: object = None, *, user: str | None) -> tuple[int, Any]:
    """Send a request by a process of a user; None is this test's."""
    sent = [] if body is None else ["--json", json.dumps(body)]
    done = subprocess.run(
        ["curl", "-s", "--noproxy", "*", "--write-out", "\n%{http_code}", f"{url}{path}", *sent],
        cwd="/",
        env=environment(),
        user=user,
        group=None if user is None else NOBODY,
        extra_groups=None if user is None else [],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    text, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(text)


def is_let_in(url: str, *, user: str | None) -> bool:
    return ask(url, "/health", user=user)[0] == 200


@pytest.fixture(scope="module", params=["127.0.0.1", "::1"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server for all tests on an address. The one job that it is given is deleted in the end."""
    options = ("--store", "memory://", "--host", request.param, "--port", 0, "--allow-shell")
    with running("up", *options, cwd=tmp_path_factory.mktemp("server")) as server:
        yield server.wait_for("listening on ")
        server.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server without a worker. It refuses all that the tests ask it for."""
    folder = tmp_path_factory.mktemp("server")
    with running("server", "--store", "memory://", "--port", 0, cwd=folder) as process:
        yield process.wait_for("listening on ")
        process.stop()


def test_shell_job_of_another_user_is_refused(address: str) -> None:
    status, problem = ask(address, "/api/v1/jobs", SHELL, user="nobody")
    assert status == 403, problem
    assert problem["title"] == "Forbidden"
    assert "nobody" in problem["detail"]
    assert "root" in problem["detail"]
    assert "--trusted-network" in problem["detail"]
    assert ask(address, "/api/v1/jobs", user=None)[1]["items"] == []
    status, job = ask(address, "/api/v1/jobs", SHELL, user=None)
    assert status == 201
    call(address, lambda client: client.delete_job(job["job_id"]))


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("register", WORKER),
        ("claim", {"session_id": "ses_1", "number": 1, "limit": 5, "is_idle": True}),
        ("beat", {"session_id": "ses_1"}),
        ("report", {"session_id": "ses_1", "reports": []}),
        ("leave", {"session_id": "ses_1"}),
    ],
)
def test_worker_of_another_user_is_refused(server: str, verb: str, body: object) -> None:
    status, problem = ask(server, f"/api/v1/worker/{verb}", body, user="nobody")
    assert status == 403, problem
    assert is_let_in(server, user=None)


@pytest.mark.parametrize("path", ["/health", "/openapi.json", "/api/v1/jobs", "/nowhere"])
def test_nothing_is_told_to_another_user(address: str, path: str) -> None:
    assert ask(address, path, user="nobody")[0] == 403


def test_command_line_says_why_it_is_refused(address: str) -> None:
    arguments = ["job", "list", "--server", address]
    assert run_command(arguments) == 0  # which also loads what the other user may not read
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 2)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        os.setuid(NOBODY)
        status = run_command(arguments)
        sys.stderr.flush()
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as errors:
        text = errors.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert text.startswith("error: request: there are no accounts yet, so this server answers only")
    assert text.count("\n") == 1


@pytest.mark.skipif(shutil.which("unshare") is None, reason="there is no unshare here")
@pytest.mark.parametrize("verb", ["server", "up"])
def test_shell_is_refused_where_users_cannot_be_told_apart(tmp_path: Path, verb: str) -> None:
    """In a user namespace that maps no user, all of them look like one."""
    options = [verb, "--store", "memory://", "--port", "0"]
    refused = in_namespace(*options, "--allow-shell", cwd=tmp_path)
    if "unshare failed" in refused.stderr:
        pytest.skip(f"a user namespace cannot be made: {refused.stderr}")
    assert refused.returncode == 2, refused.stderr
    assert refused.stdout == ""
    assert refused.stderr.startswith("error: allow_shell: this system does not tell which user calls")
    assert refused.stderr.count("\n") == 1


def in_namespace(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["unshare", "--user", *command(*arguments)],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_everybody_is_let_in_by_the_operators_word(tmp_path: Path) -> None:
    options = ("--store", "memory://", "--port", 0, "--trusted-network", "--allow-shell")
    with running("server", *options, cwd=tmp_path) as server:
        url = server.wait_for("listening on ")
        assert is_let_in(url, user="nobody")
        assert is_let_in(url, user=None)
        server.stop()
