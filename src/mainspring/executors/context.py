"""What the factory of an executor gets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from mainspring.core.values import value
from mainspring.ports.artifacts import ArtifactGateway
from mainspring.ports.checkpoints import CheckpointGateway
from mainspring.ports.secrets import Secrets
from mainspring.ports.tracing import Tracer
from mainspring.registry import FunctionRegistry


class ExecutorSettings(Protocol):
    """The settings that executors read. `config.table` says what each means."""

    @property
    def threads(self) -> int | None: ...
    @property
    def keep_output(self) -> bool: ...
    @property
    def function_grace(self) -> timedelta: ...
    @property
    def process_enabled(self) -> bool: ...
    @property
    def processes_of_functions(self) -> int | None: ...
    @property
    def allow_shell(self) -> bool: ...
    @property
    def shell_allow(self) -> tuple[str, ...]: ...
    @property
    def shell_path(self) -> str: ...
    @property
    def shell_grace(self) -> timedelta: ...
    @property
    def shell_limits(self) -> tuple[tuple[str, int], ...]: ...
    @property
    def callback_allow(self) -> tuple[str, ...]: ...
    @property
    def callback_allow_http(self) -> bool: ...
    @property
    def callback_connect_timeout(self) -> timedelta: ...
    @property
    def callback_timeout(self) -> timedelta: ...
    @property
    def grpc_allow(self) -> tuple[str, ...]: ...
    @property
    def grpc_allow_plain(self) -> bool: ...
    @property
    def grpc_connect_timeout(self) -> timedelta: ...
    @property
    def grpc_timeout(self) -> timedelta: ...
    @property
    def grpc_descriptors(self) -> tuple[str, ...]: ...
    @property
    def grpc_ca(self) -> str | None: ...
    @property
    def grpc_client_cert(self) -> str | None: ...
    @property
    def grpc_client_key(self) -> str | None: ...
    @property
    def container_program(self) -> str: ...
    @property
    def container_options(self) -> tuple[str, ...]: ...
    @property
    def container_run_options(self) -> tuple[str, ...]: ...
    @property
    def container_images(self) -> tuple[str, ...]: ...
    @property
    def container_network(self) -> str: ...
    @property
    def container_memory(self) -> int: ...
    @property
    def container_cpus(self) -> float: ...
    @property
    def container_grace(self) -> timedelta: ...


@value(kw_only=True)
class ExecutorContext:
    """What an executor may know about the worker that it is made for.

    Attributes:
        settings: those of the worker's settings that executors read.
        functions: the functions that the worker's app has registered.
        slots: how many attempts the worker runs at a time.
        secrets: those that jobs may name.
        host_time: gives the host's time, for signatures.
        tracer: takes the spans of what an executor does within an attempt; None if they are not exported.
        artifacts: takes files of attempts; None if the worker's gateway takes none.
        checkpoints: keeps the steps of durable functions; None if the worker's gateway keeps none.
    """

    settings: ExecutorSettings
    functions: FunctionRegistry
    slots: int
    secrets: Secrets
    host_time: Callable[[], datetime]
    tracer: Tracer | None = None
    artifacts: ArtifactGateway | None = None
    checkpoints: CheckpointGateway | None = None
