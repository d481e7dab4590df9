"""What the trial with a workflow makes of effects: what is missing, too much, by two runs, or out of order."""

from __future__ import annotations

import pytest

from tests.chaos.etl.jobs import FILES
from tests.chaos.etl.judging import RESULT, Effect, judge, of_run, read_effects

_BEFORE = (
    "extract",
    *(f"clean:f{number}" for number in range(FILES)),
    "tally",
    "stage",
    "count",
    "compare",
    "load",
)
WELL = (*_BEFORE, "index", "publish", "tidy", "tell")
UNWELL = (*_BEFORE, "index", "page", "unload", "unstage", "tidy", "tell")


def effects(*names: str) -> list[Effect]:
    return [Effect(name, f"run_1.{name}") for name in names]


def swapped(names: tuple[str, ...], first: str, second: str) -> list[Effect]:
    other = {first: second, second: first}
    return effects(*[other.get(name, name) for name in names])


def test_what_is_right_is_right() -> None:
    assert [*judge("SUCCEEDED", RESULT, effects(*WELL), fails=False)] == []
    assert [*judge("FAILED", None, effects(*UNWELL), fails=True)] == []


def test_attempts_of_one_run_may_do_the_same_again() -> None:
    assert [*judge("SUCCEEDED", RESULT, effects(*WELL, "load"), fails=False)] == []


@pytest.mark.parametrize(
    ("state", "result", "found", "fails", "wrong"),
    [
        ("FAILED", RESULT, effects(*WELL), False, "it is FAILED, not SUCCEEDED"),
        ("SUCCEEDED", {**RESULT, "bad": 3}, effects(*WELL), False, "it returned"),
        ("SUCCEEDED", RESULT, effects(*WELL[1:]), False, "1 effects are missing: extract"),
        ("SUCCEEDED", RESULT, effects(*WELL, "unload"), False, "should not be: unload"),
        ("FAILED", None, effects(*UNWELL[:-2], "publish", *UNWELL[-2:]), True, "should not be: publish"),
        (
            "FAILED",
            None,
            [one for one in effects(*UNWELL) if one.what != "unstage"],
            True,
            "missing: unstage",
        ),
        ("SUCCEEDED", RESULT, [*effects(*WELL), Effect("load", "run_1.again")], False, "done by 2 runs"),
        ("FAILED", None, swapped(UNWELL, "unload", "unstage"), True, "unstage was done before unload"),
        ("SUCCEEDED", RESULT, swapped(WELL, "load", "index"), False, "index was done before load"),
    ],
)
def test_what_is_wrong_is_told(
    state: str, result: dict[str, object] | None, found: list[Effect], fails: bool, wrong: str
) -> None:
    told = [*judge(state, result, found, fails=fails)]
    assert len(told) == 1
    assert wrong in told[0]


def test_effects_are_told_apart_by_the_workflows_run() -> None:
    text = "load run_1.load\ncount run_1.check.count\nload run_2.load\n"
    assert of_run(read_effects(text), "run_1") == [
        Effect("load", "run_1.load"),
        Effect("count", "run_1.check.count"),
    ]
