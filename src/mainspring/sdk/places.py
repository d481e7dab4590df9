"""What `@app.job` is applied to: what it cannot be, and where in the user's code that stands."""

from __future__ import annotations

import inspect
from types import FrameType
from typing import TypeVar

from mainspring.errors import InvalidInput

E = TypeVar("E", bound=Exception)
START_WITH_APP = "start the server or a worker with the app that defines it: mainspring up MODULE:APP"


def add_place(error: E, job_name: str, frame: FrameType) -> E:
    """Note on an error which job it is about, and where that is defined.

    Args:
        frame: of the code that applies `@app.job`.
    """
    name = f" of the job {job_name!r}" if job_name else ""
    error.add_note(f"in @app.job(…){name}: {frame.f_code.co_filename}, line {frame.f_lineno}")
    return error


def refuse_callable(call: object, *, is_named: bool, is_isolated: bool = False) -> None:
    """Refuse what is no function of a job.

    Args:
        is_isolated: it is to be called in a process of its own.

    Raises:
        InvalidInput: it is a class, a generator, or a lambda without a name; or another process would not find it.
    """
    if inspect.isclass(call):
        raise InvalidInput(
            "function", f"{call.__name__} is a class; decorate a function, which may use the class"
        )
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        message = f"{call.__name__} has a yield, so that calling it does nothing; return the result instead"
        raise InvalidInput("function", message)
    qualname = getattr(call, "__qualname__", "<locals>")
    if is_isolated and ("<locals>" in qualname or "<lambda>" in qualname):
        message = "another process finds a function by its name; define it at the top of its module"
        raise InvalidInput("isolation", message)
    if not is_named and getattr(call, "__name__", "") == "<lambda>":
        raise InvalidInput("name", "a lambda has none; write app.job('name')(lambda: …), or give a function")
