"""What Celery said becomes a history that accuses neither too much nor too little, and the judge is held to it."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.ids import RunId
from tests.chaos.peers.celery_history import (
    JOBS,
    Observations,
    Record,
    Submission,
    build_history,
    read_acts,
)
from tests.chaos.peers.celery_on_redis import EXPERIMENTS, is_as_known, is_busy
from tools.judge import Verdict, Violation, judge

DONE = Record(status="SUCCESS", result="first", done=101.5)
UNKNOWN = Record(status="PENDING", result=None, done=None)
FIRST = ("start t first one@peer 101", "end t first one@peer 101.4")
SECOND = ("start t second two@peer 101.2", "end t second two@peer 101.6")


def rules_of(
    *acts: str, task: str = "late", record: Record = DONE, held: frozenset[str] = frozenset()
) -> list[str]:
    seen = Observations(
        submissions=[Submission(id="t", task=task, asked=100.0, answered=100.1, due=101.0)],
        acts=acts,
        records={"t": record},
        held=held,
        faults=[],
        read_at=120.0,
        patience=timedelta(seconds=3),
        slots=4,
    )
    return sorted(found.rule for found in judge(build_history(seen)).violations)


def test_what_was_done_once_is_clean() -> None:
    assert rules_of(*FIRST) == []


def test_repeat_breaks_what_each_way_of_acknowledging_promises() -> None:
    assert rules_of(*FIRST, *SECOND, task="late") == ["S7"]
    assert rules_of(*FIRST, *SECOND, task="early") == ["S5", "S7"]


def test_result_on_record_may_be_that_of_any_execution() -> None:
    second = Record(status="SUCCESS", result="second", done=101.7)
    assert rules_of(*FIRST, *SECOND, record=second) == ["S7"]


def test_success_without_an_end_is_told() -> None:
    assert rules_of(FIRST[0]) == ["S6"]


def test_start_before_its_eta_is_told() -> None:
    assert rules_of("start t first one@peer 100.5", FIRST[1]) == ["S19"]


def test_task_that_neither_backend_nor_broker_knows_is_lost() -> None:
    assert rules_of(FIRST[0], record=UNKNOWN) == ["S3", "S3"]


def test_task_that_the_broker_holds_is_waiting() -> None:
    assert rules_of(record=UNKNOWN, held=frozenset({"t"})) == ["S27"]


def test_task_that_stays_started_is_stuck() -> None:
    assert rules_of(FIRST[0], record=Record(status="STARTED", result=None, done=None)) == ["S27"]


def test_executions_count_in_the_order_of_their_starts_and_a_cut_line_counts_for_nothing() -> None:
    acts = [*SECOND, *FIRST, "start t thi"]
    effects = read_acts(acts, {"t": RunId(256)}, {"t": JOBS["late"]})
    assert {name: effect.token for name, effect in effects.items()} == {"first": 1, "second": 2}


def verdict(*rules: str, succeeded: int = 0) -> Verdict:
    violations = tuple(Violation(rule, "run_1", ("a story",)) for rule in rules)
    return Verdict(violations, {"runs_succeeded": succeeded})


def test_judge_that_misses_a_known_rule_fails_the_proof() -> None:
    experiment = EXPERIMENTS[0]
    assert is_as_known(experiment, verdict("S5", "S7", "L1"))
    assert not is_as_known(experiment, verdict("S5"))
    assert not is_as_known(experiment, verdict(succeeded=len(experiment.plan)))


def test_control_is_to_be_clean_and_carried_out() -> None:
    control = EXPERIMENTS[-1]
    assert is_as_known(control, verdict(succeeded=len(control.plan)))
    assert not is_as_known(control, verdict("L1", succeeded=len(control.plan)))
    assert not is_as_known(control, verdict())


def test_worker_is_busy_when_all_its_slots_are_taken() -> None:
    begun = ["start a x one@peer 1", "start b y one@peer 1", "start c z two@peer 1"]
    assert is_busy(begun, "one@peer")
    assert not is_busy(begun, "two@peer")
    assert not is_busy([*begun, "end a x one@peer 2"], "one@peer")
