"""Reads Celery's signatures: chains, groups and chords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.errors import InvalidInput
from mainspring.importers.canvas import ImportedCall, ImportedCanvas, ImportedPart

CANVAS = {"celery.chain": "chain", "celery.chord": "chord", "celery.group": "group"}
_MANY = {"celery.map": "map", "celery.starmap": "starmap", "celery.chunks": "chunks"}
_OPTIONS = {"queue": "queue", "time_limit": "timeout", "soft_time_limit": "soft_timeout"}
_WAITS = frozenset({"countdown", "eta", "expires"})
_SILENT = frozenset(
    {"chord", "task_id", "group_id", "root_id", "parent_id", "reply_to", "priority", "routing_key"}
)
"""Options that Celery sets itself, or of which a note tells."""
_ERRBACK = (
    "{name} handles an error, and gets a task's id, or its request, exception and traceback; here a handler gets the "
    "error as text. Write it as .si(…) to import it, or add it to jobs.py with on_error(…)"
)


def signature_of(app: Any, entry: Mapping[str, Any]) -> Any:
    """Return the signature that an entry of the beat stands for."""
    from celery.canvas import Signature

    name = str(entry.get("task"))
    given = {
        "task": name,
        "args": tuple(entry.get("args") or ()),
        "kwargs": dict(entry.get("kwargs") or {}),
        "options": {},
        "subtask_type": CANVAS.get(name),
        "immutable": False,
    }
    try:
        return Signature.from_dict(given, app=app)
    except (KeyError, TypeError, AttributeError) as error:
        message = (
            f"{name!r} lacks what it runs ({type(error).__name__}: {error}); add it with add_periodic_task"
        )
        raise InvalidInput("task", message) from None


def read_part(app: Any, signature: Any, field: str = "task") -> ImportedPart:
    """Read a signature.

    Args:
        field: where it stands, for errors.

    Raises:
        InvalidInput: it has what cannot be had.
    """
    from celery.canvas import Signature

    if not isinstance(signature, Signature):  # a dict, as a serializer has left it
        if not isinstance(signature, dict):
            raise InvalidInput(field, f"must be a signature, not a {type(signature).__name__}")
        signature = Signature.from_dict(signature, app=app)
    kind = CANVAS.get(str(signature.task))
    handlers = _handlers(app, signature)
    if kind is None:
        return _read_call(app, signature, handlers)
    _refuse_options(signature)
    if kind == "chord":
        header = ImportedCanvas(is_chain=False, parts=_parts(app, signature.tasks))
        if signature.body is None:
            raise InvalidInput("chord", "has no body")
        return ImportedCanvas(
            is_chain=True, parts=(header, read_part(app, signature.body)), handlers=handlers
        )
    return ImportedCanvas(is_chain=kind == "chain", parts=_parts(app, signature.tasks), handlers=handlers)


def follow(part: ImportedPart, links: Sequence[ImportedPart]) -> ImportedPart:
    """Return a part, and what runs with its result once it has succeeded."""
    if not links:
        return part
    after = links[0] if len(links) == 1 else ImportedCanvas(is_chain=False, parts=tuple(links))
    return ImportedCanvas(is_chain=True, parts=(part, after))


def read_links(app: Any, options: Mapping[str, Any]) -> tuple[list[ImportedPart], tuple[ImportedCall, ...]]:
    """Return what the options of an entry run after it: when it has succeeded, and when it has failed."""
    links = [read_part(app, each, "link") for each in _listed(options.get("link"))]
    return links, tuple(_read_handler(app, each) for each in _listed(options.get("link_error")))


def _parts(app: Any, tasks: Any) -> tuple[ImportedPart, ...]:
    found = tuple(read_part(app, each) for each in tasks)
    if not found:
        raise InvalidInput("tasks", "is empty")
    return found


def _read_call(app: Any, signature: Any, handlers: tuple[ImportedCall, ...]) -> ImportedCall:
    name = str(signature.task)
    if name in _MANY:
        message = f"is a {_MANY[name]}: write a step for each item with App.workflow(…).map(…), or enqueue_many([…])"
        raise InvalidInput("task", message)
    if name not in app.tasks or name.startswith("celery."):
        raise InvalidInput("task", f"{name!r} is no task of this app; import its module, or mend the name")
    _refuse_options(signature)
    given = {
        ours: signature.options[theirs] for theirs, ours in _OPTIONS.items() if theirs in signature.options
    }
    return ImportedCall(
        job=name,
        args=tuple(signature.args or ()),
        kwargs=dict(signature.kwargs or {}),
        is_immutable=bool(signature.immutable),
        options=given,
        handlers=handlers,
    )


def _refuse_options(signature: Any) -> None:
    options = signature.options
    if options.get("link"):
        raise InvalidInput("link", "runs one task after another: write chain(a, b) instead")
    if waits := sorted(_WAITS & options.keys()):
        raise InvalidInput(
            waits[0], "of one call in a chain or group cannot be had; the whole can wait: options(delay=…)"
        )
    known = {*_OPTIONS, *_SILENT, "link_error", "link"}
    if more := sorted(name for name in options.keys() - known if options[name] is not None):
        raise InvalidInput(more[0], "is no option of a step")


def _handlers(app: Any, signature: Any) -> tuple[ImportedCall, ...]:
    return tuple(_read_handler(app, each) for each in _listed(signature.options.get("link_error")))


def _read_handler(app: Any, given: Any) -> ImportedCall:
    handler = read_part(app, given, "link_error")
    if not isinstance(handler, ImportedCall):
        raise InvalidInput("link_error", "is a chain or group; let it be one task")
    if not handler.is_immutable:
        raise InvalidInput("link_error", _ERRBACK.format(name=handler.job))
    return handler


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]
