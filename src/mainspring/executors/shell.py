"""Executor of commands."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from mainspring.core.outcomes import Failure
from mainspring.core.resource_limits import RESOURCE_LIMITS
from mainspring.core.targets.shell import ShellType
from mainspring.egress.secrets import NoSecrets, Revealer
from mainspring.errors import InvalidInput
from mainspring.executors._commands import Commands, describe, fill_variables
from mainspring.executors._files import AttemptFiles
from mainspring.executors._leftovers import MARKER, worker_marker
from mainspring.executors._shell_files import VARIABLE, ArtifactFolders
from mainspring.executors._text import ERROR_LIMIT, clean
from mainspring.executors.context import ExecutorContext
from mainspring.ports.artifacts import ArtifactGateway
from mainspring.ports.executor import AttemptContext, Outcome, Success
from mainspring.ports.secrets import SecretMissing, Secrets

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TYPE = ShellType()
_NONE = NoSecrets()


def make_executor(context: ExecutorContext) -> ShellExecutor:
    """Make a worker's executor."""
    settings = context.settings
    return ShellExecutor(
        enabled=settings.allow_shell,
        allow=settings.shell_allow,
        grace=settings.shell_grace,
        limits=dict(settings.shell_limits),
        path=settings.shell_path,
        secrets=context.secrets,
        artifacts=context.artifacts,
    )


class ShellExecutor:
    """Carries out attempts of target type `shell`.

    `params` is what `core.targets.shell` describes, and is held to it. In `cwd`, `~` is the home folder. A `user` other
    than the worker's own needs a worker that runs as root.

    Args:
        enabled: must be True: commands are carried out only by workers that say so (`--allow-shell`).
        allow: programs, and folders ending in `/`, to which commands are restricted; empty is any.
        grace: between SIGTERM and SIGKILL.
        limits: resource limits by their names in `RESOURCE_LIMITS` (`{"nproc": 200}`).
        path: the PATH of commands.
        secrets: those that jobs may name; by default there are none.
        artifacts: takes the files that commands leave behind; None takes none.

    Raises:
        InvalidInput: not enabled, or a limit that does not exist.
    """

    def __init__(
        self,
        *,
        enabled: bool,
        allow: Sequence[str] = (),
        grace: timedelta = timedelta(seconds=5),
        limits: Mapping[str, int] | None = None,
        path: str = DEFAULT_PATH,
        secrets: Secrets = _NONE,
        artifacts: ArtifactGateway | None = None,
    ) -> None:
        if not enabled:
            raise InvalidInput("executors.shell.enabled", "commands are off; turn them on with --allow-shell")
        if sys.platform != "linux":
            raise InvalidInput("executors.shell.enabled", "commands can be carried out on Linux only")
        if unknown := set(limits or ()).difference(RESOURCE_LIMITS):
            raise InvalidInput("executors.shell.limits", f"no such limit: {', '.join(sorted(unknown))}")
        self._allow = tuple(allow)
        self._grace = grace.total_seconds()
        self._limits = dict(limits or {})
        self._path = path
        self._secrets = secrets
        self._artifacts = artifacts
        self._folders: ArtifactFolders | None = None
        self._commands = Commands(grace=self._grace)
        self._marker = ""

    @property
    def type(self) -> str:
        return "shell"

    def ask_before_work(self, may_begin: Callable[[], bool]) -> None:
        self._commands.may_begin = may_begin

    async def start(self) -> None:
        self._marker = worker_marker()
        await self._commands.start()
        if self._artifacts is not None:
            files = AttemptFiles(self._artifacts, asyncio.get_running_loop())
            self._folders = await asyncio.to_thread(ArtifactFolders, files)

    async def execute(self, context: AttemptContext) -> Outcome:
        if self._folders is None:
            return await self._execute(context, None)
        until = asyncio.get_running_loop().time() + context.timeout.total_seconds()
        try:
            folder = self._folders.make(context.params.get("user"))
        except OSError as error:
            return Failure(error=clean(f"there is no room for its files: {error}", ERROR_LIMIT))
        try:
            outcome = await self._execute(context, folder)
            if isinstance(outcome, Success | Failure):
                return await self._folders.keep(context, folder, outcome, until=until)
            return outcome
        finally:
            await self._folders.remove(folder)

    async def _execute(self, context: AttemptContext, folder: Path | None) -> Outcome:
        revealer = Revealer(self._secrets, context.tenant)
        try:
            request = self._request(context, revealer, folder)
        except InvalidInput as error:
            return Failure(error=clean(str(error), ERROR_LIMIT), is_retryable=False)
        except SecretMissing as error:
            return Failure(error=clean(str(error), ERROR_LIMIT))
        return await self._commands.run(request, context, revealer, partial(_start_error, context.params))

    async def stop(self) -> None:
        await self._commands.stop()
        if self._folders is not None:
            await self._folders.stop()

    def _request(self, context: AttemptContext, revealer: Revealer, folder: Path | None) -> dict[str, Any]:
        params = _TYPE.read_kept(context.params)
        argv = ["/bin/sh", "-c", params["command"]] if params["shell"] else params["command"]
        if self._allow:
            self._check_allowed(argv[0])
        stdin = params.get("stdin")
        if stdin is None and context.payload is not None:
            stdin = context.payload.decode()
        return {
            "argv": argv,
            "env": self._environment(context, fill_variables(params.get("env", {}), revealer), folder),
            "cwd": params.get("cwd") or ("~" if "user" in params else None),
            "user": _check_user(params.get("user")),
            "stdin": stdin,
            "limits": self._limits,
            "timeout": context.timeout.total_seconds(),
            "soft_timeout": context.soft_timeout.total_seconds() if context.soft_timeout else None,
            "grace": self._grace,
        }

    def _environment(
        self, context: AttemptContext, given: Mapping[str, str], folder: Path | None
    ) -> dict[str, str]:
        own = {MARKER: self._marker, **describe(context)}
        if folder is not None:
            own[VARIABLE] = str(folder)
        return {"PATH": self._path, "LANG": "C.UTF-8", **given, **own}

    def _check_allowed(self, program: str) -> None:
        found = shutil.which(program, path=self._path)
        real = str(Path(found).resolve()) if found else None
        for entry in self._allow:
            allowed = str(Path(entry).resolve())
            if real is not None and (
                real == allowed or (entry.endswith("/") and real.startswith(allowed + "/"))
            ):
                return
        raise InvalidInput("target.command", f"{program[:200]!r} is not on this worker's allow-list")


def _check_user(name: str | None) -> str | None:
    if name is not None and os.geteuid() != 0 and not _is_own(name):
        raise InvalidInput(
            "target.user", "only a worker that runs as root can carry out commands as other users"
        )
    return name


def _is_own(name: str) -> bool:
    import pwd

    try:
        return pwd.getpwnam(name).pw_uid == os.geteuid()
    except (KeyError, UnicodeEncodeError):
        return False


def _start_error(params: Mapping[str, Any], stage: str, number: int, text: str) -> str:
    command = params["command"]
    program = "/bin/sh" if isinstance(command, str) else command[0]
    if stage == "exec":
        if number == errno.ENOENT:
            return f"command not found: {program!r}"
        return f"the command {program!r} cannot be executed: {text}"
    if stage == "cwd":
        return f"the folder {text!r} cannot be entered: {os.strerror(number)}"
    if stage == "user":
        return f"the command cannot run as user {params.get('user')!r}: {text}"
    return f"the command could not be started ({stage}): {text}"
