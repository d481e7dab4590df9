"""The runs of a test, and what a test says about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from mainspring.core.ids import format_run_id
from mainspring.core.model import Run, RunKind
from mainspring.payloads.codec import Codec
from mainspring.registry import RegisteredFunction
from mainspring.sdk.function import Function

_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A run as a test sees it.

    Attributes:
        id: `run_…`.
        job: the job's name.
        kind: `manual` if it was submitted, `scheduled` for a fire of the job's schedule, `backfill`.
        state: `PENDING`, `RUNNING`, `RETRYING`, `SUCCEEDED`, `FAILED`, `CANCELLED` or `SKIPPED`.
        payload: its arguments: an object by names, a list by positions, or one value.
        attempt: the number of the attempt under way, or of the next one; for an ended run, of the last. From 1.
        due_at: when it was due to start.
        ready_at: when it may start, or start again, if it has not ended.
        fire_at: the nominal instant of a scheduled run.
        finished_at: when it ended.
        result: what its function returned.
        error, output: of its newest attempt. What its function printed went where the test's own output goes.
        reason: why it ended, if not by itself.
    """

    id: str
    job: str
    kind: str
    state: str
    payload: Any
    attempt: int
    due_at: datetime
    ready_at: datetime
    fire_at: datetime | None
    finished_at: datetime | None
    result: Any
    error: str | None
    output: str | None
    reason: str | None


def see(run: Run, job: str) -> SeenRun:
    """Return a run as a test sees it."""
    return SeenRun(
        id=format_run_id(run.id),
        job=job,
        kind=run.kind.value,
        state=run.state.value,
        payload=_decode(run.payload),
        attempt=run.attempt,
        due_at=run.due_at,
        ready_at=run.ready_at,
        fire_at=run.fire_at,
        finished_at=run.finished_at,
        result=_decode(run.result),
        error=run.error,
        output=run.output,
        reason=run.reason,
    )


def is_submitted(run: SeenRun) -> bool:
    """Say whether a run was submitted, and not made by a schedule."""
    return run.kind == RunKind.MANUAL.value


class Wanted:
    """Runs of a job with certain arguments.

    Args:
        name: the job's name.
        function: the function, for the names and types of its arguments; None if its job takes batches, or another
            process has it.
        item: writes the payloads of a job that takes batches.
        args: positional arguments; all of them must be as given.
        kwargs: arguments by name; those that are not named do not matter.

    Raises:
        TypeError: the function has no such argument.
        InvalidInput: an argument does not fit its annotation.
    """

    def __init__(
        self,
        name: str,
        function: RegisteredFunction | None,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        item: Codec | None = None,
    ) -> None:
        self.name = name
        self._signature = None if function is None else function.signature
        if self._signature is not None:
            try:
                self._signature.bind_partial(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}: {error}") from None
        self._args, self._kwargs = tuple(args), dict(kwargs)
        if function is not None and function.types is not None:
            args, kwargs = function.types.encode(args, kwargs)
        elif item is not None and args:
            args = [item.encode(args[0], "payload"), *args[1:]]
        self._by_name = _plain(self._bind(args, kwargs))

    def __str__(self) -> str:
        return show_call(self.name, [*self._args], self._kwargs)

    @property
    def is_any(self) -> bool:
        """Whether the arguments do not matter."""
        return not self._by_name

    def fits(self, run: SeenRun) -> bool:
        """Say whether a run is one of them."""
        if run.job != self.name:
            return False
        given = self._of_run(run.payload)
        return all(name in given and given[name] == value for name, value in self._by_name.items())

    def _of_run(self, payload: Any) -> dict[str, Any]:
        if isinstance(payload, dict):
            return self._bind((), payload)
        if payload is None:
            return self._bind((), {})
        return self._bind(payload if isinstance(payload, list) else [payload], {})

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments by name; those that have no name by their position."""
        if self._signature is None:
            return {**{str(place): value for place, value in enumerate(args)}, **kwargs}
        try:
            bound = self._signature.bind_partial(*args, **kwargs)
        except TypeError:  # it does not fit the function, and fails for that
            return {**{str(place): value for place, value in enumerate(args)}, **kwargs}
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            parameter = self._signature.parameters[name]
            if parameter.kind is parameter.VAR_KEYWORD:
                named |= value
            else:
                named[name] = list(value) if parameter.kind is parameter.VAR_POSITIONAL else value
        return named


def name_of(job: Function[..., Any, Any] | str) -> str:
    """Return the name of a job that is given as its function or by its name."""
    if isinstance(job, str):
        return job
    if isinstance(job, Function):
        return job.name
    raise TypeError(f"give a job's function or its name, not {type(job).__name__}")


def describe(wanted: Wanted, times: int | None, found: int, runs: Sequence[SeenRun], now: datetime) -> str:
    """Return what an assertion says that did not hold."""
    counted = "not enqueued" if not found else f"enqueued {_times(found)}"
    if times is not None:
        counted += f", not {_times(times) if times else 'never'}" if times else ", but should not have been"
    lines = [f"{wanted} was {counted}."]
    if not runs:
        return f"{lines[0]} Nothing was enqueued."
    lines.append("Enqueued were:")
    nearest = sorted(runs, key=lambda run: (not wanted.fits(run), run.job != wanted.name))
    shown = nearest[:_MOST_SHOWN]
    lines += [f"  {show_run(run, now)}" for run in shown]
    if len(runs) > len(shown):
        lines.append(f"  … and {len(runs) - len(shown)} more")
    return "\n".join(lines)


def show_run(run: SeenRun, now: datetime) -> str:
    """Return a run in one line."""
    payload = run.payload
    args = (
        payload
        if isinstance(payload, list)
        else []
        if payload is None or isinstance(payload, dict)
        else [payload]
    )
    call = show_call(run.job, args, payload if isinstance(payload, dict) else {})
    state = run.state
    if run.finished_at is None and run.ready_at > now:
        state += f", due {run.ready_at.isoformat(sep=' ', timespec='seconds').removesuffix('+00:00')} UTC"
    if run.error is not None:
        state += f": {run.error.splitlines()[0][:100]}"
    return f"{call}  {state}"


def show_call(name: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> str:
    """Return a call as Python writes it."""
    parts = [_short(value) for value in args] + [f"{key}={_short(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(parts)})"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _decode(text: bytes | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


def _plain(named: dict[str, Any]) -> dict[str, Any]:
    """Return values as they are once they have travelled as JSON."""
    return {name: msgspec.json.decode(msgspec.json.encode(value)) for name, value in named.items()}
