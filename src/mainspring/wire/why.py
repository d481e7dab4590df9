"""Why a run has not started, as the HTTP API shows it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.ids import format_run_id
from mainspring.core.why import Why, WhyCode
from mainspring.wire.views import Instant, RunIdText


class WhyView(Struct, kw_only=True):
    """What a run waits for, or what became of it."""

    code: Annotated[str, Meta(extra_json_schema={"enum": [code.value for code in WhyCode]})]
    sentence: str
    ahead: Annotated[
        int | None,
        Meta(
            description="How many runs stand before it, at most 1,000 are counted; null if that does not matter."
        ),
    ]
    until: Annotated[Instant | None, Meta(description="When it may start, as far as that is known.")]
    run_ids: Annotated[list[RunIdText], Meta(description="Runs that stand in its way, at most five.")]


def view_why(why: Why) -> WhyView:
    """Show an answer."""
    return WhyView(
        code=why.code.value,
        sentence=why.sentence,
        ahead=why.ahead,
        until=why.until,
        run_ids=[format_run_id(run_id) for run_id in why.holders],
    )
