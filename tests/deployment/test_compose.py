"""compose.yaml and the image: the very commands of the services as real processes, and what must hold of the files."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from mainspring.cli.calling import call
from mainspring.cli.main import cli
from tests.deployment.compose import ROOT, option, read_compose, seconds
from tests.processes.processes import Running, await_that, environment, running

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient

DOCUMENT = read_compose(POSTGRES_PASSWORD="secret")
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
SERVERS = ["server-1", "server-2"]
WORKERS = ["worker-1", "worker-2", "worker-3"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Cluster:
    """The services of compose.yaml with addresses of this machine in place of the containers'."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.ports = {name: free_port() for name in SERVERS}

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def command(self, name: str) -> list[str]:
        """A service's command; only addresses are other ones."""
        words: list[str] = list(SERVICES[name]["command"])
        text = "\n".join(words)
        for server in SERVERS:
            text = text.replace(f"http://{server}:8620", self.url(server))
        if name in self.ports:
            text = text.replace("--host=0.0.0.0", "--host=127.0.0.1").replace(
                "--port=8620", f"--port={self.ports[name]}"
            )
        return text.split("\n")

    def variables(self, name: str) -> dict[str, str]:
        """A service's environment; only the database is another one."""
        given: dict[str, str] = dict(SERVICES[name].get("environment", {}))
        if "MAINSPRING_STORE" in given:
            assert given["MAINSPRING_STORE"] == "postgresql://mainspring@postgres:5432/mainspring"
            given["MAINSPRING_STORE"] = self._dsn
        return given

    def is_healthy(self, name: str) -> bool:
        """Carry out a service's check."""
        kind, program, script, port = SERVICES[name]["healthcheck"]["test"]
        (source,) = re.findall(rf"^COPY (\S+) {script}$", DOCKERFILE, re.MULTILINE)
        assert (kind, program, port) == ("CMD", "python3", "8620")
        words = [str(ROOT / source), str(self.ports[name])]
        done = subprocess.run(
            [sys.executable, *words], env=environment(), capture_output=True, timeout=60, check=False
        )
        return done.returncode == 0


@contextlib.contextmanager
def started(cluster: Cluster, name: str, folder: Path) -> Iterator[Running]:
    with running(*cluster.command(name), cwd=folder, **cluster.variables(name)) as process:
        process.wait_for("listening on " if name in SERVERS else "ready")
        yield process


def add(url: str, x: int) -> None:
    """Have a run carried out by way of the server at `url`."""

    async def submit(client: AsyncClient) -> str:
        (job,) = (await client.list_jobs(name="add")).items
        return (await client.submit_run(job.job_id, {"payload": {"x": x, "y": 3}})).run_id

    run_id = call(url, submit)
    await_that(
        "the run does not end", lambda: call(url, lambda client: client.get_run(run_id)).result == x + 3
    )


@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_services_as_processes_work_survive_a_server_and_drain(
    postgres_database: str, tmp_path: Path
) -> None:
    cluster = Cluster(postgres_database)
    (source,) = SERVICES["worker-1"]["volumes"]
    (tmp_path / "jobs.py").write_text((ROOT / source.partition(":")[0] / "jobs.py").read_text())
    with contextlib.ExitStack() as stack:
        processes = {
            name: stack.enter_context(started(cluster, name, tmp_path)) for name in (*SERVERS, *WORKERS)
        }
        assert all(cluster.is_healthy(name) for name in SERVERS)
        for name in SERVERS:
            add(cluster.url(name), 1)
        workers = call(cluster.url("server-2"), lambda client: client.list_workers()).items
        assert len(workers) == len(WORKERS)
        first, second = SERVERS
        assert processes[first].stop() == 0
        assert not cluster.is_healthy(first)
        for x in range(10):
            add(cluster.url(second), x)
        assert cluster.is_healthy(second)
        for name in (*WORKERS, second):
            assert processes[name].stop() == 0, name
    log = (tmp_path / "stderr.log").read_text()
    assert log.count("event=open_to_network") == len(SERVERS)  # the name that others call it by makes it open
    assert "Traceback" not in log


def test_there_are_the_services_that_the_docs_speak_of() -> None:
    assert sorted(SERVICES) == sorted(["postgres", *SERVERS, *WORKERS])
    commands = {name: SERVICES[name]["command"][0] for name in (*SERVERS, *WORKERS)}
    assert commands == {**dict.fromkeys(SERVERS, "server"), **dict.fromkeys(WORKERS, "worker")}


def test_nothing_is_published_but_on_loopback() -> None:
    published = {name: service.get("ports", []) for name, service in SERVICES.items()}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)
    assert [name for name, ports in published.items() if ports] == SERVERS
    assert DOCUMENT["networks"]["store"]["internal"] is True
    assert [name for name, service in SERVICES.items() if "store" in service["networks"]] == [
        "postgres",
        *SERVERS,
    ]


@pytest.mark.parametrize("name", SERVERS)
def test_server_knows_its_own_name_and_allows_no_shell(name: str) -> None:
    command = SERVICES[name]["command"]
    assert option(command, "--allow-host") == name
    assert "--trusted-network" in command
    assert not any(
        "--allow-shell" in word for service in SERVICES.values() for word in service.get("command", [])
    )


@pytest.mark.parametrize("name", [*SERVERS, *WORKERS])
def test_container_is_given_longer_to_stop_than_its_drain(name: str) -> None:
    service = SERVICES[name]
    assert seconds(service["stop_grace_period"]) >= float(option(service["command"], "--drain")) + 10


@pytest.mark.parametrize("name", [*SERVERS, *WORKERS])
def test_container_has_no_rights_to_spare(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "privileged" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_password_is_on_no_command_line_and_has_no_default() -> None:
    assert "secret" not in str([service.get("command") for service in SERVICES.values()])
    with pytest.raises(KeyError, match="POSTGRES_PASSWORD"):
        read_compose()


@pytest.mark.parametrize("name", [*SERVERS, *WORKERS])
def test_commands_are_understood(name: str) -> None:
    words = SERVICES[name]["command"]
    assert isinstance(cli, click.Group)
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None
    command.make_context(words[0], list(words[1:]))


def test_image_runs_as_nobody_in_particular_and_hands_on_signals() -> None:
    last = DOCKERFILE.split("\nFROM ")[-1]
    users = re.findall(r"^USER (\S+)", last, re.MULTILINE)
    assert users
    assert users[-1] not in {"root", "0"}
    assert 'ENTRYPOINT ["mainspring"]' in last  # exec form: a shell would swallow SIGTERM
    assert re.search(r"^(HEALTHCHECK|CMD|ENTRYPOINT) .*curl", DOCKERFILE, re.MULTILINE) is None


def test_image_can_have_the_programs_that_a_backup_needs() -> None:
    """The error of a backup without `pg_dump` names the argument."""
    last = DOCKERFILE.split("\nFROM ")[-1].replace("\\\n", " ")
    assert re.search(r"^ARG PACKAGES=$", last, re.MULTILINE)
    assert re.search(r"^RUN if \[ -n .*apt-get install .*\$\{PACKAGES\}", last, re.MULTILINE)
    assert last.index("${PACKAGES}") < last.index("USER mainspring")


def test_image_installs_nothing_that_is_not_pinned_by_hash() -> None:
    joined = DOCKERFILE.replace("\\\n", " ")
    installs = re.findall(r"pip (?:install|wheel) [^&\n]*", joined)
    assert len(installs) == 4
    for install in installs:
        is_pinned = "--require-hashes" in install and re.search(
            r"-r requirements/(?:\w+|\$\{LOCK\})\.lock", install
        )
        is_own = "--no-deps" in install and ("--no-index" in install or "--no-build-isolation" in install)
        assert is_pinned or is_own, install


def test_image_is_given_every_file_that_it_copies() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    assert copied
    for source in copied:
        assert (ROOT / source).exists()
        assert source in kept or any(name.startswith(f"{source}/") for name in kept), source
    assert all((ROOT / name).exists() for name in kept)
    locks = {
        lock
        for name in ("runtime", "ics", "mail")
        for lock in re.findall(r"-r (\S+\.lock)", DOCKERFILE.replace("${LOCK}", name))
    }
    assert locks == {f"requirements/{name}.lock" for name in ("build", "ics", "mail", "runtime")}
    assert locks <= kept
