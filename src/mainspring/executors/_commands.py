"""Commands under supervisors: one request, one reply. Shell jobs are such commands, and so are containers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from mainspring.core.causes import Cause
from mainspring.core.ids import format_job_id, format_run_id
from mainspring.core.outcomes import Failure
from mainspring.core.tracing import show_traceparent
from mainspring.egress.secrets import Revealer
from mainspring.errors import MainspringError
from mainspring.executors._leftovers import sweep_leftovers
from mainspring.executors._live_shell import LiveShell
from mainspring.executors._shell_supervisor.processes import hide_from_user
from mainspring.executors._spawner import Spawner
from mainspring.executors._text import ERROR_LIMIT, clean, decode, join_cut, seconds
from mainspring.ports.executor import AttemptContext, NotBegun, Outcome, Success
from mainspring.ports.secrets import SecretMissing

SLACK = 15.0
"""How long after its own deadline a supervisor may stay silent, in seconds."""
_LIVE_AFTER = 0.5
"""Seconds after which what a command writes is passed on while it runs. What ends sooner costs nothing more."""
StartError = Callable[[str, int, str], str]
"""From the stage at which a command could not be started, an error's number and a text, to what the user is told."""


class Commands:
    """Carries out commands, each under a supervisor of its own.

    Args:
        grace: between SIGTERM and SIGKILL, in seconds.
    """

    def __init__(self, *, grace: float) -> None:
        self._grace = grace
        self._spawner = Spawner()
        self.may_begin: Callable[[], bool] | None = None

    async def start(self) -> None:
        """Start the process that makes supervisors, and kill what a dead worker has left behind."""
        hide_from_user()  # commands of tenants are about to run as the same user
        await asyncio.to_thread(sweep_leftovers)
        await self._spawner.start()

    async def stop(self) -> None:
        """End that process."""
        await self._spawner.stop()

    async def run(
        self,
        request: Mapping[str, Any],
        context: AttemptContext,
        revealer: Revealer,
        start_error: StartError,
        *,
        patience: float = 0.0,
    ) -> Outcome:
        """Carry out the command of an attempt, to its end or to its limit. If this is cancelled, the command ends.

        Args:
            patience: what may come on top of the limit, in seconds.
        """
        room = context.room
        live = {
            "live_after": None if room is None else _LIVE_AFTER,
            "live_limit": 0 if room is None else room.limit,
        }
        body = json.dumps({**request, **live}).encode()
        try:
            control = await self._spawner.supervise()
        except (MainspringError, OSError) as error:
            return Failure(error=clean(f"the command could not be started: {error}", ERROR_LIMIT))
        with control:
            if self.may_begin is not None and not self.may_begin():
                return NotBegun()  # the supervisor, which is not told of a command, ends
            slack = self._grace + SLACK + patience
            try:
                async with asyncio.timeout(context.timeout.total_seconds() + slack):
                    reply = await _ask(control, b"%08x" % len(body) + body, LiveShell(context, revealer))
            except asyncio.CancelledError:
                await self._cancel(control, slack)
                raise
            except TimeoutError:
                return Failure(error=f"timed out after {seconds(context.timeout)}", is_timeout=True)
            except OSError:
                reply = b""
        return _outcome(reply, context, revealer, start_error)

    async def _cancel(self, control: socket.socket, slack: float) -> None:
        """Have the command ended: gently, and after the grace (or when we are cancelled again) for good."""
        with contextlib.suppress(OSError, TimeoutError):
            control.send(b"T")
            async with asyncio.timeout(slack):
                await _read_all(control)


def describe(context: AttemptContext) -> dict[str, str]:
    """Return the variables that tell a command which attempt it is."""
    environment = {
        "MAINSPRING_RUN_ID": format_run_id(context.run_id),
        "MAINSPRING_JOB_ID": format_job_id(context.job_id),
        "MAINSPRING_ATTEMPT": str(context.attempt),
        "MAINSPRING_TOKEN": str(context.token),
        "MAINSPRING_IDEMPOTENCY_KEY": context.idempotency_key.replace("\0", ""),
    }
    if context.trace is not None:
        environment["TRACEPARENT"] = show_traceparent(context.trace)
    if context.fire_at is not None:
        environment["MAINSPRING_FIRE_AT"] = context.fire_at.astimezone(UTC).isoformat()
    return environment


def fill_variables(variables: Mapping[str, str], revealer: Revealer) -> dict[str, str]:
    """Return variables with the secrets in their places.

    Raises:
        SecretMissing: there is one that is not to be had, or that no variable can hold.
    """
    filled = {name: revealer.fill(text) for name, text in variables.items()}
    for name, text in filled.items():
        if "\0" in text:
            raise SecretMissing(f"the variable {name} would hold NUL, which is in its secret")
    return filled


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


def _outcome(reply: bytes, context: AttemptContext, revealer: Revealer, start_error: StartError) -> Outcome:
    line, separator, output = reply.partition(b"\n")
    if not separator:
        return Failure(error="the process that watches over the command died")
    header = json.loads(line)
    if header["error"]:
        stage, number, text = header["error"]
        return Failure(error=clean(start_error(stage, int(number), text), ERROR_LIMIT))
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


def _end_error(code: int) -> str:
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    meaning = {126: ": command cannot be executed", 127: ": command not found"}.get(code, "")
    return f"exit status {code}{meaning}"
