"""Sums up what is wrong with the jobs of a store: a bounded list, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mainspring.core.job_warnings import JobWarning
from mainspring.core.values import value

MOST_PROBLEMS = 20
"""Different problems that are told of; the jobs of others are only counted."""
MOST_EXAMPLES = 3


@value(kw_only=True)
class JobProblem:
    """A problem that jobs have in common.

    Attributes:
        jobs: how many have it.
        examples: the names of the first of them, at most three.
    """

    code: str
    what: str
    sentence: str
    jobs: int
    examples: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from other problems."""
        return self.code, self.what


@value(kw_only=True)
class JobFindings:
    """What a look at all jobs has found.

    Attributes:
        jobs: how many jobs there are.
        warned: how many of them have a problem.
        problems: the different problems, at most 20, those of most jobs first.
    """

    looked_at: datetime
    jobs: int
    warned: int
    problems: tuple[JobProblem, ...]


@dataclass(slots=True)
class _Found:
    first: JobWarning
    jobs: int = 0
    examples: list[str] = field(default_factory=list)


class FindingsSoFar:
    """What a look has found until now. It goes from page to page of the jobs."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], _Found] = {}
        self._jobs = 0
        self._warned = 0

    def add(self, name: str, warnings: Sequence[JobWarning]) -> None:
        """Take a job in."""
        self._jobs += 1
        self._warned += bool(warnings)
        for one in warnings:
            key = one.code, one.what
            if key not in self._found and len(self._found) >= MOST_PROBLEMS:
                continue
            found = self._found.setdefault(key, _Found(one))
            found.jobs += 1
            if len(found.examples) < MOST_EXAMPLES:
                found.examples.append(name)

    def sum_up(self, looked_at: datetime) -> JobFindings:
        """Return what was found."""
        problems = [
            JobProblem(
                code=found.first.code,
                what=found.first.what,
                sentence=found.first.sentence,
                jobs=found.jobs,
                examples=tuple(found.examples),
            )
            for found in self._found.values()
        ]
        problems.sort(key=lambda one: (-one.jobs, one.key))
        return JobFindings(
            looked_at=looked_at, jobs=self._jobs, warned=self._warned, problems=tuple(problems)
        )
