"""Commands: what people ask of a flow that is under way."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.workflows.mail import FlowNotice, Mail, SkipStep
from mainspring.core.workflows.state import StepStatus

_SKIPPABLE = frozenset({int(StepStatus.WAITING), int(StepStatus.READY), int(StepStatus.SUSPENDED)})
_PAUSED_AFTER = {FlowNotice.PAUSE: True, FlowNotice.RESUME: False, FlowNotice.CANCEL: False}


def is_paused_after(is_paused: bool, mails: Sequence[Mail]) -> bool:
    """Say whether a flow is paused after some mail: the last notice holds. A cancel ends a pause."""
    for mail in mails:
        if isinstance(mail, FlowNotice):
            is_paused = _PAUSED_AFTER.get(mail, is_paused)
    return is_paused


def skip_steps(steps: bytearray, mails: Sequence[Mail]) -> list[int]:
    """Give steps that are to be skipped, and have no run, their status, and return them."""
    skipped: list[int] = []
    for mail in mails:
        if isinstance(mail, SkipStep) and 0 <= mail.step < len(steps) and steps[mail.step] in _SKIPPABLE:
            steps[mail.step] = StepStatus.SKIPPED
            skipped.append(mail.step)
    return skipped


def can_skip(status: StepStatus) -> bool:
    """Say whether a step in this status may be skipped."""
    return status in _SKIPPABLE
