"""S8, S13 beside rules for causes: what follows a failure is what its rule says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mainspring.core.definition import read_definition
from mainspring.core.ids import RunId
from mainspring.core.retry import RetryPolicy
from mainspring.testing.factories import START
from tests.unit.judge.histories import Story, seconds
from tools.judge.retries import consequences

_SOON = {"max_retries": 2, "backoff": "fixed", "delay": "1s", "jitter": 0}


def policy(*rules: dict[str, object]) -> RetryPolicy:
    body = {"name": "ruled", "function": "f", "retry": {**_SOON, "rules": list(rules)}}
    return read_definition(body, now=START).retry


def told(*tries: str, causes: dict[int, str] | None = None, rules: RetryPolicy) -> tuple[Story, RunId]:
    """A story of one run whose attempts end like that; `causes` says what they raised, by their place."""
    story = Story()
    run_id = story.submit(story.job(retry=rules), 10, *tries)
    for place, cause in (causes or {}).items():
        story.history.effects[place].cause = cause
    story.history.events.clear()
    return story, run_id


@pytest.mark.parametrize(
    ("tries", "causes", "expected"),
    [
        # each: then, the attempt's number, whether it is the last one, the shortest wait in seconds
        (
            ("failed", "failed"),
            {0: "KeyError", 1: "KeyError"},
            [("retry", 1, False, 3), ("retry", 2, True, 3)],
        ),
        (("failed",), {0: "ValueError"}, [("fail", 1, True, 0)]),
        (("failed",), {0: "UnicodeError"}, [("fail", 1, True, 0)]),  # derived from ValueError
        (("failed", "failed"), {0: "OSError"}, [("snooze", 1, False, 5), ("retry", 1, False, 1)]),
        (("timed_out",), {}, [("snooze", 1, False, 5)]),
        (("snoozed", "lost", "timed_out"), {}, [("snooze", 1, True, 5)]),  # two did not count before
        (("failed",), {0: "ZeroDivisionError"}, [("retry", 1, False, 1)]),
        (("failed",), {}, [("retry", 1, False, 1)]),
        (("lost", "done"), {}, []),
    ],
)
def test_first_rule_that_fits_decides(
    tries: tuple[str, ...], causes: dict[int, str], expected: list[tuple[str, int, bool, float]]
) -> None:
    rules = policy(
        {"on": ["KeyError"], "max_retries": 1, "delay": "3s"},
        {"on": ["ValueError"], "then": "fail"},
        {"on": ["timeout", "OSError"], "then": "snooze", "delay": "5s", "max_snoozes": 2},
    )
    story, run_id = told(*tries, causes=causes, rules=rules)
    spec = story.history.changes[0].spec
    follows = consequences(spec, story.attempts[run_id], story.history.effects)
    found = [(told.then, told.number, told.is_last, told.shortest) for told in follows]
    assert found == [
        (then, number, is_last, timedelta(seconds=wait)) for then, number, is_last, wait in expected
    ]


def test_crash_counts_if_a_rule_retries_it() -> None:
    rules = policy({"on": ["crash"], "max_retries": 1, "delay": "2s"})
    story, run_id = told("lost", "lost", rules=rules)
    spec = story.history.changes[0].spec
    follows = consequences(spec, story.attempts[run_id], story.history.effects)
    assert [(told.number, told.is_last, told.shortest) for told in follows] == [
        (1, False, seconds(2)),
        (2, True, seconds(2)),
    ]


def test_run_that_fails_at_once_by_its_rule() -> None:
    story, _ = told("refused", causes={0: "ValueError"}, rules=policy({"on": ["ValueError"], "then": "fail"}))
    assert story.broken == set(), story.told


def test_run_that_goes_on_though_its_rule_says_no() -> None:
    rules = policy({"on": ["ValueError"], "then": "fail"})
    story, _ = told("failed", "done", causes={0: "ValueError"}, rules=rules)
    assert "S8" in story.broken


def test_run_that_fails_though_its_rule_retries_it() -> None:
    story, _ = told("refused", causes={0: "KeyError"}, rules=policy({"on": ["KeyError"], "max_retries": 5}))
    assert story.broken == {"S13"}


def test_run_that_is_snoozed_without_end() -> None:
    rules = policy({"on": ["KeyError"], "then": "snooze", "delay": "1s", "max_snoozes": 1})
    story, run_id = told("failed", "failed", "done", causes={0: "KeyError", 1: "KeyError"}, rules=rules)
    for place in (0, 1, 2):
        story.alter_attempt(run_id, place, number=1)
    for effect in story.history.effects:
        effect.attempt = 1
    story.alter(run_id, attempt=1)
    assert story.broken == {"S8"}
    story.history.effects[1].cause = "ValueError"  # the policy's own retries are not used up
    story.history.effects[2].attempt = 2
    story.alter_attempt(run_id, 2, number=2)
    assert story.broken == set(), story.told


def test_snooze_that_counts_as_an_attempt() -> None:
    rules = policy({"on": ["KeyError"], "then": "snooze", "delay": "1s"})
    story, _ = told("failed", "done", causes={0: "KeyError"}, rules=rules)
    assert story.broken == {"S8"}


def test_run_that_starts_again_before_the_wait_of_its_rule() -> None:
    rules = policy({"on": ["KeyError"], "delay": "3s"})
    story, run_id = told("failed", "done", causes={0: "KeyError"}, rules=rules)
    assert story.broken == {"S8"}
    last = story.history.effects[1]
    last.started_at += seconds(2)
    last.ended_at = last.started_at + seconds(0.5)
    story.alter(run_id, finished_at=last.ended_at)
    story.alter_attempt(run_id, 1, started_at=last.started_at, finished_at=last.ended_at)
    assert story.broken == set(), story.told


def test_rules_of_a_version_are_those_of_its_runs() -> None:
    story, run_id = told("refused", causes={0: "ValueError"}, rules=policy({"on": ["any"], "then": "fail"}))
    assert story.broken == set(), story.told
    change = story.history.changes[0]
    story.history.changes[0] = replace(change, spec=replace(change.spec, retry=policy({"on": ["any"]})))
    assert story.broken == {"S13"}
    assert story.run(run_id).reason == "not_retryable"
