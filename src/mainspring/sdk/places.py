"""Where in the user's code a definition stands, for the errors about it."""

from __future__ import annotations

from types import FrameType
from typing import TypeVar

E = TypeVar("E", bound=Exception)


def add_place(error: E, job_name: str, frame: FrameType) -> E:
    """Note on an error which job it is about, and where that is defined.

    Args:
        frame: of the code that applies `@app.job`.
    """
    name = f" of the job {job_name!r}" if job_name else ""
    error.add_note(f"in @app.job(…){name}: {frame.f_code.co_filename}, line {frame.f_lineno}")
    return error
