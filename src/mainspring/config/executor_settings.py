"""The settings of executors: their threads, time limits and resources, and what commands and callbacks may do.

They are a part of `table`, and like it import nothing slow.
"""

from __future__ import annotations

from datetime import timedelta

from mainspring.config.kinds import InternalTarget, OneLine, ResourceLimits, Several
from mainspring.config.setting import UP, WORKER, Setting
from mainspring.core.kinds import Flag, Whole
from mainspring.core.resource_limits import RESOURCE_LIMITS
from mainspring.core.times import Duration

_EXECUTING = (UP, WORKER)
_SHORTEST_PERIOD = timedelta(seconds=0.1)
_DAY = timedelta(days=1)

EXECUTOR_SETTINGS = (
    Setting(
        name="executors.function.threads",
        kind=Whole(1, 1000),
        default=None,
        default_words="as many as slots, up to a bound",
        field="threads",
        flag="--threads",
        used_by=_EXECUTING,
        words="Sync functions that a worker runs at a time, each in its own thread.",
    ),
    Setting(
        name="executors.function.grace",
        kind=Duration(timedelta(0), timedelta(hours=1)),
        default=timedelta(seconds=1),
        field="function_grace",
        used_by=_EXECUTING,
        words="How long an async function may clean up after a cancel or time-out before it is left behind.",
    ),
    Setting(
        name="executors.function.keep_output",
        kind=Flag(),
        default=True,
        field="keep_output",
        used_by=_EXECUTING,
        words="Keep what functions print, and what they log to stdout or stderr, as the output of their runs.",
    ),
    Setting(
        name="run_logs.flush",
        kind=Duration(_SHORTEST_PERIOD, timedelta(minutes=1)),
        default=timedelta(seconds=1),
        field="log_flush",
        used_by=_EXECUTING,
        words="How long what an attempt writes waits until it is sent: what a killed worker loses, at most.",
    ),
    Setting(
        name="run_logs.limit",
        kind=Whole(128 * 1024, 1024**3),
        default=10 * 1024 * 1024,
        field="log_limit",
        used_by=_EXECUTING,
        words="Bytes of what an attempt writes: if it writes more, the first half is kept, and the newest 64 KiB.",
    ),
    Setting(
        name="executors.process.enabled",
        kind=Flag(),
        default=False,
        field="process_enabled",
        used_by=_EXECUTING,
        words="Call functions in processes of their own where their jobs ask for that (Linux).",
    ),
    Setting(
        name="executors.process.most",
        kind=Whole(1, 1000),
        default=None,
        default_words="as many as slots, up to 64",
        field="processes_of_functions",
        used_by=_EXECUTING,
        words="Processes that a worker has for such functions at a time.",
    ),
    Setting(
        name="executors.shell.enabled",
        kind=Flag(),
        default=False,
        field="allow_shell",
        flag="--allow-shell",
        words="Allow shell commands as jobs: the server accepts them, the worker runs them.",
    ),
    Setting(
        name="executors.shell.allow",
        kind=Several(words="list of paths"),
        metavar="PATH",
        default=(),
        default_words="any program",
        field="shell_allow",
        used_by=_EXECUTING,
        words="Programs, and folders ending in /, to which commands are restricted.",
    ),
    Setting(
        name="executors.shell.path",
        kind=OneLine(),
        metavar="PATH",
        default="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        field="shell_path",
        used_by=_EXECUTING,
        words="The PATH of commands.",
    ),
    Setting(
        name="executors.shell.grace",
        kind=Duration(timedelta(0), timedelta(hours=1)),
        default=timedelta(seconds=5),
        field="shell_grace",
        used_by=_EXECUTING,
        words="How long a command has between SIGTERM and SIGKILL.",
    ),
    Setting(
        name="executors.shell.limits",
        kind=ResourceLimits(RESOURCE_LIMITS),
        default=(),
        field="shell_limits",
        used_by=_EXECUTING,
        words="Resource limits of commands, named as in setrlimit(2).",
    ),
    Setting(
        name="executors.http.allow",
        kind=Several(item=InternalTarget(), words="list of networks or hosts, with or without `:PORT`"),
        metavar="ENTRY",
        default=(),
        field="callback_allow",
        flag="--callback-allow",
        words="Internal targets that callbacks may reach: network or host, with or without :port. Repeatable.",
    ),
    Setting(
        name="executors.http.allow_http",
        kind=Flag(),
        default=False,
        field="callback_allow_http",
        used_by=_EXECUTING,
        words="Let callbacks use plain http to public addresses, too.",
    ),
    Setting(
        name="executors.http.connect_timeout",
        kind=Duration(_SHORTEST_PERIOD, timedelta(minutes=10)),
        default=timedelta(seconds=10),
        field="callback_connect_timeout",
        used_by=_EXECUTING,
        words="How long a callback may take to connect.",
    ),
    Setting(
        name="executors.http.timeout",
        kind=Duration(_SHORTEST_PERIOD, 30 * _DAY),
        default=timedelta(seconds=30),
        field="callback_timeout",
        used_by=_EXECUTING,
        words="How long a callback may take if its job sets no time limit.",
    ),
    Setting(
        name="executors.grpc.enabled",
        kind=Flag(),
        default=False,
        field="grpc_enabled",
        words="Allow gRPC calls as jobs: the server accepts them, the worker makes them. It needs the extra `grpc`.",
    ),
    Setting(
        name="executors.grpc.allow",
        kind=Several(item=InternalTarget(), words="list of networks or hosts, with or without `:PORT`"),
        metavar="ENTRY",
        default=(),
        field="grpc_allow",
        used_by=_EXECUTING,
        words="Internal targets that gRPC calls may reach: network or host, with or without :port.",
    ),
    Setting(
        name="executors.grpc.allow_plain",
        kind=Flag(),
        default=False,
        field="grpc_allow_plain",
        used_by=_EXECUTING,
        words="Let gRPC calls go without TLS to public addresses, too.",
    ),
    Setting(
        name="executors.grpc.connect_timeout",
        kind=Duration(_SHORTEST_PERIOD, timedelta(minutes=10)),
        default=timedelta(seconds=10),
        field="grpc_connect_timeout",
        used_by=_EXECUTING,
        words="How long a gRPC call may take to connect.",
    ),
    Setting(
        name="executors.grpc.timeout",
        kind=Duration(_SHORTEST_PERIOD, 30 * _DAY),
        default=timedelta(seconds=30),
        field="grpc_timeout",
        used_by=_EXECUTING,
        words="How long a gRPC call may take if its job sets no time limit.",
    ),
    Setting(
        name="executors.grpc.descriptors",
        kind=Several(words="list of paths"),
        metavar="PATH",
        default=(),
        default_words="servers are asked by reflection",
        field="grpc_descriptors",
        used_by=_EXECUTING,
        words="Files of descriptors, as `protoc --include_imports --descriptor_set_out` makes them, for servers"
        " without reflection.",
    ),
    Setting(
        name="executors.grpc.ca",
        kind=OneLine(),
        metavar="PATH",
        default=None,
        default_words="those that gRPC brings",
        field="grpc_ca",
        used_by=_EXECUTING,
        words="The certificates of the authorities that sign those of gRPC servers, as a PEM file.",
    ),
    Setting(
        name="executors.grpc.client_cert",
        kind=OneLine(),
        metavar="PATH",
        default=None,
        field="grpc_client_cert",
        used_by=_EXECUTING,
        words="The certificate that gRPC calls present, as a PEM file; with client_key.",
    ),
    Setting(
        name="executors.grpc.client_key",
        kind=OneLine(),
        metavar="PATH",
        default=None,
        field="grpc_client_key",
        used_by=_EXECUTING,
        words="The key of that certificate, as a PEM file.",
    ),
)
