"""Options that can be given in the environment, and who wins where several speak."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.cli.commands.server import server_command
from mainspring.cli.commands.up import up_command
from mainspring.cli.commands.worker import worker_command
from mainspring.cli.main import run_command
from mainspring.cli.options import read_choices
from mainspring.config.processes import read_direct_store, read_location, settings_of
from mainspring.config.settings import StoreLocation
from mainspring.config.sources import Choices

STORE = "postgresql://from.environment/mainspring"
HERE = "postgresql://from.line/mainspring"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_STORE", STORE)
    monkeypatch.setenv("MAINSPRING_LISTEN_STORE", "postgresql://listen/mainspring")


COMMANDS = {"server": server_command, "up": up_command, "worker": worker_command}


def choose(process: str, *arguments: str) -> Choices:
    return read_choices(COMMANDS[process].make_context(process, list(arguments)))


def location(process: str, *arguments: str) -> StoreLocation | None:
    choices = choose(process, *arguments)
    return read_direct_store(choices) if process == "worker" else read_location(choices)


@pytest.mark.parametrize("process", COMMANDS)
def test_store_of_the_environment_is_taken(named: None, process: str) -> None:
    assert location(process) == StoreLocation(
        "postgresql", STORE, is_shared=True, listen="postgresql://listen/mainspring"
    )


@pytest.mark.parametrize("process", COMMANDS)
def test_store_of_the_command_line_wins(named: None, process: str) -> None:
    found = location(process, "--store", HERE)
    assert found is not None
    assert found.target == HERE


@pytest.mark.parametrize("process", ["server", "up"])
def test_data_on_the_command_line_wins_over_a_store_of_the_environment(named: None, process: str) -> None:
    assert location(process, "--data", "folder") == StoreLocation("sqlite", "folder")


def test_server_on_the_command_line_wins_over_a_store_of_the_environment(named: None) -> None:
    assert location("worker", "--server", "http://127.0.0.1:1") is None
    assert choose("worker", "--server", "http://127.0.0.1:1")["server"].value == ("http://127.0.0.1:1",)


def test_store_of_the_environment_wins_over_its_server(named: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_SERVER", "http://127.0.0.1:1")
    found = location("worker")
    assert found is not None
    assert found.target == STORE


def test_wrong_store_of_the_environment_is_told_without_its_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAINSPRING_STORE", "mysql://me:secret@db/x")
    assert run_command(["server"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: store: ")
    assert "secret" not in error


def test_heartbeat_is_the_workers_to_say_with_a_store_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAINSPRING_STORE", "memory://")
    assert run_command(["worker", "--beat-period", "5"]) == 2
    assert capsys.readouterr().err.startswith("error: store: a worker can use only PostgreSQL")


@pytest.mark.parametrize("process", ["server", "up"])
def test_network_of_the_environment_is_taken(process: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_TRUSTED_NETWORK", "1")
    monkeypatch.setenv("MAINSPRING_ALLOW_HOST", "server-1 jobs.example.com")
    settings = settings_of(process, choose(process))
    assert settings.trusted_network is True
    assert settings.allow_hosts == ("server-1", "jobs.example.com")


def test_network_options_serve_nothing_without_an_api(capsys: pytest.CaptureFixture[str]) -> None:
    for option, field in ((["--trusted-network"], "trusted_network"), (["--allow-host", "a"], "allow_host")):
        assert run_command(["server", "--store", STORE, "--no-api", *option]) == 2
        assert capsys.readouterr().err.startswith(f"error: {field}: with --no-api nothing is served")


@pytest.mark.parametrize("process", ["server", "up"])
@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("EXECUTORS_HTTP_ALLOW", "a:b:c", "executors.http.allow: 'a:b:c' is neither a network nor a host"),
        ("EXECUTORS_HTTP_ALLOW", "a:70000", "executors.http.allow: 'a:70000' has no port from 1 to 65535"),
        ("EXECUTORS_SHELL_LIMITS", "ram=1", "executors.shell.limits: there is no limit 'ram'"),
        ("HISTORY_KEEP", "1s", "history.keep: must be between 1m and 3650d"),
    ],
)
def test_nothing_is_made_if_a_setting_is_wrong(
    process: str,
    variable: str,
    text: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(f"MAINSPRING_{variable}", text)
    assert run_command([process, "--port", "0", "--data", str(tmp_path / "data")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {said}")
    assert f"(in MAINSPRING_{variable})" in error
    assert not (tmp_path / "data").exists()
