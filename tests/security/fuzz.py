"""`make fuzz`: tokens of three roles send whatever the API's description allows, and what it does not.

Each request goes to a real server on behalf of a tenant. Half of the ids in paths and bodies are of what exists, the
tenant's own or another's. Nothing may make the server fail, no answer may hold anything of the other tenant, and all
that the other tenant has must be there in the end as it was.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import click
import httpx
import hypothesis
import schemathesis
from hypothesis import HealthCheck, Phase, settings

from tests.security.tenants import FOREIGN, OWN, Tenants, two_tenants

EXAMPLES = 4
"""Requests for each operation and role in one pass."""
LONGEST_SECONDS = 60
_SHARED = {
    "account": (f"{OWN}-viewer", "root"),
    "token": ("k3v9q2xa", "aaaaaaaa"),
    "queue": (OWN, FOREIGN),
    "label": ("gpu", "arm"),
    "key": ("aaaaaaaaaaaaaaaaaaaaaaaa", "mk_aaaaaaaa"),
}
"""Names in paths that stand for what tenants share."""
_IDS = frozenset({"job_id", "run_id", "run_ids", "after", "cursor", "before"})


@dataclass
class Found:
    """What was asked, and what went wrong.

    Attributes:
        answers: how many answers there were, by role and status.
    """

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Attacker:
    """Sends requests with a role's token and looks at the answers."""

    def __init__(self, http: httpx.Client, tenants: Tenants, role: str, found: Found) -> None:
        self._http, self._tenants, self._role, self._found = http, tenants, role, found

    def send(self, case: schemathesis.Case[Any], chance: Random) -> None:
        """Send one request, with ids that exist in the place of some of its own."""
        for name in case.path_parameters or {}:
            case.path_parameters[name] = self._id(name, case.path_parameters[name], chance)
        if isinstance(case.body, dict):
            case.body = {key: self._value(key, value, chance) for key, value in case.body.items()}
        given = case.as_transport_kwargs(base_url=self._tenants.url)
        headers = dict(given.get("headers") or {})
        headers.pop("Authorization", None)
        if chance.random() < 0.7:
            headers.pop("Mainspring-Tenant", None)
        elif chance.random() < 0.5:
            headers["Mainspring-Tenant"] = FOREIGN
        request = {"params": given.get("params"), "json": given.get("json"), "content": given.get("data")}
        wanted = {key: value for key, value in request.items() if value is not None}
        story = f"{self._role}: {given['method']} {given['url']} {headers} {wanted}"
        try:
            answer = self._http.request(given["method"], given["url"], headers=headers, **wanted)
        except httpx.TimeoutException:
            self._found.faults.append(f"no answer within {LONGEST_SECONDS} s\n{story}")
            return
        self._look_at(answer, story)

    def _look_at(self, answer: httpx.Response, story: str) -> None:
        self._found.answers[self._role, answer.status_code] += 1
        shown = f"{answer.status_code} {dict(answer.headers)} {answer.text}"
        if answer.status_code >= 500:
            self._found.faults.append(f"the server failed\n{story}\n{shown[:2000]}")
        if self._tenants.canary in shown:
            at = shown.index(self._tenants.canary)
            self._found.faults.append(f"another tenant's\n{story}\n…{shown[max(0, at - 500) : at + 100]}")

    def _id(self, name: str, drawn: Any, chance: Random) -> Any:
        if name in _SHARED:
            return chance.choice([drawn, *_SHARED[name]])
        names = ("run_id", "kept") if name == "run_id" else (name,)
        known = [
            each[one] for each in (self._tenants.own, self._tenants.foreign) for one in names if one in each
        ]
        return chance.choice([drawn, *known])

    def _value(self, key: str, value: Any, chance: Random) -> Any:
        """Return what a field of a body is to hold: the id of something that exists, or what was drawn."""
        if key == "wait_seconds":
            return 0
        if isinstance(value, dict):
            return {name: self._value(name, inner, chance) for name, inner in value.items()}
        if isinstance(value, list) and key not in _IDS:
            return [self._value(key, inner, chance) for inner in value]
        if key not in _IDS or chance.random() < 0.3:
            return value
        known = chance.choice([self._tenants.own, self._tenants.foreign])
        runs = [known[name] for name in ("run_id", "dead", "kept")]
        found = known["job_id"] if key == "job_id" else chance.choice(runs)
        return [found] if key == "run_ids" else found


@contextlib.contextmanager
def attacker(tenants: Tenants, role: str, found: Found) -> Iterator[Attacker]:
    """Yield an attacker with a connection of its own."""
    headers = {"Authorization": f"Bearer {tenants.tokens[role]}"}
    with httpx.Client(base_url=tenants.url, headers=headers, timeout=LONGEST_SECONDS) as http:
        yield Attacker(http, tenants, role, found)


def attack(tenants: Tenants, *, goes_on: Callable[[], bool], examples: int = EXAMPLES) -> Found:
    """Send requests to every operation with every role until `goes_on` says no."""
    schema = schemathesis.openapi.from_dict(tenants.ask("GET", "../../openapi.json"))
    operations = [schema[path][method] for path in schema for method in schema[path]]
    found, before = Found(), tenants.rows_of_foreign()
    with contextlib.ExitStack() as stack:
        attackers = [stack.enter_context(attacker(tenants, role, found)) for role in tenants.tokens]
        for number in _counted(goes_on):
            for operation, each in itertools.product(operations, attackers):
                _try_some(operation, each, f"{number}", examples)
    after = tenants.rows_of_foreign()
    for name in before:
        if _in_order(before[name]) != _in_order(after[name]):
            found.faults.append(f"{FOREIGN} had {name} {before[name]}\nand has {after[name]}")
    return found


def _counted(goes_on: Callable[[], bool]) -> Iterator[int]:
    number = 0
    while goes_on():
        yield number
        number += 1


def _try_some(operation: Any, attacker: Attacker, name: str, examples: int) -> None:
    @hypothesis.seed(f"{name} {operation.label}")
    @settings(
        max_examples=examples,
        phases=[Phase.explicit, Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(), seed=hypothesis.strategies.integers(0, 2**32))
    def send(case: schemathesis.Case[Any], seed: int) -> None:
        attacker.send(case, Random(seed))

    send()


def _in_order(value: Any) -> Any:
    """Return a list without its order, which may differ between two answers."""
    return sorted(map(repr, value)) if isinstance(value, list) else value


@click.command()
@click.option("--seconds", default=600, show_default=True, type=click.IntRange(min=1), help="How long.")
@click.option("--store", default="memory://", show_default=True, help="The server's store.")
def main(seconds: int, store: str) -> None:
    """Attack a server of its own with three roles."""
    with tempfile.TemporaryDirectory() as folder, two_tenants(Path(folder), store=store) as tenants:
        until = time.monotonic() + seconds
        found = attack(tenants, goes_on=lambda: time.monotonic() < until)
    for (role, status), count in sorted(found.answers.items()):
        click.echo(f"{role:>9} {status} {count:>8}")
    for fault in found.faults[:20]:
        click.echo(f"\n{fault}")
    click.echo(f"\n{sum(found.answers.values())} requests, {len(found.faults)} faults")
    sys.exit(1 if found.faults else 0)


if __name__ == "__main__":
    main()
