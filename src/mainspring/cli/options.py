"""Options that several commands have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from mainspring.errors import InvalidInput

DEFAULT_SERVER = "http://127.0.0.1:8620"
_LONGEST = 86_400
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
        help="The server's address; several that share a store are separated by commas.",
    )(function)


def servers_option(function: F) -> F:
    """Add --server, which may be given several times."""
    return click.option(
        "--server",
        "servers",
        envvar="MAINSPRING_SERVER",
        multiple=True,
        default=(DEFAULT_SERVER,),
        show_default=True,
        show_envvar=True,
        metavar="URL",
        help="The server's address; of several that share a store (repeated, or separated by commas) one is enough.",
    )(function)


class _OverridableOption(click.Option):
    """An option whose environment variable gives way to other options on the command line.

    Args:
        yields_to: names of those options' parameters.
    """

    def __init__(self, *args: Any, yields_to: Collection[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._yields_to = yields_to

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        """Return the value and where it comes from."""
        value, source = super().consume_value(ctx, opts)
        if source is ParameterSource.ENVIRONMENT and any(name in opts for name in self._yields_to):
            return None, ParameterSource.DEFAULT
        return value, source


def json_option(function: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def listen_store_option(function: F) -> F:
    """Add --listen-store."""
    return click.option(
        "--listen-store",
        cls=_OverridableOption,
        yields_to=("data", "servers"),
        envvar="MAINSPRING_LISTEN_STORE",
        show_envvar=True,
        metavar="URL",
        help="postgresql://… past a pooler in transaction mode, for wake-ups; without it they come by polling.",
    )(function)


def store_options(function: F) -> F:
    """Add --data and --store of a process that owns or shares a store."""
    return _add(
        function,
        click.option(
            "--data", metavar="DIR", help="Folder of the SQLite store; by default ./mainspring-data."
        ),
        _store_option(yields_to="data", text="postgresql://…, sqlite:///FOLDER or memory://."),
        listen_store_option,
    )


def worker_store_option(function: F) -> F:
    """Add --store of a process that shares a store."""
    text = "Work straight from postgresql://… instead of by a server."
    return _store_option(yields_to="servers", text=text)(function)


def _store_option(*, yields_to: str, text: str) -> Callable[[F], F]:
    return click.option(
        "--store",
        cls=_OverridableOption,
        yields_to=(yields_to,),
        envvar="MAINSPRING_STORE",
        show_envvar=True,
        metavar="URL",
        help=text,
    )


def api_options(function: F) -> F:
    """Add where the API is served."""
    return _add(
        function,
        click.option(
            "--host",
            default="127.0.0.1",
            show_default=True,
            metavar="ADDRESS",
            help="What the API is bound to; others than loopback need --trusted-network.",
        ),
        click.option(
            "--port", default=8620, show_default=True, type=int, help="Port of the API; 0 is any free one."
        ),
        click.option(
            "--trusted-network",
            is_flag=True,
            envvar="MAINSPRING_TRUSTED_NETWORK",
            show_envvar=True,
            help="Whoever can reach the API may define and run jobs: there are no access tokens.",
        ),
        click.option(
            "--allow-host",
            "allow_hosts",
            multiple=True,
            envvar="MAINSPRING_ALLOW_HOST",
            show_envvar=True,
            metavar="NAME",
            help="A further name or address under which the API may be asked; repeatable.",
        ),
    )


def beat_option(function: F) -> F:
    """Add --beat-period."""
    return click.option(
        "--beat-period",
        default=10.0,
        show_default=True,
        type=float,
        metavar="SECONDS",
        help="Between a worker's heartbeats; its session is judged by it.",
    )(function)


def node_options(function: F) -> F:
    """Add how servers divide what is to be scheduled."""
    return _add(
        function,
        click.option(
            "--node-period",
            default=1.4,
            show_default=True,
            type=float,
            metavar="SECONDS",
            help="Between a server's heartbeats; the others judge it by that.",
        ),
        click.option(
            "--clock-limit",
            default=5.0,
            show_default=True,
            type=float,
            metavar="SECONDS",
            help="On PostgreSQL, a host whose clock differs from the store's by more schedules nothing.",
        ),
    )


def target_options(function: F) -> F:
    """Add what jobs may reach."""
    return _add(
        function,
        click.option("--allow-shell", is_flag=True, help="Allow shell commands as jobs."),
        click.option(
            "--callback-allow",
            multiple=True,
            metavar="ENTRY",
            help="An internal target that callbacks may reach: network or host, with or without :port; repeatable.",
        ),
    )


def slots_options(function: F) -> F:
    """Add --slots and --threads."""
    return _add(
        function,
        click.option("--slots", default=100, show_default=True, type=int, help="Attempts at a time."),
        click.option(
            "--threads",
            type=int,
            help="Sync functions at a time; by default as many as --slots, up to 1,000.",
        ),
    )


def drain_option(function: F) -> F:
    """Add --drain."""
    return click.option(
        "--drain",
        default=30.0,
        show_default=True,
        type=click.FloatRange(0, _LONGEST),
        metavar="SECONDS",
        help="How long a stop waits for what is under way.",
    )(function)


def executor_options(function: F) -> F:
    """Add what a process that carries out jobs is told about its executors."""
    return _add(function, target_options, slots_options, drain_option)


def seconds(value: float, field: str) -> timedelta:
    """Return a duration given in seconds.

    Raises:
        InvalidInput: it is no number of seconds.
    """
    if not math.isfinite(value) or abs(value) > _LONGEST:
        raise InvalidInput(field, f"{value} is not a number of seconds up to {_LONGEST}")
    return timedelta(seconds=value)


def given_arguments(context: click.Context, *, leave_out: Collection[str]) -> list[str]:
    """Return what a command was given on its command line, so that another process can be given the same.

    What came from the environment comes from there again.
    """
    options: list[str] = []
    arguments: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in leave_out or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        if isinstance(parameter, click.Argument):
            arguments.append(str(value))
        elif isinstance(parameter, click.Option) and parameter.is_flag:
            options.append(parameter.opts[0])
        else:
            values = value if parameter.multiple else [value]
            options += [f"{parameter.opts[0]}={each}" for each in values]
    return [*options, "--", *arguments]


def _add(function: F, *options: Callable[[F], F]) -> F:
    """Add options in the order in which the help is to show them."""
    for option in reversed(options):
        function = option(function)
    return function
