"""Executor of commands."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

from mainspring.core.causes import Cause
from mainspring.core.ids import format_job_id, format_run_id
from mainspring.core.outcomes import Failure
from mainspring.core.resource_limits import RESOURCE_LIMITS
from mainspring.core.targets.shell import ShellType
from mainspring.core.tracing import show_traceparent
from mainspring.egress.secrets import NoSecrets, Revealer
from mainspring.errors import InvalidInput, MainspringError
from mainspring.executors._files import AttemptFiles
from mainspring.executors._leftovers import MARKER, sweep_leftovers, worker_marker
from mainspring.executors._live_shell import LiveShell
from mainspring.executors._shell_files import VARIABLE, ArtifactFolders
from mainspring.executors._shell_supervisor.processes import hide_from_user
from mainspring.executors._spawner import Spawner
from mainspring.executors._text import ERROR_LIMIT, clean, decode, join_cut, seconds
from mainspring.executors.context import ExecutorContext
from mainspring.ports.artifacts import ArtifactGateway
from mainspring.ports.executor import AttemptContext, NotBegun, Outcome, Success
from mainspring.ports.secrets import SecretMissing, Secrets

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TYPE = ShellType()
_NONE = NoSecrets()
_LIVE_AFTER = 0.5
"""Seconds after which what a command writes is passed on while it runs. What ends sooner costs nothing more."""
_SLACK = 15.0  # how long after its own deadline a supervisor may stay silent


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
        self._spawner = Spawner()
        self._marker = ""
        self._may_begin: Callable[[], bool] | None = None

    @property
    def type(self) -> str:
        return "shell"

    def ask_before_work(self, may_begin: Callable[[], bool]) -> None:
        self._may_begin = may_begin

    async def start(self) -> None:
        hide_from_user()  # commands of tenants are about to run as the same user
        self._marker = worker_marker()
        await asyncio.to_thread(sweep_leftovers)
        await self._spawner.start()
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
        try:
            control = await self._spawner.supervise()
        except (MainspringError, OSError) as error:
            return Failure(error=clean(f"the command could not be started: {error}", ERROR_LIMIT))
        with control:
            if self._may_begin is not None and not self._may_begin():
                return NotBegun()  # the supervisor, which is not told of a command, ends
            try:
                async with asyncio.timeout(context.timeout.total_seconds() + self._grace + _SLACK):
                    reply = await _ask(control, request, LiveShell(context, revealer))
            except asyncio.CancelledError:
                await self._cancel(control)
                raise
            except TimeoutError:
                return Failure(error=f"timed out after {seconds(context.timeout)}", is_timeout=True)
            except OSError:
                reply = b""
        return _outcome(reply, context, revealer)

    async def stop(self) -> None:
        await self._spawner.stop()
        if self._folders is not None:
            await self._folders.stop()

    async def _cancel(self, control: socket.socket) -> None:
        """Have the command ended: gently, and after the grace (or when we are cancelled again) for good."""
        with contextlib.suppress(OSError, TimeoutError):
            control.send(b"T")
            async with asyncio.timeout(self._grace + _SLACK):
                await _read_all(control)

    def _request(self, context: AttemptContext, revealer: Revealer, folder: Path | None) -> bytes:
        params = _TYPE.read_kept(context.params)
        argv = ["/bin/sh", "-c", params["command"]] if params["shell"] else params["command"]
        if self._allow:
            self._check_allowed(argv[0])
        stdin = params.get("stdin")
        if stdin is None and context.payload is not None:
            stdin = context.payload.decode()
        request = {
            "argv": argv,
            "env": self._environment(context, _fill(params.get("env", {}), revealer), folder),
            "cwd": params.get("cwd") or ("~" if "user" in params else None),
            "user": _check_user(params.get("user")),
            "stdin": stdin,
            "limits": self._limits,
            "timeout": context.timeout.total_seconds(),
            "soft_timeout": context.soft_timeout.total_seconds() if context.soft_timeout else None,
            "grace": self._grace,
            "live_after": None if context.room is None else _LIVE_AFTER,
            "live_limit": 0 if context.room is None else context.room.limit,
        }
        body = json.dumps(request).encode()
        return b"%08x" % len(body) + body

    def _environment(
        self, context: AttemptContext, given: Mapping[str, str], folder: Path | None
    ) -> dict[str, str]:
        environment = {
            "PATH": self._path,
            "LANG": "C.UTF-8",
            **given,
            MARKER: self._marker,
            "MAINSPRING_RUN_ID": format_run_id(context.run_id),
            "MAINSPRING_JOB_ID": format_job_id(context.job_id),
            "MAINSPRING_ATTEMPT": str(context.attempt),
            "MAINSPRING_TOKEN": str(context.token),
            "MAINSPRING_IDEMPOTENCY_KEY": context.idempotency_key.replace("\0", ""),
        }
        if folder is not None:
            environment[VARIABLE] = str(folder)
        if context.trace is not None:
            environment["TRACEPARENT"] = show_traceparent(context.trace)
        if context.fire_at is not None:
            environment["MAINSPRING_FIRE_AT"] = context.fire_at.astimezone(UTC).isoformat()
        return environment

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


def _fill(variables: Mapping[str, str], revealer: Revealer) -> dict[str, str]:
    filled = {name: revealer.fill(text) for name, text in variables.items()}
    for name, text in filled.items():
        if "\0" in text:
            raise SecretMissing(f"the variable {name} would hold NUL, which is in its secret")
    return filled


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


async def _ask(control: socket.socket, request: bytes, live: LiveShell) -> bytes:
    """Send the request, and return the reply. What comes before it is what the command writes meanwhile."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(control, request)
    data = bytearray()
    while chunk := await loop.sock_recv(control, 1 << 17):
        data += chunk
        live.read_frames(data)
    live.end()
    return bytes(data[1:]) if data[:1] == b"R" else b""


async def _read_all(control: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    data = bytearray()
    while chunk := await loop.sock_recv(control, 1 << 17):
        data += chunk
    return bytes(data)


def _outcome(reply: bytes, context: AttemptContext, revealer: Revealer) -> Outcome:
    line, separator, output = reply.partition(b"\n")
    if not separator:
        return Failure(error="the process that watches over the command died")
    header = json.loads(line)
    if header["error"]:
        stage, number, text = header["error"]
        return Failure(error=clean(_start_error(stage, int(number), text, context.params), ERROR_LIMIT))
    kept = _hide(output, header["head"], header["dropped"], revealer) or None
    code = header["code"]
    error = _end_error(code)
    if header["reason"] == "exited" and code == 0:
        return Success(result=b'{"exit_code":0}', output=kept)
    is_timeout = header["reason"] in {"timeout", "soft_timeout"}
    if is_timeout:
        limit = context.soft_timeout if header["reason"] == "soft_timeout" else context.timeout
        error = f"timed out after {seconds(limit or context.timeout)} ({error})"
    if not header["is_clean"]:
        error += "; not all of its processes could be killed"
    result = b'{"exit_code":%d}' % code if code >= 0 else None
    # How a command ends after its time limit is not its own doing.
    cause = None if is_timeout else Cause(exit_code=code)
    return Failure(error=error, output=kept, result=result, is_timeout=is_timeout, cause=cause)


def _hide(output: bytes, head: int, dropped: int, revealer: Revealer) -> str:
    """Return output without secrets, also where its middle was dropped.

    Args:
        head: how many bytes are kept of the beginning; the others are of the end.
    """
    if not dropped:
        return revealer.hide(decode(output))
    start = revealer.hide(decode(output[:head]), is_cut_after=True)
    end = revealer.hide(decode(output[head:]), is_cut_before=True)
    return join_cut(start, end, dropped)


def _start_error(stage: str, number: int, text: str, params: Mapping[str, Any]) -> str:
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


def _end_error(code: int) -> str:
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    meaning = {126: ": command cannot be executed", 127: ": command not found"}.get(code, "")
    return f"exit status {code}{meaning}"
