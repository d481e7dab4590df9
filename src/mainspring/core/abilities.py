"""Abilities: labels that workers offer by what they are, and that jobs require by what they ask for.

Users can neither offer nor require one by its name, since no label of theirs begins with a star. Workers of older
releases offer none that is younger than they are, so they get no runs that they could not execute.
"""

from __future__ import annotations

from collections.abc import Iterable

RUNS_PROCESSES = "*process"
"""Of workers that call functions in processes of their own."""

_REMEDIES = {
    RUNS_PROCESSES: "calls functions in processes of their own: set executors.process.enabled on a worker"
}


def is_ability(label: str) -> bool:
    """Say whether a label is an ability."""
    return label.startswith("*")


def plain_labels(labels: Iterable[str]) -> list[str]:
    """Return the labels that users have given."""
    return [label for label in labels if not is_ability(label)]


def explain_missing(labels: Iterable[str]) -> str | None:
    """Say what a worker lacks that does not offer these labels, and what to do; None if users know them by name."""
    return next((_REMEDIES[label] for label in sorted(labels) if label in _REMEDIES), None)
