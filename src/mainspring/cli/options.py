"""Options that several commands have in common."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import click

DEFAULT_SERVER = "http://127.0.0.1:8620"
F = TypeVar("F", bound=Callable[..., Any])


def server_option(function: F) -> F:
    """Add --server."""
    return click.option(
        "--server",
        envvar="MAINSPRING_SERVER",
        default=DEFAULT_SERVER,
        show_default=True,
        show_envvar=True,
        metavar="URL",
        help="The server's address.",
    )(function)


def json_option(function: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def listen_store_option(function: F) -> F:
    """Add --listen-store."""
    return click.option(
        "--listen-store",
        metavar="URL",
        help="postgresql://… past a pooler in transaction mode, for wake-ups; without it they come by polling.",
    )(function)


def executor_options(function: F) -> F:
    """Add what a process that carries out jobs is told about its executors."""
    options = (
        click.option("--allow-shell", is_flag=True, help="Allow shell commands as jobs."),
        click.option(
            "--callback-allow",
            multiple=True,
            metavar="ENTRY",
            help="An internal target that callbacks may reach: network or host, with or without :port; repeatable.",
        ),
        click.option("--slots", default=100, show_default=True, type=int, help="Attempts at a time."),
        click.option(
            "--drain",
            default=30.0,
            show_default=True,
            type=click.FloatRange(0, 86_400),
            metavar="SECONDS",
            help="How long a stop waits for attempts under way.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def seconds(value: float) -> timedelta:
    """Return a duration given in seconds."""
    return timedelta(seconds=value)
