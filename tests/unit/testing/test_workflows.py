"""Workflows of an app under test."""

from __future__ import annotations

import pytest

from mainspring import App, current_attempt


def make_app(done: list[str], failing: str = "") -> App:
    """Return an app with a workflow whose steps note that they ran."""
    app = App(name="shop")

    @app.job()
    def act(**_: object) -> None:
        done.append(str(current_attempt().attempt))

    def note(name: str) -> None:
        done.append(name)
        if name == failing:
            raise ValueError("no")

    app.registry.add("note", note)
    flow = app.workflow("flow")
    first = flow.step("first", "note", payload={"name": "first"}, retries=1)
    second = flow.step("second", "note", after=first, payload={"name": "second"}, labels=["gpu"])
    flow.step("other", act, after=first)
    flow.step("page", "note", after=second, rule="one_failed", payload={"name": "page"})
    return app


@pytest.mark.parametrize("mode", ["eager", "held"])
def test_steps_run_one_after_another(mode: str) -> None:
    done: list[str] = []
    app = make_app(done)
    with app.testing(mode) as t:
        app.submit_sync("flow", [None])
        if mode == "held":
            assert done == []
            t.run_all()
    assert (done[0], sorted(done[1:])) == ("first", ["1", "second"])


def test_what_a_step_fails_with_is_raised_after_its_retries() -> None:
    done: list[str] = []
    app = make_app(done, failing="second")
    with app.testing(), pytest.raises(ValueError, match="no"):
        app.submit_sync("flow", [None])
    assert done.count("second") == 4


def test_each_run_of_a_workflow_starts() -> None:
    done: list[str] = []
    app = make_app(done)
    with app.testing():
        for _ in range(3):
            app.submit_sync("flow", [None])
    assert done.count("first") == 3
