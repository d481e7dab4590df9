"""Jobs whose submissions have keys of what runs once, and bursts of submissions under few keys."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.simulator.plan import Action, JobPlan

_RULES: tuple[dict[str, Any], ...] = (
    {"unique": {"key": "$.key"}},
    {"unique": {"key": "$.key", "scope": "queued"}},
    {"unique": {"key": "$.key", "scope": "queued", "on_conflict": "replace"}},
    {"unique": {"key": "$.key", "period": "10s", "on_conflict": "replace"}},
    {"unique": {"key": "$.key", "on_conflict": "reject"}},
    {"debounce": {"key": "$.key", "wait": "1s", "max_wait": "4s"}},
    {"debounce": {"key": "$.key", "wait": "3s"}},
    {"throttle": {"key": "$.key", "limit": 1, "per": "5s"}},
    {"throttle": {"key": "$.key", "limit": 3, "per": "20s"}},
)
_EDITS: tuple[dict[str, Any], ...] = (
    {"unique": {"key": "$.key", "scope": "live", "on_conflict": "existing"}, "debounce": None},
    {"unique": {"key": "$.key", "scope": "queued"}, "debounce": None},
    {"retry": {"max_retries": 1, "backoff": "fixed", "delay": "2s"}},
)


def make_once(seed: int, seconds: float) -> tuple[tuple[JobPlan, ...], tuple[Action, ...]]:
    """Draw the jobs, and what clients do to them. A random source of its own leaves other draws as they are."""
    random = Random(f"once:{seed}")
    jobs: list[JobPlan] = []
    actions: list[Action] = []
    for index in range(random.choice([0, 0, 1, 2, 3])):
        name = f"once-{index}"
        rule = random.choice(_RULES)
        body: dict[str, Any] = {**rule, "timeout": "60s", "queue": random.choice(["default", "once"])}
        if random.random() < 0.25:
            body["expires_after"] = "2s"
        longest = random.choice([0.05, 0.5, 3.0])
        fail = random.choice([0.0, 0.0, 0.4])
        jobs.append(JobPlan(name=name, body=body, seconds=(0.0, longest), fail=fail))
        actions.append(Action(at=round(random.uniform(0, 5), 3), kind="create", job=name))
        actions += _make_bursts(random, name, seconds)
        if "throttle" not in rule and random.random() < 0.3:
            instant = round(random.uniform(10, seconds), 3)
            actions.append(Action(at=instant, kind="edit", job=name, body=random.choice(_EDITS)))
    return tuple(jobs), tuple(actions)


def _make_bursts(random: Random, job: str, seconds: float) -> list[Action]:
    """Draw submissions that come close together, with few keys, each with a payload of its own, and cancels."""
    actions = []
    number = 0
    for _ in range(random.choice([3, 8, 15])):
        begin = random.uniform(6, seconds)
        for _ in range(random.choice([2, 3, 6])):
            number += 1
            body: dict[str, Any] = {"payload": {"key": random.choice("ab"), "number": number}}
            if random.random() < 0.2:
                repeated = random.randint(1, 3)  # the same request, as long as the key is the same
                body = {"payload": {"key": "a", "number": -repeated}, "key": f"once-{repeated}-{job}"}
            instant = min(begin + random.choice([0.0, 0.001, 0.02, 0.5, 2.0]), seconds)
            actions.append(Action(at=round(instant, 3), kind="submit", job=job, body=body))
        if random.random() < 0.2:
            actions.append(Action(at=round(min(begin + 0.01, seconds), 3), kind="cancel", job=job))
    return actions
