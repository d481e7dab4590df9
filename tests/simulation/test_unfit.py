"""Servers on hosts with a wrong clock or other zone data: they own nothing, say so, and come back; else it is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mainspring.core.shards import Refusal
from mainspring.engine.scheduling.shards import Shards
from tools.simulator.draw import make_plan
from tools.simulator.plan import FaultPlan, Plan
from tools.simulator.run import simulate
from tools.simulator.shrink import describe

CLOCK = FaultPlan(at=15.0, seconds=20.0, kind="skew", target="server-0", skew=3600.0)
ZONES = FaultPlan(at=15.0, seconds=20.0, kind="tzdata", target="server-0", version="2026b")


def plan_with(*faults: FaultPlan, servers: int = 2, store: str = "memory") -> Plan:
    """Return a quiet plan in which only this goes wrong."""
    plan = make_plan(7, seconds=60.0, store=store)
    return replace(plan, servers=servers, failure_rate=0.0, faults=faults)


@pytest.mark.parametrize(("fault", "reason"), [(CLOCK, Refusal.CLOCK), (ZONES, Refusal.TZDATA)])
def test_unfit_server_refuses_shards_and_comes_back(fault: FaultPlan, reason: Refusal) -> None:
    result = simulate(plan_with(fault))
    assert result.is_good, (result.verdict.violations[:1], result.errors)
    refusals = [line.partition(" ")[2] for line in result.log if "refuses shards" in line]
    assert refusals == [f"server-0 refuses shards: {reason}"]
    assert any("taken by server-1" in line for line in result.log)


def test_clock_of_a_host_alone_with_its_store_is_not_judged() -> None:
    result = simulate(plan_with(CLOCK, servers=1, store="sqlite"))
    assert result.is_good, result.errors
    assert not any("refuses" in line for line in result.log)


def test_only_server_brings_its_zone_data_with_it() -> None:
    result = simulate(plan_with(ZONES, servers=1))
    assert result.is_good, result.errors
    assert not any("refuses" in line for line in result.log)


@pytest.mark.parametrize("fault", [CLOCK, ZONES])
def test_server_that_does_not_refuse_is_found(fault: FaultPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Shards._judge_self

    async def judge_and_forget(self: Shards, *facts: Any) -> Refusal | None:
        await judge(self, *facts)
        return None

    monkeypatch.setattr(Shards, "_judge_self", judge_and_forget)
    result = simulate(plan_with(fault))
    assert not result.is_good
    assert any("server-0 reports" in error for error in result.errors)


def test_server_that_stays_away_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.engine.scheduling.shards.refuse_clock", lambda skew, **_: True)
    result = simulate(plan_with())
    assert "server-1 still refuses shards: clock" in result.errors
    assert "no server plans 256 shards" in result.errors


def test_such_faults_are_told_with_their_values() -> None:
    told = "\n".join(describe(plan_with(CLOCK, ZONES)))
    assert "3600" in told
    assert "2026b" in told
