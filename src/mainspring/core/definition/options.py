"""The options of a job, each described once.

A new option is an attribute of `JobSpec`, which holds its default, an entry here, and an argument in
`sdk.definitions.JobOptions`. Bodies, edits, the kept form, the API's schema, the command line and the reference page
follow from the entry; a test compares the arguments.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any, ClassVar

from mainspring.core.definition.batch import BATCH
from mainspring.core.definition.limits import LimitList
from mainspring.core.definition.max_fires import MOST_FIRES
from mainspring.core.definition.notify import NOTIFY
from mainspring.core.definition.once import DEBOUNCE, THROTTLE, UNIQUE
from mainspring.core.definition.policies import CALENDARS, CATCH_UP, MISFIRE
from mainspring.core.definition.retry import RETRY
from mainspring.core.failures import MOST_FAILURES
from mainspring.core.fields import DAY, MAX_NAME, read_text
from mainspring.core.ids import looks_like_job_id, looks_like_run_id
from mainspring.core.kinds import Choice, Flag, Payload, Text, Whole, Word, Words
from mainspring.core.model import Delivery, JobSpec, Overlap, Priority
from mainspring.core.options import Option, Options
from mainspring.core.times import Duration
from mainspring.core.values import value
from mainspring.errors import InvalidInput


@value()
class Name(Text):
    """A job's name."""

    longest: int = MAX_NAME
    metavar: ClassVar[str] = "NAME"

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a name; what looks like an id is none, because whoever says it means the other one."""
        del old
        name = read_text(value, path, longest=self.longest)
        if not name.strip():
            raise InvalidInput(path, "is blank; give at least one character that can be seen")
        for owner, looks_like_id in (("job", looks_like_job_id), ("run", looks_like_run_id)):
            if looks_like_id(name):
                raise InvalidInput(path, f"{name!r} looks like a {owner}'s id; choose another name")
        return name


NAME = Option(
    name="name",
    kind=Name(),
    summary="The job's name.",
    detail=(
        "Unique among jobs that exist; not blank, and nothing that looks like an id "
        "(`job_` or `run_` and its 26 or 13 characters)."
    ),
    example="daily-report",
)
"""The one option that must be given."""


def _job_options(*options: Option) -> Options:
    """Return options whose defaults are those of `JobSpec`."""
    defaults = {field.name: field.default for field in fields(JobSpec)}
    apart = {"name", "target", "trigger"}
    assert defaults.keys() - apart == {option.name for option in options}, "options are JobSpec's attributes"
    return Options(*(replace(option, default=defaults[option.name]) for option in options))


OPTIONS = _job_options(
    Option(
        name="payload",
        kind=Payload(),
        summary="The JSON that the target gets, unless a run brings its own.",
    ),
    Option(
        name="priority",
        kind=Choice(Priority, by_name=True),
        summary="The tier in which its runs are claimed, or the name of a priority class.",
        detail=(
            "The values of [a class](../howto/preempt-batch-work.md#name-what-you-use-often) are copied when the "
            "job is written."
        ),
        example="HIGH",
    ),
    Option(
        name="queue",
        kind=Word(),
        summary="The queue of its runs.",
        detail="Workers may serve some queues only.",
    ),
    Option(
        name="labels",
        kind=Words(16, "labels"),
        summary="What a worker must offer to get its runs.",
        example=["gpu"],
    ),
    Option(
        name="retry",
        kind=RETRY,
        summary="What follows a failed attempt.",
        example={"max_retries": 5, "delay": "10s"},
    ),
    Option(
        name="misfire",
        kind=MISFIRE,
        summary="What becomes of fires that were missed.",
        example="fire_all",
    ),
    Option(
        name="catch_up",
        kind=CATCH_UP,
        summary="How fast missed fires are made up for, where each becomes a run.",
        detail="[Catch up after an outage](../howto/catch-up-after-an-outage.md) explains it.",
        example={"rate": "50/s", "max_live": 200},
    ),
    Option(
        name="overlap",
        kind=Choice(Overlap),
        summary="What becomes of a fire while an earlier run of the job is live.",
        detail=(
            "`skip`: it is recorded as skipped. `queue_one`: its run waits for the end of the other, but is skipped "
            "if one waits already. `queue_all`: all wait. `cancel_running`: it cancels the others and waits for their "
            "end. [Run one at a time](../howto/run-one-at-a-time.md) has examples."
        ),
        example="queue_one",
    ),
    Option(
        name="calendars",
        kind=CALENDARS,
        summary="Dates and hours at which the job may fire, or must not.",
        detail="[Skip holidays](../howto/skip-holidays.md) explains them.",
        example={"exclude": ["holidays-de"], "roll": "next"},
    ),
    Option(
        name="max_fires",
        kind=Whole(1, MOST_FIRES),
        summary="With a trigger that recurs: how many of its fires are to run. Then the job is finished.",
        detail="[Say when jobs fire](../howto/say-when.md#stop-after-so-many-fires) says what counts.",
        is_nullable=True,
        example=5,
    ),
    Option(
        name="delivery",
        kind=Choice(Delivery),
        summary="What becomes of a run whose worker is lost.",
    ),
    Option(
        name="timeout",
        kind=Duration(timedelta(milliseconds=1), 30 * DAY),
        summary="Hard limit of one attempt.",
        example="10m",
    ),
    Option(
        name="soft_timeout",
        kind=Duration(timedelta(milliseconds=1), 30 * DAY),
        summary="When to ask the job to end, before the hard limit.",
        detail="It must be shorter than `timeout`.",
        is_nullable=True,
        example="9m",
    ),
    Option(
        name="jitter",
        kind=Duration(high=timedelta(hours=1)),
        summary="Delay each fire by 0 to this much.",
        detail="The delay of a fire is the same on every node.",
        example="30s",
    ),
    Option(
        name="expires_after",
        kind=Duration(timedelta(milliseconds=1), 365 * DAY),
        summary="Skip a run that has not started this long after it was due.",
        detail=(
            "The time counts from when a fire was made up, if `fire_all` or an edit left it to be caught up. "
            "For the one run of `fire_latest` it counts from its fire time."
        ),
        is_nullable=True,
        example="1h",
    ),
    Option(
        name="poison_limit",
        kind=Whole(1, 100),
        summary="Fail a run after it has crashed this many workers, each while it was alone there. The steps that a"
        " durable function keeps start the count again.",
    ),
    Option(
        name="concurrency",
        kind=LimitList(),
        summary="How many of its runs may be under way at a time, and how often they may start.",
        detail=(
            "At most three [limits](../howto/limit-runs.md), each for the job or for a key out of the payload. "
            "A run starts when all have room."
        ),
        example=[{"key": "$.customer", "limit": 2}],
    ),
    Option(
        name="unique",
        kind=UNIQUE,
        summary="Make no second run of the same thing.",
        detail="It guards submissions, not fires. [Run it once](../howto/run-once.md) has examples.",
        is_nullable=True,
        example={"key": "$.order"},
    ),
    Option(
        name="debounce",
        kind=DEBOUNCE,
        summary="Make one run of many submissions, when no more have come for a while.",
        detail="The newest payload is used. Not with a trigger.",
        is_nullable=True,
        example={"key": "$.document", "wait": "5s"},
    ),
    Option(
        name="throttle",
        kind=THROTTLE,
        summary="Make at most so many runs in a time, and drop the other submissions.",
        detail="It guards submissions, not fires.",
        is_nullable=True,
        example={"key": "$.customer", "limit": 1, "per": "1h"},
    ),
    Option(
        name="pause_after_failures",
        kind=Whole(1, MOST_FAILURES),
        summary="Pause the job when so many of its runs in a row have failed, retries included.",
        detail="[Stop a broken job](../howto/stop-a-broken-job.md) says what counts.",
        is_nullable=True,
        example=5,
    ),
    Option(
        name="batch",
        kind=BATCH,
        summary="Give many runs to one call of the function.",
        detail=(
            "The call gets a list, and says for each run how it ended. "
            "[Handle many runs in one call](../howto/batch-runs.md) has examples."
        ),
        is_nullable=True,
        example={"size": 100, "wait": "2s"},
    ),
    Option(
        name="preempts",
        kind=Flag(),
        summary="Let its waiting runs take the slots of preemptible runs of lower tiers.",
        detail=(
            "In queues with `preempt_after`. Null: if the tier is HIGH. "
            "[Preempt batch work](../howto/preempt-batch-work.md) has examples."
        ),
        is_nullable=True,
    ),
    Option(
        name="preemptible",
        kind=Flag(),
        summary="Let its runs be stopped for more urgent work that waits for a slot, to start again later.",
        detail="Not with `delivery` `at_most_once`, nor with `batch`.",
    ),
    Option(
        name="notify",
        kind=NOTIFY,
        summary="Tell channels when it fails, is late or has recovered.",
        detail="[Be told when something fails](../howto/be-told-when-something-fails.md) has examples.",
        is_nullable=True,
        example={"to": ["ops"], "on": ["failed", "late", "recovered"], "late_after": "15m"},
    ),
    Option(
        name="metrics",
        kind=Flag(),
        summary="Count its runs, and tell when the last one succeeded, in figures with its name.",
        detail="For up to 500 jobs of a server. [Measure](../howto/measure.md#one-job) has examples.",
    ),
)
"""All others, in the order in which they are shown. Each has a default, that of `JobSpec`."""

_OLDEST = frozenset(
    (
        *("payload", "priority", "queue", "labels", "retry", "misfire", "overlap", "delivery"),
        *("timeout", "soft_timeout", "jitter", "expires_after", "poison_limit"),
    )
)
"""The options that servers of every release know. This list never grows."""
YOUNGER = frozenset(option.key for option in OPTIONS if option.name not in _OLDEST)
"""The fields of the others: a server of an earlier release does not send them, and then their defaults hold."""
