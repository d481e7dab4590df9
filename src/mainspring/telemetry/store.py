"""Measures the calls of a store: how long each verb takes, and how it ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from inspect import iscoroutinefunction
from typing import Any, cast

import structlog

from mainspring.errors import MainspringError, StoreUnavailable, TookTooLong
from mainspring.ports.logs import LEVEL
from mainspring.ports.store import Store
from mainspring.ports.telemetry import SECONDS, Distribution, Measure

_Call = Callable[..., Awaitable[Any]]
_log = structlog.get_logger(__name__)


class StoreTimes:
    """Counts calls by verb and outcome.

    Outcomes are `ok` (a refusal is an answer, too), `unavailable`, `too_long`, `cancelled` and `failed`. Only one
    thread may count.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._times: dict[tuple[str, str], Distribution] = {}

    def measures(self) -> Iterator[Measure]:
        """Yield the times."""
        for labels, times in self._times.items():
            yield Measure("store_call_seconds", times.read(), labels)

    def watch(self, verb: str, call: _Call) -> _Call:
        """Return the call, measured."""
        succeeded = self._of(verb, "ok")
        clock = self._monotonic

        async def measured(*args: Any, **given: Any) -> Any:
            begun = clock()
            try:
                answer = await call(*args, **given)
            except BaseException as error:
                seconds = clock() - begun
                self._of(verb, _outcome_of(error)).add(seconds)
                if LEVEL.is_debug:
                    _tell(verb, _outcome_of(error), seconds)
                raise
            seconds = clock() - begun
            succeeded.add(seconds)
            if LEVEL.is_debug:
                _tell(verb, "ok", seconds)
            return answer

        return measured

    def _of(self, verb: str, outcome: str) -> Distribution:
        times = self._times.get((verb, outcome))
        if times is None:
            times = self._times[verb, outcome] = Distribution(SECONDS)
        return times


def _tell(verb: str, outcome: str, seconds: float) -> None:
    _log.debug("store_call", verb=verb, outcome=outcome, seconds=round(seconds, 6))


def _outcome_of(error: BaseException) -> str:
    if isinstance(error, TookTooLong):
        return "too_long"
    if isinstance(error, StoreUnavailable):
        return "unavailable"
    if isinstance(error, MainspringError):
        return "ok"
    return "failed" if isinstance(error, Exception) else "cancelled"


class _Timed:
    """Stands for a store. Its verbs are measured from their first use on; all else is the store's own."""

    def __init__(self, store: Store, times: StoreTimes) -> None:
        self._store = store
        self._times = times

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not iscoroutinefunction(found):  # its capabilities, its failovers, its own measures
            return found
        verb = self._times.watch(name, found)
        self.__dict__[name] = verb  # so that it is found without coming here
        return verb


def timed(store: Store, times: StoreTimes) -> Store:
    """Return what stands for a store, and has its calls measured."""
    return cast("Store", _Timed(store, times))
