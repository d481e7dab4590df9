"""O4: what FAILED is open, redriven by one run, or discarded; and redrives go through all that they mean."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import Run, RunKind
from mainspring.core.states import RunState
from tools.judge.model import ChangeKind, History, Violation
from tools.judge.runs import Runs

if TYPE_CHECKING:  # workers of earlier releases, which know of none of it, import the judge, too
    from mainspring.core.redrives import Redrive

_REDRIVABLE = frozenset({RunState.FAILED, RunState.CANCELLED})


def judge_dead_letters(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """O4, by what is on record in the end, and by what was answered before."""
    repeats: dict[RunId, list[Run]] = defaultdict(list)
    for run in history.runs:
        if run.redrive_of is not None:
            repeats[run.redrive_of].append(run)
            counts["runs_redriven"] += 1
        elif run.kind is RunKind.REDRIVE:
            yield runs.accuse("O4", run.id, "is a redrive that names no run")
    for run_id, found in repeats.items():
        original = runs.by_id.get(run_id)
        if original is None or original.state not in _REDRIVABLE:
            yield runs.accuse("O4", found[0].id, f"repeats {format_run_id(run_id)}, which has not failed")
    for run in history.runs:
        if run.state in _REDRIVABLE and (why := _what_is_wrong(history, run, repeats[run.id], counts)):
            yield runs.accuse("O4", run.id, why)
    for redrive in history.redrives:
        counts[f"redrives_{redrive.state}"] += 1
        if (why := _what_is_wrong_with(redrive, history)) is not None:
            yield Violation("O4", f"redrive {redrive.id}", (why,))


def _what_is_wrong(history: History, run: Run, repeats: Sequence[Run], counts: Counter[str]) -> str | None:
    if len(repeats) > 1:
        return f"is repeated by {' and '.join(format_run_id(one.id) for one in repeats)}"
    settled = history.settled.get(run.id)
    by = repeats[0].id if repeats else None
    if run.state is RunState.CANCELLED:
        return None if settled is None else f"is CANCELLED, and {settled.settlement} as a dead letter"
    told = "open" if settled is None else str(settled.settlement)
    counts[f"dead_letters_{told}"] += 1
    if (settled.redriven_as if settled is not None else None) != by:
        return f"is {told}, and repeated by {by and format_run_id(by)}"
    if run.id in history.discarded and told != "discarded":
        return f"was discarded, and is {told}"
    return None


def _what_is_wrong_with(redrive: Redrive, history: History) -> str | None:
    """Say what is wrong with a redrive when all has come to rest."""
    wanted, until = redrive.wanted, redrive.created_at - history.slack
    deleted = {change.job_id for change in history.changes if change.kind is ChangeKind.DELETED}
    meant = [
        run
        for run in history.runs
        if run.state is RunState.FAILED
        and run.tenant == redrive.tenant
        and wanted.job_id in {None, run.job_id}
        and run.id <= redrive.cursor
    ]
    settled = ((run, history.settled.get(run.id)) for run in meant)
    done = [
        (run, one)
        for run, one in settled
        if one is not None
        and one.redriven_as is not None
        and one.at >= redrive.created_at
        and run.finished_at is not None
        and (wanted.until is None or run.finished_at < wanted.until)
    ]
    if redrive.done > len(done):
        return f"says that {redrive.done} are redriven; {len(done)} are"
    if redrive.state == "running":
        return "is running, though all has come to rest"
    if redrive.state != "done" or redrive.closed_at is None:
        return None
    # What another redrive did after this one was done is not among what it has counted.
    before = redrive.closed_at - history.slack
    sure = sum(one.at < before and _was_known(run, redrive, history) for run, one in done)
    if redrive.done < sure:
        return f"says that {redrive.done} are redriven; at least {sure} are"
    for run in meant:
        is_open = run.id not in history.settled and run.job_id not in deleted
        if (
            is_open
            and run.finished_at is not None
            and run.finished_at < until
            and _was_known(run, redrive, history)
        ):
            return f"is done, and has left out {format_run_id(run.id)}"
    return None


def _was_known(run: Run, redrive: Redrive, history: History) -> bool:
    """Say whether a run's end was committed when a redrive was made, whatever the clocks said."""
    place = history.redrive_places.get(redrive.id)
    if place is None:
        return False
    return any(event.run_id == run.id and event.target is RunState.FAILED for event in history.events[:place])
