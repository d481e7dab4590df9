"""What becomes of fires while runs of their job are live."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.admission import OVERLAP
from mainspring.core.definition import edit_definition, read_definition
from mainspring.core.ids import JobId, RunId
from mainspring.core.limits import Hold, kept_rules, keys_of, line_key, overlap_limit_name, rules_of
from mainspring.core.model import JobSpec, Overlap
from mainspring.core.outlines import has_outline
from mainspring.core.overlap import LiveOfJob, judge_overlap
from mainspring.errors import InvalidInput
from mainspring.testing.factories import START, IdSequence, at

JOB = JobId(IdSequence().new_uuid())
LINED_UP = [Overlap.QUEUE_ONE, Overlap.QUEUE_ALL, Overlap.CANCEL_RUNNING]

FIRES = st.lists(
    st.tuples(st.integers(0, 20).map(at), st.sampled_from([None, None, "misfire"])),
    unique_by=lambda one: one[0],
)
LIVE = st.lists(st.tuples(st.integers(1, 99).map(RunId), st.none() | st.integers(0, 20).map(at)), max_size=4)


def read(**more: Any) -> JobSpec:
    return read_definition({"name": "a", "function": "f", **more}, now=START)


def live_of(runs: list[tuple[RunId, datetime | None]], *, is_any_waiting: bool = False) -> LiveOfJob:
    return LiveOfJob(is_any=bool(runs), is_any_waiting=is_any_waiting, runs=tuple(runs))


@given(overlap=st.sampled_from(Overlap), fires=FIRES, runs=LIVE, waits=st.booleans())
def test_each_fire_makes_a_run_or_has_a_reason(
    overlap: Overlap, fires: list[Any], runs: list[Any], waits: bool
) -> None:
    verdict = judge_overlap(overlap, fires, live_of(runs, is_any_waiting=waits))
    assert len(verdict.reasons) == len(fires)
    for (_, before), after in zip(fires, verdict.reasons, strict=True):
        assert after == before or (before is None and after == OVERLAP)
    if overlap in {Overlap.ALLOW, Overlap.QUEUE_ALL}:
        assert OVERLAP not in verdict.reasons
    if overlap is not Overlap.CANCEL_RUNNING:
        assert verdict.cancels == ()


@given(fires=FIRES, runs=LIVE, waits=st.booleans())
def test_one_waits(fires: list[Any], runs: list[Any], waits: bool) -> None:
    verdict = judge_overlap(Overlap.QUEUE_ONE, fires, live_of(runs, is_any_waiting=waits))
    wanted = [reason for _, reason in fires].count(None)
    assert verdict.reasons.count(None) == (0 if waits else min(wanted, 1))


@given(fires=FIRES, runs=LIVE)
def test_the_newest_fire_cancels_all_older_ones(fires: list[Any], runs: list[Any]) -> None:
    verdict = judge_overlap(Overlap.CANCEL_RUNNING, fires, live_of(runs))
    wanted = [at for at, reason in fires if reason is None]
    if not wanted:
        assert verdict.cancels == ()
    elif any(fire_at is not None and fire_at > max(wanted) for _, fire_at in runs):
        assert (verdict.reasons.count(None), verdict.cancels) == (0, ())
    else:
        [made] = [at for (at, _), reason in zip(fires, verdict.reasons, strict=True) if reason is None]
        assert made == max(wanted)
        assert sorted(verdict.cancels) == sorted(run_id for run_id, _ in runs)


def test_what_was_made_before_counts_for_the_next_step() -> None:
    after = LiveOfJob().with_another()
    assert judge_overlap(Overlap.SKIP, [(at(0), None)], after).reasons == (OVERLAP,)
    assert judge_overlap(Overlap.QUEUE_ONE, [(at(0), None)], after).reasons == (OVERLAP,)


@pytest.mark.parametrize("overlap", LINED_UP)
def test_runs_of_such_a_job_stand_in_one_line(overlap: Overlap) -> None:
    spec = read(overlap=overlap.value, concurrency=[{"key": "$.a", "limit": 3}, {"limit": 9}])
    keys = keys_of(JOB, spec, b'{"a": 7}')
    assert keys[0] == line_key(JOB)
    assert len(keys) == 3
    assert keys_of(JOB, spec, b'{"a": 8}')[0] == keys[0]
    [rule] = [rule for rule in rules_of(JOB, spec) if rule.name == overlap_limit_name(JOB)]
    assert (rule.max_running, rule.hold, rule.job_id) == (1, Hold.RUN, JOB)
    assert spec.route.endswith("+*keys")
    assert not has_outline(read(overlap=overlap.value, run_at="2030-01-01T00:00:00Z"))


@pytest.mark.parametrize("overlap", [Overlap.ALLOW, Overlap.SKIP])
def test_others_pay_nothing(overlap: Overlap) -> None:
    spec = read(overlap=overlap.value)
    assert keys_of(JOB, spec) == ()
    assert rules_of(JOB, spec) == []
    assert not spec.is_lined_up
    assert spec.route == "function:f"


def test_only_allow_opens_a_line() -> None:
    kept = {overlap: kept_rules(JOB, read(overlap=overlap.value)) for overlap in Overlap}
    assert kept.pop(Overlap.ALLOW) == []
    assert all(overlap_limit_name(JOB) in names for names in kept.values())


@pytest.mark.parametrize("overlap", LINED_UP)
def test_a_line_takes_up_one_limit(overlap: Overlap) -> None:
    three = [{"limit": 1}, {"limit": 2}, {"limit": 3}]
    with pytest.raises(InvalidInput, match=r"at most 2 limits") as refused:
        read(overlap=overlap.value, concurrency=three)
    assert refused.value.field == "concurrency"
    with pytest.raises(InvalidInput, match=r"takes up one of 3 limits") as refused:
        edit_definition(read(concurrency=three), {"overlap": overlap.value}, now=START)
    assert refused.value.field == "overlap"
    assert read(overlap=overlap.value, concurrency=three[:2]).overlap is overlap
    assert read(overlap="skip", concurrency=three).overlap is Overlap.SKIP
