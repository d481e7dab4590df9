"""What one run of the workflow must have come to, whatever was killed meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.etl.jobs import BAD, FILES

_ALWAYS = {"extract", "count", "compare", "stage", "load", "index", "tally", "tidy", "tell"}
_WELL = {"publish"}
_UNWELL = {"page", "unload", "unstage"}
_ORDER = (
    ("extract", "clean:f0"),
    ("count", "compare"),
    ("compare", "load"),
    ("stage", "load"),
    ("load", "index"),
    ("index", "publish"),
    ("index", "page"),
    ("page", "unload"),
    ("unload", "unstage"),
    ("unstage", "tidy"),
    ("publish", "tidy"),
    ("tidy", "tell"),
)
"""Which effect is only there after which other one."""
RESULT = {"cleaned": FILES - len(BAD), "bad": len(BAD), "checked": f"{FILES - len(BAD)} rows are right"}


@dataclass(frozen=True, slots=True)
class Effect:
    """A line that a function has written.

    Attributes:
        what: it has done.
        key: of its target. Attempts of one run have the same one.
    """

    what: str
    key: str


def read_effects(text: str) -> list[Effect]:
    """Return the effects that a file has, in their order."""
    return [Effect(*line.split(" ")) for line in text.splitlines()]


def of_run(effects: Iterable[Effect], run_id: str) -> list[Effect]:
    """Return the effects of a workflow's run, and of those within it."""
    return [effect for effect in effects if effect.key.split(".")[0] == run_id]


def judge(
    state: str, result: Mapping[str, Any] | None, effects: Sequence[Effect], *, fails: bool
) -> Iterator[str]:
    """Yield what is wrong with a run.

    Args:
        state: in which it has ended.
        effects: its own, in their order.
        fails: a step was told to fail.
    """
    expected = "FAILED" if fails else "SUCCEEDED"
    if state != expected:
        yield f"it is {state}, not {expected}"
    if not fails and result != RESULT:
        yield f"it returned {result}"
    keys: dict[str, set[str]] = {}
    for effect in effects:
        keys.setdefault(effect.what, set()).add(effect.key)
    wanted = {f"clean:f{number}" for number in range(FILES)} | _ALWAYS | (_UNWELL if fails else _WELL)
    if missing := sorted(wanted - keys.keys()):
        yield f"{len(missing)} effects are missing: {', '.join(missing[:5])}"
    if surplus := sorted(keys.keys() - wanted):
        yield f"there are effects that there should not be: {', '.join(surplus[:5])}"
    for what, found in keys.items():
        if len(found) > 1:
            yield f"{what} was done by {len(found)} runs"
    first = {effect.what: place for place, effect in reversed([*enumerate(effects)])}
    for before, after in _ORDER:
        if before in first and after in first and first[after] < first[before]:
            yield f"{after} was done before {before}"
