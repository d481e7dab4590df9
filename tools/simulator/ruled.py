"""Jobs with rules for the causes of their failures."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.simulator.plan import Action, JobPlan

_ERRORS = ("KeyError", "ValueError", "ConnectionError", "TimeoutError")
_NAMED = (*_ERRORS, "LookupError", "OSError", "any", "timeout", "crash")
"""Also what some of the errors are derived from."""


def make_ruled(seed: int, seconds: float) -> tuple[tuple[JobPlan, ...], tuple[Action, ...]]:
    """Draw the jobs, and what clients do to them. A random source of its own leaves other draws as they are."""
    random = Random(f"ruled:{seed}")
    jobs: list[JobPlan] = []
    actions: list[Action] = []
    for index in range(random.choice([0, 0, 0, 1, 2])):
        name = f"ruled-{index}"
        body: dict[str, Any] = {
            "every": random.choice(["3s", "7s"]),
            "retry": _make_retry(random),
            "timeout": random.choice(["1s", "20s"]),
            "delivery": random.choice(["at_least_once", "at_least_once", "at_least_once", "at_most_once"]),
        }
        jobs.append(
            JobPlan(
                name=name,
                body=body,
                seconds=(0.0, random.choice([0.2, 1.5])),
                fail=random.choice([0.3, 0.8]),
                snooze=random.choice([0.0, 0.1]),
                crash=random.choice([0.0, 0.0, 0.05]),
                errors=_ERRORS,
            )
        )
        actions.append(Action(at=round(random.uniform(0, 5), 3), kind="create", job=name))
        for _ in range(random.choice([0, 2, 6])):
            at = round(random.uniform(5, seconds), 3)
            kind = random.choice(["submit", "submit", "cancel", "edit"])
            edit = {"retry": _make_retry(random)} if kind == "edit" else {}
            actions.append(Action(at=at, kind=kind, job=name, body=edit))
    return tuple(jobs), tuple(actions)


def _make_retry(random: Random) -> dict[str, Any]:
    causes = random.sample(_NAMED, random.randint(1, 4))
    causes.sort(key="any".__eq__)  # no rule may follow the one that always fits
    return {
        "max_retries": random.choice([0, 1, 3]),
        "backoff": "fixed",
        "delay": "500ms",
        "rules": [{"on": [cause], **_make_rule(random)} for cause in causes],
    }


def _make_rule(random: Random) -> dict[str, Any]:
    then = random.choice(["retry", "retry", "fail", "snooze"])
    if then == "fail":
        return {"then": then}
    if then == "snooze":
        return {"then": then, "delay": random.choice(["1s", "3s"]), "max_snoozes": random.choice([1, 3])}
    waits: list[dict[str, Any]] = [{}, {"backoff": "linear", "delay": "1s"}, {"delays": ["2s", "300ms"]}]
    bounds: list[dict[str, Any]] = [{}, {"max_retries": 2}]
    return random.choice(waits) | random.choice(bounds)
