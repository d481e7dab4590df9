"""Defaults and bounds stand in the table; what else has one, for those who use it from Python, has the same."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any

import pytest

from mainspring.config.settings import Settings
from mainspring.config.table import DEFAULT_SERVER, SETTINGS
from mainspring.engine.gateway import LocalGateway
from mainspring.engine.scheduling.shards import ShardSettings
from mainspring.engine.settings import EngineSettings
from mainspring.engine.settling.janitor import Retention
from mainspring.errors import InvalidInput
from mainspring.executors import FunctionExecutor, HttpExecutor, ShellExecutor
from mainspring.ports.executor import MAX_THREADS
from mainspring.ports.gateway import MAX_SLOTS
from mainspring.sdk.app import DEFAULT_SERVER as OF_APPS
from mainspring.stores.postgres import ConnectionOptions
from mainspring.wire.protocol import ClaimBody
from mainspring.worker import WorkerSettings


def default_of(made: Any, parameter: str) -> Any:
    return inspect.signature(made).parameters[parameter].default


@pytest.mark.parametrize(
    ("name", "made", "parameter"),
    [
        ("executors.shell.grace", ShellExecutor, "grace"),
        ("executors.shell.path", ShellExecutor, "path"),
        ("executors.shell.allow", ShellExecutor, "allow"),
        ("executors.http.allow", HttpExecutor, "allow"),
        ("executors.http.allow_http", HttpExecutor, "allow_http"),
        ("executors.http.connect_timeout", HttpExecutor, "connect_timeout"),
        ("executors.http.timeout", HttpExecutor, "timeout"),
        ("executors.function.grace", FunctionExecutor, "grace"),
        ("history.keep", Retention, "history"),
        ("sessions.keep", Retention, "sessions"),
        ("idempotency.keep", EngineSettings, "key_lifetime"),
        ("scheduler.node_period", ShardSettings, "period"),
        ("scheduler.clock_limit", ShardSettings, "clock_limit"),
        ("worker.beat_period", LocalGateway, "beat_period"),
        ("worker.long_poll", WorkerSettings, "long_poll"),
        ("worker.prefetch", WorkerSettings, "prefetch"),
    ],
)
def test_defaults_are_the_tables(name: str, made: Any, parameter: str) -> None:
    assert default_of(made, parameter) == SETTINGS[name].default


def test_defaults_in_other_units_are_the_tables() -> None:
    timeout = default_of(ConnectionOptions, "command_timeout")
    assert timedelta(seconds=timeout) == SETTINGS["postgresql.statement_timeout"].default
    assert OF_APPS == DEFAULT_SERVER


def test_bounds_are_those_of_the_protocol() -> None:
    assert SETTINGS["worker.slots"].kind.limits() == f"0 to {MAX_SLOTS:,}"
    assert SETTINGS["executors.function.threads"].kind.limits() == f"1 to {MAX_THREADS:,}"
    (bound,) = inspect.get_annotations(ClaimBody, eval_str=True)["wait_seconds"].__metadata__
    assert SETTINGS["worker.long_poll"].kind.limits() == f"0s to {bound.le}s"


def test_settings_made_in_code_are_checked_by_the_same_bounds() -> None:
    for name, value, said in (
        ("slots", 10_001, "worker.slots: 10001 is not between 0 and 10000"),
        ("history", timedelta(0), "history.keep: must be between 1m and 3650d, not 0s"),
        ("queues", ("a b",), "worker.queues: "),
        ("log_level", "loud", "logging.level: must be one of"),
    ):
        with pytest.raises(InvalidInput, match=f"^{said}"):
            Settings(**{name: value})  # type: ignore[arg-type]
