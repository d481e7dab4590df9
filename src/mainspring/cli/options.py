"""Options that several commands have in common. The options of processes come from the table of settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from mainspring.cli.completion import complete_files, complete_words
from mainspring.cli.output import UTC_CHOSEN
from mainspring.cli.terminal import NO_PAGER
from mainspring.config.setting import PROCESSES, Setting
from mainspring.config.table import DEFAULT_SERVER, SETTINGS
from mainspring.core.ids import DEFAULT_TENANT
from mainspring.core.kinds import Flag, Kind, Worded
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.config.sources import Choices

TENANT = "mainspring.tenant"
"""Where a command's context has the tenant to act for."""
F = TypeVar("F", bound=Callable[..., Any])


class _ServerOption(click.Option):
    """The option --server of commands that call a server. It wins over the variable, which wins over the file."""

    def get_default(self, ctx: click.Context, call: bool = True) -> Any:
        """Return the address in the file, or else the default address."""
        return _read_server() if call else DEFAULT_SERVER


def caller_options(function: F) -> F:
    """Add --server, and what others find by themselves: --tenant, and how to show what is printed."""
    tenant_option = click.option(
        "--tenant",
        metavar="NAME",
        default=DEFAULT_TENANT,
        show_default=True,
        expose_value=False,
        callback=_keep_tenant,
        help="The tenant to act for.",
    )
    return server_option(tenant_option(shown_options(function)))


def shown_options(function: F) -> F:
    """Add the options that say how to show what is printed."""
    utc_option = _kept_flag("--utc", UTC_CHOSEN, "Show times in UTC, not in the zone of the terminal.")
    pager_option = _kept_flag("--no-pager", NO_PAGER, "Print long tables at once.")
    return utc_option(pager_option(function))


def _kept_flag(flag: str, key: str, words: str) -> Callable[[F], F]:
    """Add a flag that the command's context keeps."""

    def keep(context: click.Context, _: click.Parameter, is_given: bool) -> None:
        context.meta[key] = is_given

    return click.option(flag, is_flag=True, expose_value=False, callback=keep, help=words)


def server_option(function: F) -> F:
    """Add --server."""
    setting = SETTINGS["server"]
    return click.option(
        "--server",
        cls=_ServerOption,
        envvar=setting.variable,
        show_envvar=True,
        metavar="URL",
        help=f"The server's address; several that share a store are separated by commas.  [default: {DEFAULT_SERVER}]",
    )(function)


def _keep_tenant(context: click.Context, _: click.Parameter, name: str) -> None:
    context.meta[TENANT] = name


def kind_option(
    flag: str, kind: Kind, *, words: str, default: str | None = None, is_required: bool = False
) -> Callable[[F], F]:
    """Add an option whose value is of one of the core's kinds. A wrong one is refused as a setting or a field is."""

    def read(_: click.Context, parameter: click.Parameter, text: str | None) -> Any:
        field = parameter.name or flag
        return None if text is None else kind.read(kind.from_text(text, field), field, None)

    # To click, a default of None is a value, and then nothing is missing.
    given: dict[str, Any] = {} if default is None else {"default": default}
    return click.option(
        flag,
        **given,
        metavar=kind.metavar,
        show_default=True,
        required=is_required,
        callback=read,
        shell_complete=complete_words(kind),
        help=words,
    )


def json_option(function: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def cluster_option(own: str, shared: str) -> Callable[[F], F]:
    """Add --cluster, which sets the parameter `scope`.

    Args:
        own, shared: what a command is about without it, and with it.
    """
    return click.option(
        "--cluster",
        "scope",
        is_flag=True,
        flag_value="cluster",
        default="tenant",
        help=f"Not {own}, but {shared}.",
    )


def prune_option(function: F) -> F:
    """Add --prune, for commands that start an app."""
    return click.option(
        "--prune",
        is_flag=True,
        help="Delete the jobs that the app defined once and does not any more; without it they are only named.",
    )(function)


def check_prune(*, prune: bool, app_reference: str | None) -> None:
    """Refuse --prune without an app.

    Raises:
        InvalidInput: there is no app whose jobs could be meant.
    """
    if prune and app_reference is None:
        raise InvalidInput("prune", "goes with MODULE:APP, whose jobs it is about; give one, or leave it out")


def config_option(function: F) -> F:
    """Add --config."""
    return click.option(
        "--config",
        metavar="FILE",
        shell_complete=complete_files,
        help="The file with settings.  [env var: MAINSPRING_CONFIG; default: ./mainspring.toml, else "
        "/etc/mainspring/mainspring.toml, if there is one]",
    )(function)


def setting_options(*processes: str) -> Callable[[F], F]:
    """Add --config, and the options of all settings that one of these processes uses.

    Read their values with `read_choices`. The command's own parameters hold only the text that was given.

    Args:
        processes: names of processes; without any, all processes count.
    """
    chosen = [
        setting
        for setting in SETTINGS.values()
        if setting.flag is not None and not set(processes or PROCESSES).isdisjoint(setting.used_by)
    ]
    return _options_of(chosen)


def store_options(function: F) -> F:
    """Add --config, and the options that name the store, for commands that use it without a server."""
    return _options_of([SETTINGS[name] for name in ("store", "data", "listen_store")])(function)


def archive_options(function: F) -> F:
    """Add --archive-url, and --config unless `store_options` adds it, for commands that use the archive itself."""
    function = _option(SETTINGS["archive.url"])(function)
    has_config = any(one.name == "config" for one in getattr(function, "__click_params__", ()))
    return function if has_config else config_option(function)


def _options_of(chosen: Sequence[Setting]) -> Callable[[F], F]:
    def add(function: F) -> F:
        for setting in reversed(chosen):
            function = _option(setting)(function)
        return config_option(function)

    return add


def read_choices(context: click.Context) -> Choices:
    """Return the values that the file, the environment and the command line give."""
    from mainspring.config.sources import read_sources

    flags = {}
    for setting in SETTINGS.values():
        word = setting.flag_word
        if word in context.params and context.get_parameter_source(word) is ParameterSource.COMMANDLINE:
            flags[setting.name] = context.params[word]
    return read_sources(flags, config=context.params["config"])


def given_arguments(context: click.Context, *, leave_out: Collection[str]) -> list[str]:
    """Return the arguments of a command as given on its command line, to pass them on to another process.

    That process gets values from the environment or a file by itself.
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


def _option(setting: Setting) -> Callable[[F], F]:
    flag, word = setting.flag, setting.flag_word
    assert flag is not None
    assert word is not None
    text = f"{setting.words}  [env var: {setting.variable}{_show_default(setting)}]"
    if isinstance(setting.kind, Flag):
        return click.option(flag, word, is_flag=True, help=text)
    metavar = setting.metavar or setting.kind.metavar
    if isinstance(setting.kind, Worded):
        metavar = "|".join(setting.kind.words())
    complete = complete_words(setting.kind)
    return click.option(
        flag, word, multiple=setting.kind.is_list, metavar=metavar, shell_complete=complete, help=text
    )


def _show_default(setting: Setting) -> str:
    if setting.default_words:
        return f"; default: {setting.default_words}"
    if isinstance(setting.kind, Flag) or setting.default in {None, ()}:
        return ""
    plain: Any = setting.kind.show(setting.default)
    return f"; default: {' '.join(plain) if isinstance(plain, list) else plain}"


def has_archive() -> bool:
    """Say whether the environment or the file names an archive."""
    from mainspring.config.sources import read_client_file

    setting = SETTINGS["archive.url"]
    return bool(os.environ.get(setting.variable) or read_client_file().get(setting.name))


def _read_server() -> str:
    """Return the address that the file names. A client need not have permission to read the system's file."""
    from mainspring.config.sources import read_client_file

    given: Mapping[str, Any] = read_client_file()
    return ",".join(given.get("server", SETTINGS["server"].default))
