"""Rules about what clients were promised when they submitted: S3 and S4."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from mainspring.core.ids import JobId, RunId, format_job_id, format_run_id
from mainspring.core.model import RunKind
from tools.judge.model import History, Operation, Violation
from tools.judge.runs import Runs


def judge_submissions(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S3 and S4: every acknowledged run exists, once per key, and nothing else was made."""
    submits = [operation for operation in history.operations if operation.kind == "submit"]
    by_key: dict[str, set[RunId]] = defaultdict(set)
    requests: dict[RunId, set[object]] = defaultdict(set)
    for index, operation in enumerate(submits):
        counts[f"submissions_{operation.outcome}"] += 1
        if operation.outcome != "ok" or operation.run_id is None:
            continue
        yield from _judge_answer(operation, operation.run_id, runs)
        if operation.key is not None:
            by_key[operation.key].add(operation.run_id)
        if operation.status != "submitted":
            continue  # it joined a run that another one had asked for, or was dropped
        requests[operation.run_id].add(index if operation.key is None else operation.key)
    for key, ids in by_key.items():
        if len(ids) > 1:
            yield Violation(
                "S4", f"key {key}", tuple(f"answered {format_run_id(run_id)}" for run_id in sorted(ids))
            )
    for run_id, asked in requests.items():
        if len(asked) > 1:
            yield runs.accuse("S3", run_id, f"the answer to {len(asked)} different submissions")
    yield from _judge_surplus(history, submits)


def _judge_answer(operation: Operation, run_id: RunId, runs: Runs) -> Iterator[Violation]:
    run = runs.by_id.get(run_id)
    if run is None:
        yield runs.accuse("S3", run_id, "acknowledged, but cannot be found")
    elif run.job_id != operation.job_id:
        asked_for = format_job_id(operation.job_id)
        yield runs.accuse("S3", run_id, f"acknowledged for {asked_for}, but it is another job's")
    elif run.kind is not RunKind.MANUAL:
        yield runs.accuse("S3", run_id, f"acknowledged as submitted, but it is {run.kind}")


def _judge_surplus(history: History, submits: list[Operation]) -> Iterator[Violation]:
    """Find runs of a job that no submission asked for: a second run for a key, or one that was refused.

    It is not known which of a job's runs a lost answer would have named, so runs are only counted.
    """
    made: Counter[JobId] = Counter(run.job_id for run in history.runs if run.kind is RunKind.MANUAL)
    known: dict[JobId, set[RunId]] = defaultdict(set)
    acknowledged = {operation.key for operation in submits if operation.outcome == "ok" and operation.key}
    unknown: dict[JobId, set[object]] = defaultdict(set)
    keyed = {
        operation.job_id for operation in submits if operation.key and operation.outcome in {"ok", "unknown"}
    }
    for index, operation in enumerate(submits):
        if operation.outcome == "ok" and operation.run_id is not None:
            known[operation.job_id].add(operation.run_id)
        elif operation.outcome == "unknown" and operation.key not in acknowledged:
            unknown[operation.job_id].add(operation.key or index)
    for job_id, count in made.items():
        most = len(known[job_id]) + len(unknown[job_id])
        if count > most:
            rule = "S4" if job_id in keyed else "S3"
            yield Violation(rule, format_job_id(job_id), (f"{count} runs for at most {most} submissions",))
