"""Functions that processes of their own import, some of them hostile."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from mainspring.signals import FailRun, RetryRun, SnoozeRun, current_attempt


def echo(*args: Any, **keywords: Any) -> Any:
    return [args, keywords]


async def async_echo(*args: Any, **keywords: Any) -> Any:
    await asyncio.sleep(0)
    return [args, keywords]


def double(number: int) -> int:
    return 2 * number


def day(when: date) -> str:
    return f"{type(when).__name__} {when.year}"


def describe() -> dict[str, Any]:
    attempt = current_attempt()
    return {
        "run": attempt.run,
        "job": str(attempt.job_id),
        "attempt": attempt.attempt,
        "token": attempt.token,
        "key": attempt.idempotency_key,
        "fire_at": attempt.fire_at,
        "due_at": attempt.due_at,
        "pid": os.getpid(),
    }


def crash(*, after: str = "") -> None:
    if after:
        print(after)
    ctypes.string_at(0)


def crash_at(number: int, worst: int) -> int:
    if number == worst:
        ctypes.string_at(0)
    return number


def leave(code: int) -> None:
    os._exit(code)


def give_signal(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


def spin(path: str) -> None:
    """Say who it is, and hold the interpreter for good."""
    Path(path).write_text(str(os.getpid()))
    print("spinning")
    while True:
        pass


def return_twice(path: str) -> str:
    """Return in a fork, too, and there only when the next call is under way."""
    if os.fork() == 0:
        Path(path).read_text()
        print("printed by a fork")
        return "of a fork"
    return "first"


def let_go(path: str) -> str:
    """Let the fork return, and give it time to."""
    Path(path).write_text("go")
    time.sleep(0.5)
    return "second"


def fork_and_return(path: str) -> str:
    """Leave a child behind that holds every descriptor of this process."""
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    Path(path).write_text(str(pid))
    return "returned"


def fork_and_crash(path: str) -> None:
    fork_and_return(path)
    ctypes.string_at(0)


def talk(lines: int) -> str:
    print("first")
    for number in range(lines):
        print(f"line {number}")
    print("last", file=sys.stderr)
    return "talked"


def fail() -> None:
    print("about to fail")
    raise ValueError("no such thing")


def end_as(how: str) -> None:
    if how == "snooze":
        raise SnoozeRun(60)
    if how == "retry":
        raise RetryRun(90, "later")
    if how == "fail":
        raise FailRun("never")
    if how == "exit":
        raise SystemExit(3)


def no_json() -> object:
    return object()


def wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def inner(*args: Any, **keywords: Any) -> Any:
        raise AssertionError("the function is called without its decorators, as its registry has it")

    return inner


@wrapped
def behind_a_decorator() -> str:
    return "behind"


def handlers() -> list[str]:
    return [str(signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)]


def meddle(data: str) -> str:
    """Write to every connection that this process has, and wait for its end."""
    for place in Path("/proc/self/fd").iterdir():
        try:
            if str(place.readlink()).startswith("socket:"):
                os.write(int(place.name), bytes.fromhex(data))
        except OSError:
            continue
    signal.pause()
    return "not reached"


def print_much(count: int) -> None:
    print("first")
    print("x" * count)
    print("last")
