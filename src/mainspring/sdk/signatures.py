"""`Signature`, `chain`, `group` and `chord`: calls of jobs that are put together before they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, Unpack

from mainspring.core.fields import kind
from mainspring.core.model import Delivery, Priority
from mainspring.errors import InvalidInput
from mainspring.sdk.definitions import Causes, plain_options
from mainspring.sdk.once import Duration
from mainspring.sdk.submit_options import SubmitOptions, read_submit_options

if TYPE_CHECKING:
    from mainspring.sdk.function import Function
    from mainspring.sdk.runs import RunHandle
    from mainspring.sdk.transactions import DatabaseConnection

_RUN = "chain(…).enqueue(…) or enqueue_sync(…) submits it"
_OTHER_NAMES = {
    **dict.fromkeys(("delay", "apply_async", "apply", "run"), _RUN),
    **dict.fromkeys(("link_error", "add_error_link"), "on_error(…) returns the same with a handler"),
    "link": "chain(a, b) runs b after a",
    "clone": "f.s(…) makes another one",
    **dict.fromkeys(
        ("map", "starmap", "chunks"),
        "App.workflow(…).map(…) runs a step for each item of a list, and f.enqueue_many([…]) submits many runs",
    ),
}
_OTHER_OPTIONS = {
    **dict.fromkeys(
        ("countdown", "eta", "delay", "run_at"), "the whole can wait: chain(…).options(delay=…), or run_at=…"
    ),
    "expires": "give the job expires_after",
    "immutable": "f.si(…) takes nothing from the step before",
    "link": "chain(a, b) runs b after a",
    "link_error": "use on_error(…)",
    "task_id": "chain(…).options(idempotency_key=…) submits it once",
}


class SignatureOptions(TypedDict, total=False):
    """The arguments of `Signature.set`, written out for editors and type checkers."""

    priority: Priority | str | None
    queue: str | None
    labels: Iterable[str]
    retry: Mapping[str, Any]
    retries: int
    retry_on: Causes
    no_retry_on: Causes
    delivery: Delivery | str
    timeout: Duration
    soft_timeout: Duration | None


class Signature:
    """A call of a job, to be put into a `chain`, `group` or `chord`. `f.s(…)` and `f.si(…)` make it.

    It does not change: `set` and `on_error` return another one.

    Attributes:
        function: what is called.
        args, kwargs: its arguments. If something runs before it, what that returns is put in front of them.
        is_immutable: nothing is put in front of its arguments.
        given: options of this call alone, as fields of a step.
        handlers: what runs if it fails.
    """

    __slots__ = ("args", "function", "given", "handlers", "is_immutable", "kwargs")

    def __init__(
        self,
        function: Function[..., Any, Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        is_immutable: bool = False,
        given: Mapping[str, Any] | None = None,
        handlers: tuple[Signature, ...] = (),
    ) -> None:
        self.function: Function[..., Any, Any] = function
        self.args: tuple[Any, ...] = args
        self.kwargs: Mapping[str, Any] = kwargs or {}
        self.is_immutable: bool = is_immutable
        self.given: Mapping[str, Any] = given or {}
        self.handlers: tuple[Signature, ...] = handlers

    def __repr__(self) -> str:
        shown = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self.function.name}.{'si' if self.is_immutable else 's'}({', '.join(shown)})"

    def __or__(self, other: Signature | Canvas) -> Canvas:
        """Return a chain of both: `a.s(1) | b.s()`."""
        return chain(self, other)

    def set(self, **options: Unpack[SignatureOptions]) -> Signature:
        """Return the same call with other options than its job has.

        Such a call is no run of the job any more: its step calls the function by itself.

        Raises:
            InvalidInput: an option is wrong, or the job has what only its own runs keep, such as a limit.
        """
        for name in options:
            if name in _OTHER_OPTIONS:
                raise InvalidInput(name, f"is no option of a step; {_OTHER_OPTIONS[name]}")
            if name not in SignatureOptions.__annotations__:
                known = ", ".join(SignatureOptions.__annotations__)
                raise InvalidInput(name, f"is no option of a signature; it has {known}")
        return self._with(given={**self.given, **plain_options(options)})

    def on_error(self, handler: Signature) -> Signature:
        """Return the same call, and a handler that runs if it has failed for good. It gets the error, as text.

        Raises:
            InvalidInput: the handler is no signature.
        """
        return self._with(handlers=(*self.handlers, check_handler(handler)))

    def _with(self, **changes: Any) -> Signature:
        kept = {name: getattr(self, name) for name in ("is_immutable", "given", "handlers")}
        return Signature(self.function, self.args, self.kwargs, **{**kept, **changes})

    if not TYPE_CHECKING:  # type checkers are to find names that there are not

        def __getattr__(self, name: str) -> NoReturn:
            message = _OTHER_NAMES.get(name)
            if message == _RUN:
                message = f"{self.function.name}.enqueue(…) or enqueue_sync(…) submits a run"
            raise_for_name("a signature", name, message)


class Canvas:
    """Signatures that run one after another, or at the same time. `chain`, `group` and `chord` make it.

    It does not change: `on_error` returns another one.

    Attributes:
        is_chain: they run one after another.
        parts: what runs.
        handlers: what runs if any of them fails.
    """

    __slots__ = ("handlers", "is_chain", "parts")

    def __init__(
        self,
        parts: tuple[Signature | Canvas, ...],
        *,
        is_chain: bool,
        handlers: tuple[Signature, ...] = (),
    ) -> None:
        self.parts: tuple[Signature | Canvas, ...] = parts
        self.is_chain: bool = is_chain
        self.handlers: tuple[Signature, ...] = handlers

    def __repr__(self) -> str:
        return f"{'chain' if self.is_chain else 'group'}({', '.join(map(repr, self.parts))})"

    def __or__(self, other: Signature | Canvas) -> Canvas:
        """Return a chain of both: `group(a.s(1), b.s(2)) | c.s()`."""
        return chain(self, other)

    def on_error(self, handler: Signature) -> Canvas:
        """Return the same, and a handler that runs if a part has failed for good. It gets the error, as text.

        Raises:
            InvalidInput: the handler is no signature.
        """
        handlers = (*self.handlers, check_handler(handler))
        return Canvas(self.parts, is_chain=self.is_chain, handlers=handlers)

    def options(
        self,
        *,
        run_at: datetime | float | str | None = None,
        delay: timedelta | float | str | None = None,
        idempotency_key: str | None = None,
        connection: DatabaseConnection | None = None,
    ) -> CanvasSubmitter:
        """Return an object whose `enqueue` submits with these options, which are those of `Function.options`.

        Raises:
            InvalidInput: an option is wrong.
        """
        return CanvasSubmitter(
            self,
            read_submit_options(
                run_at=run_at, delay=delay, idempotency_key=idempotency_key, connection=connection
            ),
        )

    async def enqueue(self, *args: Any) -> RunHandle[Any]:
        """Submit it as a run of a workflow; return when it is durably stored.

        The workflow is a job that is named after its calls, and is made if there is none of this shape yet. The
        arguments of the calls are the payload of the run.

        Args:
            args: what the first calls get in front of their own arguments.

        Raises:
            InvalidInput: arguments do not fit a function or are not JSON, or its parts do not go together.
            NeedsRight: the token may submit runs and make no jobs, and there is no workflow of this shape yet.
            Unreachable: the server did not answer.
        """
        return await self.options().enqueue(*args)

    def enqueue_sync(self, *args: Any) -> RunHandle[Any]:
        """Like `enqueue`, for code without an event loop."""
        return self.options().enqueue_sync(*args)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise_for_name("a chain or group", name, _OTHER_NAMES.get(name))

        def __call__(self, *args: object, **kwargs: object) -> NoReturn:
            raise TypeError(f"{self!r} is not called; {_RUN}")


class CanvasSubmitter:
    """A canvas's `enqueue` with options."""

    def __init__(self, canvas: Canvas, options: SubmitOptions) -> None:
        self._canvas = canvas
        self._options = options

    async def enqueue(self, *args: Any) -> RunHandle[Any]:
        """Submit it as a run of a workflow; return when it is durably stored."""
        from mainspring.sdk.canvas_runs import submit  # costs a start, and few put calls together

        return await submit(self._canvas, args, self._options)

    def enqueue_sync(self, *args: Any) -> RunHandle[Any]:
        """Like `enqueue`, for code without an event loop."""
        from mainspring.sdk.canvas_runs import submit_sync

        return submit_sync(self._canvas, args, self._options)


def chain(*parts: Signature | Canvas | Iterable[Signature | Canvas]) -> Canvas:
    """Return calls that run one after another. Each gets what the one before has returned as its first argument.

    What follows a group gets a list of what all of its calls have returned.

    Raises:
        InvalidInput: a part is no signature, or there is none.
    """
    return Canvas(_read_parts(parts, "chain"), is_chain=True)


def group(*parts: Signature | Canvas | Iterable[Signature | Canvas]) -> Canvas:
    """Return calls that run at the same time. It leaves a list of what they return, in the order given.

    Raises:
        InvalidInput: a part is no signature, or there is none.
    """
    return Canvas(_read_parts(parts, "group"), is_chain=False)


def chord(header: Iterable[Signature | Canvas] | Canvas, body: Signature | Canvas) -> Canvas:
    """Return calls that run at the same time, and one that gets a list of what they have returned.

    It is the same as `chain(group(header), body)`.

    Raises:
        InvalidInput: a part is no signature, or there is none.
    """
    whole = header if isinstance(header, Canvas) and not header.is_chain else group(header)
    return chain(whole, body)


def check_handler(handler: object) -> Signature:
    """Return a handler of errors.

    Raises:
        InvalidInput: it is no signature.
    """
    if not isinstance(handler, Signature):
        raise InvalidInput("handler", f"must be a signature, like f.s() or f.si(…), not {kind(handler)}")
    return handler


def raise_for_name(owner: str, name: str, message: str | None) -> NoReturn:
    """Tell that there is no such attribute, and what to use if another tool has it."""
    raise AttributeError(f"{owner} has no {name!r}" + (f": {message}" if message else ""))


def _read_parts(parts: tuple[Any, ...], owner: str) -> tuple[Signature | Canvas, ...]:
    given = parts
    if len(parts) == 1 and not isinstance(parts[0], Signature | Canvas):
        (only,) = parts
        if isinstance(only, str | bytes | Mapping) or not isinstance(only, Iterable):
            raise InvalidInput(owner, f"takes signatures, like f.s(…), not {kind(only)}")
        given = tuple(only)
    if not given:
        raise InvalidInput(owner, "is empty; give it one signature at least, like f.s(…)")
    for place, part in enumerate(given):
        if not isinstance(part, Signature | Canvas):
            raise InvalidInput(f"{owner}[{place}]", f"must be a signature, like f.s(…), not {kind(part)}")
    return given
