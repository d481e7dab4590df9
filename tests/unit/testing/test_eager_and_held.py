"""Whether runs are carried out at the call or later, they end in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring import App, FailRun, RetryRun, SnoozeRun, current_attempt
from mainspring.testing import AppTester


@dataclass(frozen=True)
class Deed:
    """One submission: what each attempt does until it succeeds, what it submits, and how it is called."""

    number: int
    attempts: tuple[str, ...]
    delay: int | None
    child: Deed | None
    is_async: bool


@st.composite
def deeds(draw: st.DrawFn, depth: int = 0) -> Deed:
    return Deed(
        number=draw(st.integers(0, 99)),
        attempts=tuple(
            draw(st.lists(st.sampled_from(["raise", "retry", "snooze", "give up", "submit"]), max_size=4))
        ),
        delay=draw(st.none() | st.integers(1, 100)),
        child=draw(st.none() | deeds(depth=depth + 1)) if depth < 2 else None,
        is_async=draw(st.booleans()),
    )


def _encode(deed: Deed) -> dict[str, Any]:
    child = None if deed.child is None else _encode(deed.child)
    return {"number": deed.number, "attempts": list(deed.attempts), "delay": deed.delay, "child": child,
            "is_async": deed.is_async}  # fmt: skip


def make_app() -> App:
    app = App("http://127.0.0.1:1")
    calls: dict[int, int] = {}

    def act(plan: dict[str, Any]) -> dict[str, Any] | None:
        """Do what this call does. Return the child to submit, if any."""
        run = current_attempt().run_id
        place = calls.get(run, 0)
        calls[run] = place + 1
        if place >= len(plan["attempts"]):
            return None
        what = plan["attempts"][place]
        if what == "submit" and plan["child"] is not None:
            child: dict[str, Any] = plan["child"]
            return child
        if what == "raise":
            raise ValueError(place)
        if what == "retry":
            raise RetryRun(30, "again")
        if what == "snooze":
            raise SnoozeRun(7)
        if what == "give up":
            raise FailRun("no use")
        return None

    @app.job(retries=2, retry={"delay": "1s"})
    def sync(**plan: Any) -> int:
        if (child := act(plan)) is not None:
            submit(app, child)
        return int(plan["number"])

    @app.job(retries=1, retry={"delay": "3s"})
    async def later(**plan: Any) -> int:
        if (child := act(plan)) is not None:
            function = app._functions["later" if child["is_async"] else "sync"]
            await function.options(delay=child["delay"]).enqueue(**child)
        return int(plan["number"])

    return app


def submit(app: App, plan: dict[str, Any]) -> None:
    function = app._functions["later" if plan["is_async"] else "sync"]
    function.options(delay=plan["delay"]).enqueue_sync(**plan)


def ends(t: AppTester) -> list[tuple[Any, ...]]:
    return sorted(
        (run.job, str(run.payload), run.state, run.attempt, run.result, str(run.error)) for run in t.runs
    )


@settings(max_examples=15)
@given(program=st.lists(deeds(), min_size=1, max_size=4))
def test_eager_and_held_give_the_same_ends(program: list[Deed]) -> None:
    found = []
    for mode in ("eager", "held"):
        app = make_app()
        with app.testing(mode, raise_errors=False) as t:
            for deed in program:
                submit(app, _encode(deed))
            t.run_all()
            assert {run.state for run in t.runs} <= {"SUCCEEDED", "FAILED"}
            found.append(ends(t))
    assert found[0] == found[1]
