"""Every setting, described once: name, kind, bounds, default, option, who uses it, and words.

The options of the command line, the readers of environment and files, `Settings`, and the reference page all come
from this table. The settings of executors stand in `executor_settings` and `container_settings`. A setting's name is
its place in the file. Its variable is MAINSPRING_ and that name in capitals, with _ for each dot. Every command imports
this module, so it imports nothing slow.
"""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import Any

from mainspring.config.api_settings import API_SETTINGS, DEFAULT_PORT
from mainspring.config.archive_settings import ARCHIVE_SETTINGS
from mainspring.config.artifact_settings import ARTIFACT_SETTINGS
from mainspring.config.channel_settings import CHANNEL_SETTINGS
from mainspring.config.container_settings import CONTAINER_SETTINGS
from mainspring.config.executor_settings import EXECUTOR_SETTINGS
from mainspring.config.keep_settings import KEEP_SETTINGS
from mainspring.config.kinds import OneLine, SecretUrl, ServerUrl, Several
from mainspring.config.login_settings import LOGIN_SETTINGS
from mainspring.config.past_settings import BACKFILL_SETTINGS, CATCH_UP_SETTINGS
from mainspring.config.secret_settings import SECRET_SETTINGS
from mainspring.config.setting import PREFIX, SERVER, UP, WORKER, Setting
from mainspring.config.telemetry_settings import TELEMETRY_SETTINGS
from mainspring.config.vault_settings import VAULT_SETTINGS
from mainspring.core.kinds import Flag, OneOf, Whole, Word
from mainspring.core.rates import Rate, RateText
from mainspring.core.times import Duration

DEFAULT_SERVER = f"http://127.0.0.1:{DEFAULT_PORT}"

_HOSTS = (UP, SERVER)
_EXECUTING = (UP, WORKER)

_SHORTEST_PERIOD = timedelta(seconds=0.1)
_DAY = timedelta(days=1)
_YEARS = 3650 * _DAY
_MIB = 1024 * 1024


_STORES = (
    Setting(
        name="store",
        kind=SecretUrl(),
        default=None,
        default_words="SQLite in the folder `data`",
        flag="--store",
        words="postgresql://…, sqlite:///FOLDER or memory://. A worker takes postgresql://… only, and uses "
        "it directly instead of through a server.",
    ),
    Setting(
        name="data",
        kind=OneLine(),
        metavar="DIR",
        default="mainspring-data",
        flag="--data",
        used_by=_HOSTS,
        words="Folder of the SQLite store; the same as a store of sqlite:///DIR.",
    ),
    Setting(
        name="listen_store",
        kind=SecretUrl(),
        default=None,
        default_words="wake-ups come by polling",
        flag="--listen-store",
        words="postgresql://… past a pooler in transaction mode, for wake-ups.",
    ),
    Setting(
        name="server",
        kind=Several(item=ServerUrl(), words="URL, or a list of URLs", is_needed=True),
        metavar="URL",
        default=(DEFAULT_SERVER,),
        flag="--server",
        used_by=(WORKER,),
        words="Address of the server for commands and workers; of several that share a store, one is "
        "enough. Repeatable, or separated by commas.",
    ),
    Setting(
        name="postgresql.statement_timeout",
        kind=Duration(timedelta(seconds=1), timedelta(minutes=10)),
        default=timedelta(seconds=30),
        field="statement_timeout",
        words="How long a statement on PostgreSQL may take before it is cancelled and tried again.",
    ),
    Setting(
        name="browse.budget",
        kind=Duration(timedelta(milliseconds=10), timedelta(seconds=10)),
        default=timedelta(milliseconds=250),
        field="browse_budget",
        used_by=_HOSTS,
        words="How long a list of runs looks before it answers what it has found, and how far it looked.",
    ),
    Setting(
        name="browse.connections",
        kind=Whole(1, 4),
        default=2,
        field="browse_connections",
        used_by=_HOSTS,
        words="Connections to PostgreSQL for lists and counts, opened on first use.",
    ),
    Setting(
        name="browse.timeout",
        kind=Duration(_SHORTEST_PERIOD, timedelta(seconds=30)),
        default=timedelta(seconds=1),
        field="browse_timeout",
        used_by=_HOSTS,
        words="How long one read for a list or count may take before it is stopped and refused.",
    ),
    Setting(
        name="why.rate",
        kind=RateText(),
        default=Rate(20, timedelta(seconds=1)),
        field="why_rate",
        used_by=_HOSTS,
        words="How often one caller may ask a server why a run waits; what one second allows may come at once.",
    ),
)

_SCHEDULER = (
    Setting(
        name="scheduler.enabled",
        kind=Flag(),
        default=True,
        field="has_scheduler",
        flag="--no-scheduler",
        used_by=(SERVER,),
        words="Schedule. Without it a server only serves the API and gives out work; needs a shared store.",
    ),
    Setting(
        name="scheduler.node_period",
        kind=Duration(_SHORTEST_PERIOD, timedelta(minutes=1)),
        default=timedelta(seconds=1.4),
        field="node_period",
        flag="--node-period",
        used_by=_HOSTS,
        words="Time between a server's heartbeats; within four of them the others take over what a dead server "
        "scheduled.",
    ),
    Setting(
        name="scheduler.clock_limit",
        kind=Duration(_SHORTEST_PERIOD, _DAY),
        default=timedelta(seconds=5),
        field="clock_limit",
        flag="--clock-limit",
        used_by=_HOSTS,
        words="On PostgreSQL, a host whose clock is off the store's by more than this schedules nothing.",
    ),
    *KEEP_SETTINGS,
)

_WORKER = (
    Setting(
        name="worker.slots",
        kind=Whole(0, 10_000),
        default=100,
        field="slots",
        flag="--slots",
        used_by=_EXECUTING,
        words="Attempts at a time. With 0, `up` has no worker; a separate worker needs at least one.",
    ),
    Setting(
        name="worker.queues",
        kind=Several(item=Word(), words="list of names"),
        default=(),
        default_words="all",
        field="queues",
        flag="--queue",
        used_by=(WORKER,),
        words="Queues to serve. Repeatable.",
    ),
    Setting(
        name="worker.labels",
        kind=Several(item=Word(), words="list of names"),
        default=(),
        field="labels",
        flag="--label",
        used_by=(WORKER,),
        words="Labels that the worker offers; jobs may require labels. Repeatable.",
    ),
    Setting(
        name="worker.name",
        kind=OneLine(),
        metavar="NAME",
        default=None,
        default_words="HOST-PID",
        field="worker_name",
        flag="--name",
        used_by=(WORKER,),
        words="The worker's name.",
    ),
    Setting(
        name="worker.processes",
        kind=Whole(1, 10_000),
        default=1,
        field="processes",
        flag="--processes",
        used_by=(WORKER,),
        words="Worker processes, each with that many slots, under one parent that restarts those that die.",
    ),
    Setting(
        name="worker.beat_period",
        kind=Duration(_SHORTEST_PERIOD, timedelta(minutes=5)),
        default=timedelta(seconds=10),
        field="beat_period",
        flag="--beat-period",
        words="Time between a worker's heartbeats; a worker silent for three is lost. The server tells its workers; a "
        "worker needs it only if it uses the store directly.",
    ),
    Setting(
        name="worker.long_poll",
        kind=Duration(timedelta(0), timedelta(seconds=30)),
        default=timedelta(seconds=20),
        field="long_poll",
        used_by=_EXECUTING,
        words="How long a request for work waits if there is none.",
    ),
    Setting(
        name="worker.prefetch",
        kind=Duration(timedelta(0), timedelta(seconds=1)),
        default=timedelta(milliseconds=100),
        field="prefetch",
        flag="--prefetch",
        used_by=_EXECUTING,
        words="While there is a backlog, a worker claims ahead what it ends in this time at its present rate, so that "
        "short runs need no more slots. With 0s it claims only what starts at once.",
    ),
    Setting(
        name="drain",
        kind=Duration(timedelta(0), _DAY),
        default=timedelta(seconds=30),
        field="drain",
        flag="--drain",
        words="How long a stopping worker waits for its attempts before it hands them back, and a server for requests.",
    ),
)

_LOGGING = (
    Setting(
        name="logging.format",
        kind=OneOf(("auto", "logfmt", "json")),
        default="auto",
        field="log_format",
        flag="--log-format",
        words="How log lines are written to stderr; auto is sentences on a terminal, and logfmt elsewhere.",
    ),
    Setting(
        name="logging.level",
        kind=OneOf(("debug", "info", "warning", "error")),
        default="info",
        field="log_level",
        flag="--log-level",
        words="The lowest level of log lines that are written.",
    ),
)

GROUPS = MappingProxyType(
    {
        "Store and server": _STORES,
        "API": API_SETTINGS,
        "Signing in": LOGIN_SETTINGS,
        "Scheduling and retention": _SCHEDULER,
        "Archive": ARCHIVE_SETTINGS,
        "Files of runs": ARTIFACT_SETTINGS,
        "Backfills": BACKFILL_SETTINGS,
        "Catch-up": CATCH_UP_SETTINGS,
        "Worker": _WORKER,
        "Executors": EXECUTOR_SETTINGS + CONTAINER_SETTINGS,
        "Channels": CHANNEL_SETTINGS,
        "Secrets": SECRET_SETTINGS,
        "Secrets in Vault": VAULT_SETTINGS,
        "Metrics and traces": TELEMETRY_SETTINGS,
        "Logs": _LOGGING,
    }
)
"""All settings, as the reference page groups them."""

SETTINGS = MappingProxyType({setting.name: setting for group in GROUPS.values() for setting in group})
"""All settings by name, in the order in which they are shown."""

OTHER_VARIABLES = frozenset(
    {
        f"{PREFIX}{name}"
        for name in ("APP", "CONFIG", "OPTIONS", "TOKEN", "TOKEN_FILE", "WORKER", "CLIENT_CERT", "CLIENT_KEY")
    }
)
"""Variables that are not settings: the file's name, a client's access token and the file that has it, what the service
units insert, and the mark on a worker's jobs."""


def default(name: str) -> Any:
    """Return a setting's default."""
    return SETTINGS[name].default
