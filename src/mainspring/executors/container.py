"""Executor of containers, by podman or docker."""

from __future__ import annotations

import errno
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from mainspring.core.ids import format_run_id
from mainspring.core.outcomes import Failure
from mainspring.core.targets.container import ContainerType
from mainspring.egress.secrets import NoSecrets, Revealer
from mainspring.errors import InvalidInput
from mainspring.executors._commands import Commands, describe, fill_variables
from mainspring.executors._images import check_image, check_limit
from mainspring.executors._leftovers import MARKER, worker_marker
from mainspring.executors._text import ERROR_LIMIT, clean
from mainspring.executors.context import ExecutorContext
from mainspring.executors.shell import DEFAULT_PATH
from mainspring.ports.executor import AttemptContext, Outcome, Success
from mainspring.ports.secrets import SecretMissing, Secrets

_TYPE = ContainerType()
_NONE = NoSecrets()
_PROGRAM_FAILED = 125
"""The status with which podman and docker end when they could not run the container."""
_CLEAN_UP_SECONDS = 40.0
_MOST_PROCESSES = 512
_OF_PROGRAM = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LC_.*|TMPDIR|XDG_.*|LD_.*|GO.*|SSL_.*|SSH_.*|SHELL|NOTIFY_SOCKET|LISTEN_.*|DBUS_.*"
    r"|BASH.*|ENV|IFS|PS4|SHELLOPTS|PERL.*|PYTHON.*"
    r"|CONTAINERS?_.*|DOCKER_.*|PODMAN_.*|BUILDAH_.*|STORAGE_.*|REGISTRY_.*|NETAVARK_.*|_.*|.*_proxy|.*_PROXY"
)
"""Variables that mean something to podman, docker or what they start."""


class ContainerExecutor:
    """Carries out attempts of target type `container`.

    `core.targets.container` describes `params`, which are checked against it. Each attempt is a container named
    `ms-RUN-TOKEN`. Those of earlier tokens are removed first. It has no privileges and no part of the host's files.

    Args:
        images: those that jobs may run, and beginnings of names that end in `*`; empty is none.
        program: podman or docker.
        options: what it is given in front of its command.
        run_options: what `run` is given behind our own.
        network: the network of containers.
        memory: the most MiB of one.
        cpus: the most processors of one.
        grace: between SIGTERM and SIGKILL.
        path: the PATH in which the program is found.
        secrets: those that jobs may name; by default there are none.

    Raises:
        InvalidInput: this is not Linux, or there is no such program.
    """

    def __init__(
        self,
        *,
        images: Sequence[str] = (),
        program: str = "podman",
        options: Sequence[str] = (),
        run_options: Sequence[str] = (),
        network: str = "none",
        memory: int = 512,
        cpus: float = 1.0,
        grace: timedelta = timedelta(seconds=5),
        path: str = DEFAULT_PATH,
        secrets: Secrets = _NONE,
    ) -> None:
        if sys.platform != "linux":
            raise InvalidInput("executors.container.enabled", "containers can be run on Linux only")
        if shutil.which(program, path=path) is None:
            message = f"there is no program {program!r} in {path}; install podman or docker, or name its path"
            raise InvalidInput("executors.container.program", message)
        self._images = tuple(images)
        self._base = [program, *options]
        self._run_options = list(run_options)
        self._network = network
        self._memory = memory
        self._cpus = cpus
        self._grace = grace.total_seconds()
        self._path = path
        self._secrets = secrets
        self._commands = Commands(grace=self._grace)
        self._marker = ""

    @property
    def type(self) -> str:
        return "container"

    def ask_before_work(self, may_begin: Callable[[], bool]) -> None:
        self._commands.may_begin = may_begin

    async def start(self) -> None:
        self._marker = worker_marker()
        await self._commands.start()

    async def stop(self) -> None:
        await self._commands.stop()

    async def execute(self, context: AttemptContext) -> Outcome:
        revealer = Revealer(self._secrets, context.tenant)
        try:
            params = _TYPE.read_kept(context.params)
            check_image(params["image"], self._images, "executors.container.images")
            request = self._request(context, params, revealer)
        except InvalidInput as error:
            return Failure(error=clean(str(error), ERROR_LIMIT), is_retryable=False)
        except SecretMissing as error:
            return Failure(error=clean(str(error), ERROR_LIMIT))
        if context.token > 1:
            outcome = await self._remove_older(context, revealer)
            if not isinstance(outcome, Success):
                return outcome
        outcome = await self._commands.run(
            request, context, revealer, self._start_error, patience=_CLEAN_UP_SECONDS
        )
        return _explain(outcome)

    async def _remove_older(self, context: AttemptContext, revealer: Revealer) -> Outcome:
        """Remove the containers of the run's earlier tokens, which may still be working here."""
        found = [
            "ps",
            "--all",
            "--quiet",
            "--filter",
            f"label=mainspring.run={format_run_id(context.run_id)}",
        ]
        request = self._bare([*self._base, *found])
        listed = await self._commands.run(request, context, revealer, self._start_error)
        if not isinstance(listed, Success):
            return _of_older(listed)
        ids = (listed.output or "").split()
        if not ids:
            return listed
        removed = await self._commands.run(
            self._bare([*self._base, "rm", "--force", *ids]), context, revealer, self._start_error
        )
        return _of_older(removed)

    def _bare(self, argv: list[str]) -> dict[str, Any]:
        """Return the request of a command that is not a container."""
        return {
            "argv": argv,
            "env": {"PATH": self._path, "LANG": "C.UTF-8", MARKER: self._marker},
            "cwd": "/",
            "user": None,
            "stdin": None,
            "limits": {},
            "timeout": _CLEAN_UP_SECONDS,
            "soft_timeout": None,
            "grace": self._grace,
            "keeps_privileges": True,
            "linger": 5.0,
        }

    def _request(
        self, context: AttemptContext, params: Mapping[str, Any], revealer: Revealer
    ) -> dict[str, Any]:
        run = format_run_id(context.run_id)
        name = f"ms-{run.removeprefix('run_')}-{context.token}"
        memory = check_limit(params.get("memory"), self._memory, "memory", "executors.container.memory")
        cpus = check_limit(params.get("cpus"), self._cpus, "cpus", "executors.container.cpus")
        given = params.get("env", {})
        variables = fill_variables(given, revealer)
        by_name, by_value = _split(given, variables)
        own = describe(context)
        argv = [*self._base, "run", "--rm", "--interactive", "--name", name, "--log-driver", "none"]
        argv += ["--label", f"mainspring.run={run}", "--label", f"mainspring.worker={self._marker}"]
        argv += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", self._network]
        argv += ["--memory", f"{memory}m", "--memory-swap", f"{memory}m", "--cpus", f"{cpus:g}"]
        argv += ["--pids-limit", str(_MOST_PROCESSES)]
        for variable in (*own, *by_name):
            argv += [
                "--env",
                variable,
            ]  # its value is in the program's environment, where nobody else reads it
        for variable, text in by_value.items():
            argv += ["--env", f"{variable}={text}"]
        argv += [*self._run_options, params["image"], *params.get("command", ())]
        stdin = params.get("stdin")
        if stdin is None and context.payload is not None:
            stdin = context.payload.decode()
        request = self._bare(argv)
        return request | {
            "env": {**request["env"], **by_name, **own},
            "stdin": stdin,
            "timeout": context.timeout.total_seconds(),
            "soft_timeout": context.soft_timeout.total_seconds() if context.soft_timeout else None,
            "after": [[*self._base, "rm", "--force", name]],
            "after_codes": [_PROGRAM_FAILED],
        }

    def _start_error(self, stage: str, number: int, text: str) -> str:
        if stage == "exec" and number == errno.ENOENT:
            return f"there is no program {self._base[0]!r} on this worker"
        return f"the container could not be started ({stage}): {text}"


def make_executor(context: ExecutorContext) -> ContainerExecutor:
    """Make a worker's executor."""
    settings = context.settings
    return ContainerExecutor(
        images=settings.container_images,
        program=settings.container_program,
        options=settings.container_options,
        run_options=settings.container_run_options,
        network=settings.container_network,
        memory=settings.container_memory,
        cpus=settings.container_cpus,
        grace=settings.container_grace,
        path=settings.shell_path,
        secrets=context.secrets,
    )


def _split(given: Mapping[str, str], filled: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables that the program is given by name, and those by value because it would heed them itself.

    Raises:
        InvalidInput: one of the latter holds a secret, which everybody on the host could read.
    """
    by_name, by_value = {}, {}
    for name, text in filled.items():
        if _OF_PROGRAM.fullmatch(name) is None:
            by_name[name] = text
        elif text != given[name]:
            message = "means something to podman or docker, so it can hold no secret; give it another name"
            raise InvalidInput(f"target.env.{name}", message)
        else:
            by_value[name] = text
    return by_name, by_value


def _of_older(outcome: Outcome) -> Outcome:
    """Return an outcome that says that it is about an earlier attempt."""
    if not isinstance(outcome, Failure):
        return outcome
    error = clean(f"the container of an earlier attempt could not be removed: {outcome.error}", ERROR_LIMIT)
    return replace(outcome, error=error, cause=None, result=None)


def _explain(outcome: Outcome) -> Outcome:
    """Return an outcome with what the statuses of podman and docker mean."""
    if not isinstance(outcome, Failure) or outcome.cause is None:
        return outcome
    if outcome.cause.exit_code == _PROGRAM_FAILED:
        told = (outcome.output or "").strip().rpartition("\n")[2]
        return replace(
            outcome,
            error=clean(f"the container could not be run: {told}", ERROR_LIMIT),
            cause=None,
            result=None,
        )
    if outcome.cause.exit_code == 137:
        return replace(outcome, error=f"{outcome.error}: killed, perhaps because it needs more memory")
    return outcome
