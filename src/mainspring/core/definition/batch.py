"""The option `batch`: how many runs of a job are given to one call of its function."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from mainspring.core.batching import LONGEST_WAIT, MOST_SIZE, BatchRule
from mainspring.core.definition.once import KeyText, make_rule_kind
from mainspring.core.kinds import Whole
from mainspring.core.model import Delivery, JobSpec
from mainspring.core.options import Option
from mainspring.core.times import Duration
from mainspring.errors import InvalidInput

BATCH = make_rule_kind(
    "batch",
    BatchRule,
    lambda rule, _: rule,
    Option(
        name="size",
        kind=Whole(2, MOST_SIZE),
        summary="The most runs of one call.",
        example=100,
    ),
    Option(
        name="wait",
        kind=Duration(high=LONGEST_WAIT),
        summary="How long the first of them may wait for others.",
        detail="A call does not wait any longer once `size` runs are there.",
        default=timedelta(seconds=1),
        example="2s",
    ),
    Option(
        name="key",
        kind=KeyText(),
        summary="Only runs with the same key share a call.",
        detail="Null is all runs of the job.",
        default=None,
        is_nullable=True,
        example="$.customer",
    ),
    short=None,
)


def check_batch(spec: JobSpec, body: Mapping[str, Any]) -> None:
    """Refuse a batch beside what does not go with it.

    Args:
        body: what the user wrote.

    Raises:
        InvalidInput: the field is one that the user wrote.
    """
    if spec.batch is None:
        return
    if spec.target.type != "function":
        message = (
            f"goes with a function, which can take many runs; the target is of type {spec.target.type!r}"
        )
        raise InvalidInput("batch", message)
    if "isolation" in spec.target.params:
        field = "isolation" if body.get("batch") is None else "batch"
        raise InvalidInput(
            field, "batch does not go with isolation, which is for single calls; take one of them away"
        )
    if spec.delivery is Delivery.AT_MOST_ONCE:
        field = "delivery" if body.get("batch") is None else "batch"
        message = (
            "batch does not go with delivery 'at_most_once': a call is repeated for the runs that failed"
        )
        raise InvalidInput(field, message)
    if spec.concurrency:
        field = "concurrency" if body.get("batch") is None else "batch"
        message = (
            "batch does not go with concurrency, which counts single runs; take one of them away, and bound the "
            "calls by the slots of the workers that serve the job's queue"
        )
        raise InvalidInput(field, message)
    if spec.overlap.lines_up:
        field = "overlap" if body.get("batch") is None else "batch"
        message = (
            f"batch does not go with overlap {spec.overlap.value!r}, which starts runs one by one; "
            "take one of them away"
        )
        raise InvalidInput(field, message)
