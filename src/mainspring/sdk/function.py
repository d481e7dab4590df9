"""What `@app.job` returns: a function that you can call as before, and submit."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, cast

from mainspring.core.definition.keys import refuse_text_for_path
from mainspring.core.fields import kind
from mainspring.core.model import Priority
from mainspring.core.triggers import TRIGGERS
from mainspring.core.triggers.on_event import OnEventType
from mainspring.core.triggers.reading import HEADS
from mainspring.errors import Conflict, InvalidInput
from mainspring.payloads.signature import FunctionTypes, types_of
from mainspring.sdk.direct import call_directly
from mainspring.sdk.keyed import keyed_arguments, keys_of
from mainspring.sdk.references import ValueReference
from mainspring.sdk.submit_options import SubmitOptions, read_submit_options

if TYPE_CHECKING:
    from mainspring.sdk.app import App
    from mainspring.sdk.runs import RunHandle
    from mainspring.sdk.signatures import Signature
    from mainspring.sdk.transactions import DatabaseConnection

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_NAMELESS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_MANY = (
    ": f.enqueue_many([…]) submits many runs, and App.workflow(…).map(…) runs a step for each item of a list"
)
_OTHER_NAMES = {
    "apply_async": ": f.enqueue(…) or enqueue_sync(…) submits a run, after f.options(…) with options",
    "apply": ": f(…) calls it here",
    **dict.fromkeys(("signature", "subtask"), ": f.s(…) makes one, or f.si(…)"),
    **dict.fromkeys(("map", "starmap", "chunks"), _MANY),
    "retry": ": raise RetryRun(…) in the function",
}
"""What to use for the names that Celery has. Only a refusal looks them up."""
NO_PAYLOAD = object()
"""Stands for a submission without arguments, which uses the job's own payload."""


def check_payloads(payloads: object) -> None:
    """Raise `InvalidInput` unless there is one payload for each run: the keys of a mapping would be taken for them."""
    if isinstance(payloads, str | bytes | Mapping) or not isinstance(payloads, Iterable):
        raise InvalidInput(
            "payloads",
            f"must be a list, one payload for each run, not {kind(payloads)}; for one run, [payload]",
        )


class Function(Generic[P, R, T]):
    """A job's function. Call it to call the function; use `enqueue` to submit a run of the job.

    `P` are its arguments, `R` is what a call returns, and `T` what a run has for its result: of an async function, what
    awaiting the call gives.

    Attributes:
        app: the app that it is a job of.
        name: the job's name; workers register the function under it, too.
        definition: the body for the upsert when a process starts.
        types: the annotations, by which arguments are written and results read; None if it has none.

    Raises:
        InvalidInput: a key of the job is the name of an argument, without the `$.` of a path, or what its fires pass
            does not fit the function.
    """

    def __init__(self, app: App, name: str, call: Callable[P, R], definition: Mapping[str, Any]) -> None:
        update_wrapper(self, call)
        self.name = name
        self.definition: dict[str, Any] = dict(definition)
        self.app: App = app
        self._call = call
        self._signature = inspect.signature(call)
        self.types: FunctionTypes | None = types_of(call, self._signature)
        sorts = {parameter.kind for parameter in self._signature.parameters.values()}
        for field, key in keys_of(definition):
            refuse_text_for_path(field, key, self._signature.parameters)
        self._keyed = keyed_arguments(definition) if sorts.isdisjoint(_NAMELESS) else None
        self._check_own_payload()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.definition.get("batch") is not None:  # each of its calls brings its own attempt
            return self._call(*args, **kwargs)
        return cast("R", call_directly(self.name, self.app.tenant, self._call, args, kwargs))

    def __repr__(self) -> str:
        return f"<job {self.name!r}: {self._call.__qualname__}>"

    if not TYPE_CHECKING:  # type checkers are to find names that there are not

        def __getattr__(self, name: str) -> NoReturn:
            own = vars(self).get("name")  # a copy that is being made has none yet
            raise AttributeError(f"job {own!r} has no {name!r}{_OTHER_NAMES.get(name, '')}")

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """Return a call for a `chain`, `group` or `chord`; what runs before it gives it its first argument."""
        from mainspring.sdk.signatures import Signature  # costs a start, and few put calls together

        return Signature(self, args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """Return the same, but what runs before it gives it nothing."""
        from mainspring.sdk.signatures import Signature

        return Signature(self, args, kwargs, is_immutable=True)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> RunHandle[T]:
        """Submit a run with these arguments; return when it is durably stored.

        Raises:
            InvalidInput: the arguments do not fit the function or are not JSON, or lack a part that the job's key
                needs.
            Conflict: the job's `unique` rejects a second run with the same key.
            NotFound: the server has no job of this name; did you start it with this app?
            Unreachable: the server did not answer.
        """
        return await self.options().enqueue(*args, **kwargs)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> RunHandle[T]:
        """Like `enqueue`, for code without an event loop."""
        return self.options().enqueue_sync(*args, **kwargs)

    async def enqueue_many(self, calls: Iterable[Mapping[str, Any] | Sequence[Any]]) -> list[RunHandle[T]]:
        """Submit many runs in few requests.

        Args:
            calls: the arguments of each: a mapping of keyword arguments, or a list or tuple of positional ones.
        """
        return await self.options().enqueue_many(calls)

    def enqueue_many_sync(self, calls: Iterable[Mapping[str, Any] | Sequence[Any]]) -> list[RunHandle[T]]:
        """Like `enqueue_many`, for code without an event loop."""
        return self.options().enqueue_many_sync(calls)

    def options(
        self,
        *,
        run_at: datetime | float | str | None = None,
        delay: timedelta | float | str | None = None,
        priority: Priority | str | None = None,
        idempotency_key: str | None = None,
        connection: DatabaseConnection | None = None,
    ) -> Submitter[P, T]:
        """Return an object whose `enqueue` submits with these options.

        Args:
            run_at: when to start at the earliest: an aware datetime, seconds since 1970, or text: ISO 8601 with an
                offset, `2026-12-01 09:00 Europe/Berlin`, or `in 10m`.
            delay: how long from now, instead.
            priority: a tier or a class.
            idempotency_key: repeating a submission with it makes no second run.
            connection: a connection to the servers' PostgreSQL with an open transaction: of asyncpg or psycopg 3, or a
                connection or session of SQLAlchemy on one of these. The run exists once you commit, and never if you
                roll back. No server is asked.

        Raises:
            InvalidInput: an option is wrong.
        """
        options = read_submit_options(
            run_at=run_at,
            delay=delay,
            priority=priority,
            idempotency_key=idempotency_key,
            connection=connection,
        )
        return Submitter(self.app, self, options)

    def delay(self, wait: timedelta | str) -> Submitter[P, T]:
        """Return an object whose `enqueue` submits runs that start after this time: `f.delay("5m").enqueue(x=1)`.

        It counts from the store's now. Seconds as a number are refused, so that `f.delay(7)` is not taken for a
        submission, as it is elsewhere.

        Raises:
            InvalidInput: it is no duration.
        """
        if not isinstance(wait, timedelta | str):
            message = (
                f"must be a timedelta or text like '5m', not {kind(wait)}; f.enqueue(…) submits arguments"
            )
            raise InvalidInput("delay", message)
        return self.options(delay=wait)

    def at(self, when: datetime | str) -> Submitter[P, T]:
        """Return an object whose `enqueue` submits runs that start at this instant: `f.at(noon).enqueue(x=1)`.

        Args:
            when: as `run_at` of `options`.

        Raises:
            InvalidInput: it is no instant.
        """
        return self.options(run_at=when)

    def payload(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Return these arguments as a payload: an object by names, or a list.

        The payload of a batched job is one value, or an object of what is given by name.

        If a key of the job is an argument by its name, or the whole payload, all go by names. So a key does not depend
        on how the function was called. The arguments that keys name go with their defaults.

        Raises:
            InvalidInput: the arguments do not fit the function or its annotations.
        """
        if not args and not kwargs and "payload" in self.definition:
            return NO_PAYLOAD
        if self.definition.get("batch") is not None:
            return self._own_payload(args, kwargs)
        bound = self._bind(args, kwargs)
        if self.types is not None:
            args, kwargs = self.types.encode(args, kwargs)
        is_keyed = self._keyed is not None and (args or kwargs or "payload" not in self.definition)
        if not is_keyed and not args:
            return dict(kwargs) if kwargs else NO_PAYLOAD
        if not is_keyed and not kwargs:
            return list(args)
        if self.types is not None:
            bound = self._bind(args, kwargs)
        if is_keyed:
            self._add_defaults(bound.arguments, self._keyed or ())
        by_name: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            sort = self._signature.parameters[name].kind
            if sort is inspect.Parameter.VAR_KEYWORD:
                by_name |= value
            elif sort in _NAMELESS:
                message = (
                    f"{name!r} of {self.name!r} has no name in a call; give either positions or names only"
                )
                raise InvalidInput("payload", message)
            else:
                by_name[name] = value
        return by_name or NO_PAYLOAD

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | list[Any]:
        """Return arguments of which some are references: by their names, or as a list if some have no name.

        Raises:
            InvalidInput: the arguments do not fit the function or its annotations.
        """
        bound = self._bind(args, kwargs)
        if any(self._signature.parameters[name].kind in _NAMELESS for name in bound.arguments):
            if kwargs:
                message = f"of {self.name!r} go either all by position or all by name, as some have no name"
                raise InvalidInput("payload", message)
            return [self._encode_at(place, value) for place, value in enumerate(args)]
        self._add_defaults(bound.arguments, self._keyed or ())
        by_name: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            is_rest = self._signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            by_name |= value if is_rest else {name: value}
        return {name: self._encode_named(name, value) for name, value in by_name.items()}

    def _encode_at(self, place: int, value: object) -> object:
        if self.types is None or isinstance(value, ValueReference):
            return value
        return self.types.encode_at(place, value)

    def _encode_named(self, name: str, value: object) -> object:
        if self.types is None or isinstance(value, ValueReference):
            return value
        return self.types.encode_one(name, value)

    def _check_own_payload(self) -> None:
        """Refuse what each fire would pass, if the function does not take it. Its types are read when it is called."""
        if self._is_for_events():
            self._check_event()
            return
        own = self.definition.get("payload")
        fires = any(self.definition.get(head) is not None for head in (*HEADS, *TRIGGERS.heads))
        if self.definition.get("batch") is not None or (own is None and not fires):
            return
        args, kwargs = (
            ((), own) if isinstance(own, Mapping) else (own if isinstance(own, list) else [own], {})
        )
        try:
            self._signature.bind(*([] if own is None else args), **kwargs)
        except TypeError as error:
            what = "is missing, and each fire passes none" if own is None else f"does not fit {self.name!r}"
            message = f"{what}: {error}; give payload={{…}} with its arguments, or give them defaults"
            raise InvalidInput("payload", message) from None

    def _is_for_events(self) -> bool:
        trigger = self.definition.get("trigger")
        is_full = isinstance(trigger, Mapping) and trigger.get("type") == OnEventType.name
        return is_full or any(self.definition.get(form) is not None for form in OnEventType.short)

    def _check_event(self) -> None:
        """Refuse a function that takes no event, though events start its runs."""
        if self.definition.get("batch") is not None:
            return
        try:
            self._signature.bind(event={})
        except TypeError as error:
            message = f"an event starts {self.name!r}, and is its argument `event`: {error}; take `event: dict` alone"
            raise InvalidInput("payload", message) from None

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        try:
            return self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidInput("payload", f"does not fit {self.name!r}: {error}") from None

    def _own_payload(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Return the payload of one run of a batch. The function gets many of them, so it says nothing about each."""
        if len(args) + bool(kwargs) > 1:
            message = f"of a run of {self.name!r} is either one value or named values, because its function gets lists"
            raise InvalidInput("payload", message)
        given = args[0] if args else dict(kwargs) or None
        codec = None if self.types is None else self.types.item
        if codec is not None:
            return codec.encode(given, "payload")
        return given if args or kwargs else NO_PAYLOAD

    def _add_defaults(self, arguments: dict[str, Any], names: Iterable[str]) -> None:
        """Add the arguments of these names that were not given, if they have defaults."""
        for name in names:
            parameter = self._signature.parameters.get(name)
            if parameter is not None and parameter.default is not inspect.Parameter.empty:
                default = parameter.default
                value = default if self.types is None else self.types.encode_one(name, default)
                arguments.setdefault(name, value)


class Submitter(Generic[P, T]):
    """A function's `enqueue` with options."""

    def __init__(self, app: App, function: Function[P, Any, T], options: SubmitOptions) -> None:
        self._app = app
        self._function = function
        self._options = options

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> RunHandle[T]:
        """Submit a run with these arguments; return when it is durably stored."""
        payload = self._function.payload(args, kwargs)
        (handle,) = await self._app.submit(self._function.name, [payload], self._options)
        return _accepted(handle)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> RunHandle[T]:
        """Like `enqueue`, for code without an event loop."""
        payload = self._function.payload(args, kwargs)
        (handle,) = self._app.submit_sync(self._function.name, [payload], self._options)
        return _accepted(handle)

    async def enqueue_many(self, calls: Iterable[Mapping[str, Any] | Sequence[Any]]) -> list[RunHandle[T]]:
        """Submit many runs in few requests."""
        return await self._app.submit(self._function.name, self._payloads(calls), self._options)

    def enqueue_many_sync(self, calls: Iterable[Mapping[str, Any] | Sequence[Any]]) -> list[RunHandle[T]]:
        """Like `enqueue_many`, for code without an event loop."""
        return self._app.submit_sync(self._function.name, self._payloads(calls), self._options)

    def _payloads(self, calls: Iterable[object]) -> list[object]:
        if self._options.idempotency_key is not None:
            raise InvalidInput("idempotency_key", "names one run; submit runs with a key one by one")
        if isinstance(calls, str | bytes | Mapping) or not isinstance(calls, Iterable):
            message = (
                f"must be a list, the arguments of one run each, not {kind(calls)}; for one run, enqueue"
            )
            raise InvalidInput("calls", message)
        payloads = []
        for index, call in enumerate(calls):
            if not isinstance(call, Mapping | Sequence) or isinstance(call, str | bytes):
                message = f"must be a mapping or a list of arguments, not {type(call).__name__}"
                raise InvalidInput(f"calls[{index}]", message)
            args, kwargs = ((), call) if isinstance(call, Mapping) else (call, {})
            try:
                payloads.append(self._function.payload(args, kwargs))
            except InvalidInput as error:
                raise InvalidInput(f"calls[{index}].{error.field}", error.message) from None
        return payloads


def _accepted(handle: RunHandle[T]) -> RunHandle[T]:
    if handle.status == "rejected":
        raise Conflict("unique", f"{handle.id} has the same key, and the job lets no second run in")
    return handle
