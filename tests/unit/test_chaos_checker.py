"""Who checks the checker: each violation is planted and must be found."""

from __future__ import annotations

from tests.chaos.checker import RecordedRun, Verdict, judge
from tests.chaos.effects import Effect

RUN = RecordedRun(id="run_1", state="SUCCEEDED", fire_time=None, losses=0)


def acts(*tokens: int, run: str = "run_1") -> list[Effect]:
    return [Effect(what, run, token) for token in tokens for what in ("start", "end")]


def verdict_of(
    *,
    run: RecordedRun = RUN,
    effects: list[Effect] | None = None,
    acknowledged: tuple[str, ...] = ("run_1",),
    expected: tuple[str, ...] = (),
    fires: tuple[str, ...] = (),
) -> Verdict:
    return judge(
        acknowledged=acknowledged,
        runs={run.id: run},
        expected_fires={"job": expected},
        fires={"job": fires},
        effects={"run_1": acts(1) if effects is None else effects},
    )


def test_clean_history_is_clean() -> None:
    assert verdict_of(expected=("t1",), fires=("t1",)).is_clean


def test_acknowledged_run_that_is_unknown_is_lost() -> None:
    assert verdict_of(acknowledged=("run_1", "run_2")).lost


def test_success_without_an_end_is_lost() -> None:
    assert verdict_of(effects=[Effect("start", "run_1", 1)]).lost


def test_fire_without_a_record_is_missed() -> None:
    assert verdict_of(expected=("t1", "t2"), fires=("t1",)).missed


def test_fire_with_two_records_is_doubled() -> None:
    assert verdict_of(expected=("t1",), fires=("t1", "t1")).doubled_fires


def test_repeat_without_a_recorded_loss_is_unexplained() -> None:
    assert verdict_of(effects=acts(1, 3)).unexplained_repeats


def test_repeat_after_a_recorded_loss_is_explained() -> None:
    lost = RecordedRun(id="run_1", state="SUCCEEDED", fire_time=None, losses=1)
    verdict = verdict_of(run=lost, effects=acts(1, 3))
    assert (verdict.is_clean, verdict.explained_repeats) == (True, 1)


def test_one_attempt_that_started_twice_is_never_explained() -> None:
    lost = RecordedRun(id="run_1", state="SUCCEEDED", fire_time=None, losses=5)
    assert verdict_of(run=lost, effects=acts(1, 1)).unexplained_repeats


def test_unfinished_run_is_told() -> None:
    assert verdict_of(run=RecordedRun(id="run_1", state="RUNNING", fire_time=None, losses=0)).unfinished
