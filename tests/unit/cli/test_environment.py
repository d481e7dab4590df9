"""Options that can be given in the environment, and who wins where several speak."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.cli.commands.server import server_command
from mainspring.cli.commands.up import up_command
from mainspring.cli.commands.worker import worker_command
from mainspring.cli.main import run_command

STORE = "postgresql://from.environment/mainspring"
HERE = "postgresql://from.line/mainspring"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_STORE", STORE)
    monkeypatch.setenv("MAINSPRING_LISTEN_STORE", "postgresql://listen/mainspring")


def read(command: Any, *arguments: str) -> dict[str, Any]:
    params: dict[str, Any] = command.make_context("command", list(arguments)).params
    return params


@pytest.mark.parametrize("command", [server_command, up_command, worker_command])
def test_store_of_the_environment_is_taken(named: None, command: Any) -> None:
    params = read(command)
    assert params["store"] == STORE
    assert params["listen_store"] == "postgresql://listen/mainspring"


@pytest.mark.parametrize("command", [server_command, up_command, worker_command])
def test_store_of_the_command_line_wins(named: None, command: Any) -> None:
    assert read(command, "--store", HERE)["store"] == HERE


@pytest.mark.parametrize("command", [server_command, up_command])
def test_data_on_the_command_line_wins_over_a_store_of_the_environment(named: None, command: Any) -> None:
    params = read(command, "--data", "folder")
    assert (params["data"], params["store"], params["listen_store"]) == ("folder", None, None)


def test_server_on_the_command_line_wins_over_a_store_of_the_environment(named: None) -> None:
    params = read(worker_command, "--server", "http://127.0.0.1:1")
    assert (params["servers"], params["store"], params["listen_store"]) == (
        ("http://127.0.0.1:1",),
        None,
        None,
    )


def test_store_of_the_environment_wins_over_its_server(named: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_SERVER", "http://127.0.0.1:1")
    assert read(worker_command)["store"] == STORE


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
    assert capsys.readouterr().err.startswith("error: store: only PostgreSQL")


@pytest.mark.parametrize("command", [server_command, up_command])
def test_network_of_the_environment_is_taken(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_TRUSTED_NETWORK", "1")
    monkeypatch.setenv("MAINSPRING_ALLOW_HOST", "server-1 jobs.example.com")
    params = read(command)
    assert params["trusted_network"] is True
    assert params["allow_hosts"] == ("server-1", "jobs.example.com")


def test_network_options_serve_nothing_without_an_api(capsys: pytest.CaptureFixture[str]) -> None:
    for option, field in ((["--trusted-network"], "trusted_network"), (["--allow-host", "a"], "allow_host")):
        assert run_command(["server", "--store", STORE, "--no-api", *option]) == 2
        assert capsys.readouterr().err.startswith(f"error: {field}: with --no-api nothing is served")
