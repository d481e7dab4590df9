"""Why an artifact was not added: the same in both dialects."""

from __future__ import annotations

from mainspring.core.artifacts import ArtifactVerdict


def refusal_of(*, is_held: bool, is_taken: bool) -> ArtifactVerdict:
    """Return why an artifact was not added."""
    if not is_held:
        return ArtifactVerdict.STALE
    return ArtifactVerdict.TAKEN if is_taken else ArtifactVerdict.FULL
