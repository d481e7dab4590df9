"""Rules of durable functions: what is kept of a step stands, its body never runs again, and sleeps are slept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from mainspring.core.ids import RunId
from mainspring.core.model import Attempt
from tools.judge.model import History, StepNote, Violation
from tools.judge.runs import Runs

SLEEP = "$sleep"
_Key = tuple[RunId, str, int]


def judge_kept_steps(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """W12, W7: judge all steps of durable functions, and their sleeps."""
    kept: dict[_Key, StepNote] = {}
    for note in history.steps:
        if note.what != "kept":
            continue
        if _key(note) in kept:
            yield _accuse(runs, "W12", note, "was kept twice")
        kept.setdefault(_key(note), note)
    counts["steps_kept"] += len(kept)
    yield from _judge_bodies(history, runs, kept, counts)
    yield from _judge_given(history, runs, kept, counts)
    yield from _judge_rest(history, runs, kept)


def _judge_bodies(
    history: History, runs: Runs, kept: Mapping[_Key, StepNote], counts: Counter[str]
) -> Iterator[Violation]:
    """W12: the body of a kept step ran in the attempt that kept it, once, and in no later one.

    One that had lost the run may still run it: it cannot know, and what it comes to is refused.
    """
    ran: dict[_Key, Counter[int]] = defaultdict(Counter)
    for note in history.steps:
        if note.what == "began":
            ran[_key(note)][note.token] += 1
    for key, tokens in ran.items():
        counts["step_bodies"] += tokens.total()
        counts["step_bodies_repeated"] += tokens.total() - 1
        own = kept.get(key)
        if own is None:
            continue
        again = [token for token in tokens if token > own.token]
        if again:
            yield _accuse(
                runs, "W12", own, f"was kept by token {own.token}, and ran again in token {again[0]}"
            )
        elif tokens[own.token] != 1:
            yield _accuse(
                runs, "W12", own, f"was kept by token {own.token}, and ran there {tokens[own.token]} times"
            )


def _judge_given(
    history: History, runs: Runs, kept: Mapping[_Key, StepNote], counts: Counter[str]
) -> Iterator[Violation]:
    """W12: a function gets what is kept, in each attempt. W7: it goes on only once its sleep is over."""
    for note in history.steps:
        if note.what != "given":
            continue
        own = kept.get(_key(note))
        if own is None:
            yield _accuse(runs, "W12", note, "was given to its function, and was not kept")
        elif note.name == SLEEP:
            counts["sleeps_judged"] += 1
            until = own.at + timedelta(seconds=float(str(note.value)))
            if note.at < until - history.slack:
                yield _accuse(runs, "W7", note, f"ended at {note.at.isoformat()}, before {until.isoformat()}")
        else:
            counts["steps_given_again"] += note.token > own.token
            if note.value != own.value:
                yield _accuse(runs, "W12", note, f"was given as {note.value!r}, and kept as {own.value!r}")


def _judge_rest(history: History, runs: Runs, kept: Mapping[_Key, StepNote]) -> Iterator[Violation]:
    """W12: in the end, all that was kept is there, and nothing else."""
    found = {
        (run_id, step.name, step.number): step for run_id, steps in history.kept.items() for step in steps
    }
    for key in kept.keys() ^ found.keys():
        run_id, name, number = key
        where = "on record, and nobody kept it" if key in found else "kept, and not on record in the end"
        yield runs.accuse("W12", run_id, f"step {name!r} {number} is {where}")


def losses_without_progress(attempts: Sequence[Attempt], steps: Sequence[StepNote]) -> int:
    """Return how often a run was lost since an attempt of it kept a step, that attempt included.

    What the last attempt kept is left out: it may have been kept after its loss was judged.
    """
    ordered = sorted(attempts, key=lambda attempt: attempt.token)
    if not ordered:
        return 0
    further = max((note.token for note in steps if note.token < ordered[-1].token), default=0)
    return sum(attempt.outcome == "lost" and attempt.token >= further for attempt in ordered)


def _key(note: StepNote) -> _Key:
    return note.run_id, note.name, note.number


def _accuse(runs: Runs, rule: str, note: StepNote, why: str) -> Violation:
    return runs.accuse(rule, note.run_id, f"step {note.name!r} {note.number} {why}")
