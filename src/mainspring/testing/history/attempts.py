"""Rules about runs and their attempts: S3 to S8, S11, S13, S19, S25, S27."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta

from mainspring.core.ids import JobId, RunId, format_job_id, format_run_id
from mainspring.core.model import Attempt, Delivery, JobSpec, Run, RunKind
from mainspring.core.retry import retry_delay
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.testing.history.model import Effect, History, Operation, Violation

_LOSSES = frozenset({"lost", "handed_back", "preempted"})
_FAILURES = frozenset({"failed", "timed_out"})


class Runs:
    """The final runs with what belongs to each."""

    def __init__(self, history: History) -> None:
        self.by_id = {run.id: run for run in history.runs}
        self.effects: dict[RunId, list[Effect]] = defaultdict(list)
        for effect in history.effects:
            self.effects[effect.run_id].append(effect)
        self.attempts = history.attempts
        self.specs = {(change.job_id, change.version): change.spec for change in history.changes}

    def spec_of(self, run: Run) -> JobSpec | None:
        """Return the definition that a run was made from."""
        return self.specs.get((run.job_id, run.version))

    def tell(self, run_id: RunId, *more: str) -> tuple[str, ...]:
        """Return a run's story."""
        lines: list[tuple[str, str]] = []
        run = self.by_id.get(run_id)
        for effect in self.effects.get(run_id, []):
            lines.append((effect.started_at.isoformat(), f"starts on {effect.worker}, token {effect.token}"))
            if effect.ended_at is not None:
                lines.append(
                    (effect.ended_at.isoformat(), f"ends there: {effect.ending}, token {effect.token}")
                )
        for attempt in self.attempts.get(run_id, []):
            text = f"attempt {attempt.number} recorded as {attempt.outcome}, token {attempt.token}"
            lines.append((attempt.finished_at.isoformat(), text))
        if run is not None:
            lines.append((run.created_at.isoformat(), f"recorded, {run.kind}, due {run.due_at.isoformat()}"))
            if run.finished_at is not None:
                lines.append(
                    (run.finished_at.isoformat(), f"{run.state} {run.reason or ''}, token {run.token}")
                )
        told = [f"{at} {text}" for at, text in sorted(lines)]
        return (*told, *more)


def judge_submissions(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S3 and S4: what was acknowledged is there, once per key; nothing else was made."""
    submits = [operation for operation in history.operations if operation.kind == "submit"]
    by_key: dict[str, set[RunId]] = defaultdict(set)
    for operation in submits:
        counts[f"submissions_{operation.outcome}"] += 1
        if operation.outcome != "ok" or operation.run_id is None:
            continue
        if operation.run_id not in runs.by_id:
            yield Violation("S3", format_run_id(operation.run_id), ("acknowledged, but not to be found",))
        if operation.key is not None:
            by_key[operation.key].add(operation.run_id)
    for key, ids in by_key.items():
        if len(ids) > 1:
            yield Violation(
                "S4", f"key {key}", tuple(f"answered {format_run_id(run_id)}" for run_id in sorted(ids))
            )
    yield from _judge_surplus(history, submits)


def _judge_surplus(history: History, submits: list[Operation]) -> Iterator[Violation]:
    """Runs of a job that no submission asked for."""
    made: Counter[JobId] = Counter(run.job_id for run in history.runs if run.kind is RunKind.MANUAL)
    known: dict[JobId, set[RunId]] = defaultdict(set)
    acknowledged = {operation.key for operation in submits if operation.outcome == "ok" and operation.key}
    unknown: dict[JobId, set[object]] = defaultdict(set)
    for index, operation in enumerate(submits):
        if operation.outcome == "ok" and operation.run_id is not None:
            known[operation.job_id].add(operation.run_id)
        elif operation.outcome == "unknown" and operation.key not in acknowledged:
            unknown[operation.job_id].add(operation.key or index)
    for job_id, count in made.items():
        most = len(known[job_id]) + len(unknown[job_id])
        if count > most:
            yield Violation("S4", format_job_id(job_id), (f"{count} runs for at most {most} submissions",))


def judge_effects(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S5, S7, S19: who started what, how often, and when."""
    for run_id, effects in runs.effects.items():
        run = runs.by_id.get(run_id)
        if run is None:
            yield Violation("S3", format_run_id(run_id), runs.tell(run_id, "carried out, but not on record"))
            continue
        counts["effects"] += len(effects)
        spec = runs.spec_of(run)
        starts = sum(effect.ending != "snoozed" for effect in effects)
        if spec is not None and spec.delivery is Delivery.AT_MOST_ONCE and starts > 1:
            yield Violation("S5", format_run_id(run_id), runs.tell(run_id, "at most once, started twice"))
        early = [effect for effect in effects if effect.started_at < run.due_at - history.slack]
        if early:
            yield Violation("S19", format_run_id(run_id), runs.tell(run_id, "started before it was due"))
        yield from _judge_repeats(history, runs, run, effects, counts)


def _judge_repeats(
    history: History, runs: Runs, run: Run, effects: list[Effect], counts: Counter[str]
) -> Iterator[Violation]:
    """A second execution needs the record of how the first one was lost or failed, and that before it began."""
    seen: dict[int, Effect] = {}
    attempts = {attempt.token: attempt for attempt in runs.attempts.get(run.id, [])}
    for effect in sorted(effects, key=lambda effect: (effect.token, effect.started_at)):
        if effect.token in seen:
            yield Violation(
                "S7", format_run_id(run.id), runs.tell(run.id, f"token {effect.token} started twice")
            )
        for token in seen:
            ended = attempts.get(token)
            if (
                ended is None
                or ended.outcome == "succeeded"
                or ended.finished_at > effect.started_at + history.slack
            ):
                why = f"token {effect.token} started though token {token} had not ended"
                yield Violation("S7", format_run_id(run.id), runs.tell(run.id, why))
                break
            counts["repeats_explained" if ended.outcome in _LOSSES else "retries"] += 1
        seen[effect.token] = effect


def judge_ends(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S6, S8, S13, S25, S27: every run came to an end that its attempts account for."""
    for run in history.runs:
        counts[f"runs_{run.state.lower()}"] += 1
        spec = runs.spec_of(run)
        attempts = list(runs.attempts.get(run.id, []))
        if spec is None:
            yield Violation(
                "S2", format_run_id(run.id), runs.tell(run.id, "made from a version that never was")
            )
            continue
        if run.state not in FINAL_STATES:
            if run.rank < history.read_at - 2 * history.lease:
                yield Violation(
                    "S27", format_run_id(run.id), runs.tell(run.id, f"still {run.state} at the end")
                )
            continue
        if run.state is RunState.SUCCEEDED:
            yield from _judge_success(run, runs)
        if run.state is RunState.FAILED:
            yield from _judge_failure(run, spec, attempts, runs)
        yield from _judge_retries(history, run, spec, attempts, runs)


def _judge_success(run: Run, runs: Runs) -> Iterator[Violation]:
    done = [effect for effect in runs.effects.get(run.id, []) if effect.ending == "done"]
    if not done:
        yield Violation("S6", format_run_id(run.id), runs.tell(run.id, "succeeded without having been done"))
    elif run.token not in {effect.token for effect in done}:
        yield Violation(
            "S25", format_run_id(run.id), runs.tell(run.id, "its success is not that of its last holder")
        )
    if run.result is not None and run.result != str(run.token).encode():
        why = f"its result {run.result!r} is another attempt's"
        yield Violation("S25", format_run_id(run.id), runs.tell(run.id, why))


def _judge_failure(run: Run, spec: JobSpec, attempts: list[Attempt], runs: Runs) -> Iterator[Violation]:
    failures = sum(attempt.outcome in _FAILURES for attempt in attempts)
    is_spent = failures == spec.retry.max_retries + 1
    is_lost = spec.delivery is Delivery.AT_MOST_ONCE and bool(attempts)
    is_poison = run.reason == "poison" and run.crashes >= spec.poison_limit
    if not (is_spent or is_lost or is_poison or run.reason == "not_retryable"):
        why = f"FAILED ({run.reason}) after {failures} failures and {run.crashes} crashes"
        yield Violation("S13", format_run_id(run.id), runs.tell(run.id, why))


def _judge_retries(
    history: History, run: Run, spec: JobSpec, attempts: list[Attempt], runs: Runs
) -> Iterator[Violation]:
    failures = [attempt for attempt in attempts if attempt.outcome in _FAILURES]
    if len(failures) > spec.retry.max_retries + 1:
        yield Violation(
            "S8", format_run_id(run.id), runs.tell(run.id, f"{len(failures)} failures are too many")
        )
    losses = sum(attempt.outcome == "lost" for attempt in attempts)
    if losses > spec.poison_limit + 1:  # the first one in company, all others alone
        why = f"lost {losses} times, though {spec.poison_limit} crashes alone are the limit"
        yield Violation("S8", format_run_id(run.id), runs.tell(run.id, why))
    for attempt in failures:
        shortest = retry_delay(spec.retry, attempt.number, lambda: 0.0)
        later = [effect for effect in runs.effects.get(run.id, []) if effect.token > attempt.token]
        if later and later[0].started_at < attempt.finished_at + shortest - history.slack:
            why = f"token {later[0].token} started before its backoff of {shortest} was over"
            yield Violation("S8", format_run_id(run.id), runs.tell(run.id, why))


def judge_cancels(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S11: a cancel that was answered holds."""
    asked = {operation.run_id for operation in history.operations if operation.kind == "cancel"}
    for operation in history.operations:
        if operation.kind != "cancel" or operation.outcome != "ok" or operation.run_id is None:
            continue
        counts[f"cancels_{operation.answer}"] += 1
        run = runs.by_id.get(operation.run_id)
        if run is None:
            continue
        late = _starts_after(runs, operation, history.lease + history.slack)
        if late:
            yield Violation(
                "S11", format_run_id(run.id), runs.tell(run.id, "started after its cancel was answered")
            )
        if operation.answer == "cancelled" and run.state is not RunState.CANCELLED:
            yield Violation("S11", format_run_id(run.id), runs.tell(run.id, "cancelled, they said"))
        if operation.answer == "requested" and run.state not in {RunState.CANCELLED, RunState.SUCCEEDED}:
            yield Violation("S11", format_run_id(run.id), runs.tell(run.id, "its cancel was asked for"))
    for run in history.runs:
        if run.state is RunState.CANCELLED and run.id not in asked and run.reason != "job_deleted":
            yield Violation(
                "S11", format_run_id(run.id), runs.tell(run.id, "nobody asked for it to be cancelled")
            )


def _starts_after(runs: Runs, operation: Operation, grace: timedelta) -> list[Effect]:
    assert operation.run_id is not None
    limit = operation.answered_at + (timedelta(0) if operation.answer == "cancelled" else grace)
    slack = timedelta(milliseconds=1)
    return [effect for effect in runs.effects.get(operation.run_id, []) if effect.started_at > limit + slack]
