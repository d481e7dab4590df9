"""A step of a workflow in words: its options, how it is read, and the form that is kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, ClassVar

from mainspring.core.definition.maps import MAP
from mainspring.core.definition.options import NAME, OPTIONS
from mainspring.core.definition.plain import target_from_plain
from mainspring.core.definition.step_values import GIVEN, WHEN
from mainspring.core.definition.waits import WAIT
from mainspring.core.fields import kind
from mainspring.core.kinds import Choice, Flag, Kind, Schema, Text
from mainspring.core.options import Option, Options
from mainspring.core.targets import TARGETS, WORKFLOW, TargetType
from mainspring.core.values import value
from mainspring.core.workflows.model import WorkflowStep
from mainspring.core.workflows.rules import StepRule
from mainspring.errors import InvalidInput

_LONGEST_NAME = 63
_NAME = re.compile(rf"[a-z][a-z0-9_]{{0,{_LONGEST_NAME - 1}}}", re.ASCII)


@value()
class StepName(Text):
    """The name of a step: one that expressions can hold as it is."""

    longest: int = _LONGEST_NAME
    metavar: ClassVar[str] = "NAME"

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a name."""
        del old
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            shown = repr(value[:70]) if isinstance(value, str) else kind(value)
            raise InvalidInput(path, f"must be {self._right()}, not {shown}")
        return value

    def _right(self) -> str:
        return f"1 to {self.longest} of a-z 0-9 _, with a letter first"

    def schema(self) -> Schema:
        """Return the schema of such text."""
        return {"type": "string", "pattern": f"^{_NAME.pattern}$"}

    def limits(self) -> str:
        """Say which characters it may have."""
        return f"1 to {self.longest} of `a-z 0-9 _`, with a letter first"


@value()
class StepNames(Kind):
    """A list of steps' names, in the order given. Whether there are such steps is for the whole workflow to say."""

    metavar: ClassVar[str] = "NAME"
    is_json: ClassVar[bool] = False
    is_list: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> tuple[str, ...]:
        """Read names, each once."""
        del old
        if not isinstance(value, list | tuple):
            raise InvalidInput(path, f"must be a list of steps' names, not {kind(value)}")
        places: dict[str, int] = {}
        for place, name in enumerate(value):
            if not isinstance(name, str):
                raise InvalidInput(f"{path}[{place}]", f"must be the name of a step, not {kind(name)}")
            if name in places:
                raise InvalidInput(f"{path}[{place}]", f"names {name[:70]!r} again; name each step once")
            places[name] = place
        return tuple(places)

    def store(self, value: tuple[str, ...]) -> list[str]:
        """Return a list."""
        return list(value)

    def load(self, plain: list[str]) -> tuple[str, ...]:
        """Return the names."""
        return tuple(plain)

    def schema(self) -> Schema:
        """Return a list's schema."""
        return {"type": "array", "items": StepName().schema()}

    def limits(self) -> str:
        """Say what they name."""
        return "names of other steps"


def _of_job(name: str, **changes: Any) -> Option:
    """Return an option of a job that a step has, too."""
    return replace(OPTIONS.get(name), **changes)


def _step_options(*options: Option) -> Options:
    """Return options whose defaults are those of `WorkflowStep`."""
    defaults = {field.name: field.default for field in fields(WorkflowStep)}
    assert defaults.keys() - {"name", "target"} == {option.name for option in options}
    return Options(*(replace(option, default=defaults[option.name]) for option in options))


STEP_NAME = Option(
    name="name",
    kind=StepName(),
    summary="The step's name.",
    detail="Unique within the workflow.",
    example="extract",
)
STEP_OPTIONS = _step_options(
    Option(
        name="job",
        kind=NAME.kind,
        summary="The name of another job, to run that instead of a target.",
        detail="Its newest version when the step starts. That job says where and how its run goes.",
        is_nullable=True,
        example="clean-file",
    ),
    Option(
        name="wait",
        kind=WAIT,
        summary="What it waits for, instead of running anything.",
        detail="[Wait in a workflow](../howto/wait-in-a-workflow.md) has examples.",
        is_nullable=True,
        example={"approval": {"by": ["anna"]}, "timeout": "2d"},
    ),
    Option(
        name="after",
        kind=StepNames(),
        summary="The steps whose ends it waits for.",
        example=["extract"],
    ),
    Option(
        name="rule",
        kind=Choice(StepRule),
        summary="What it asks of the steps that it waits for.",
        detail="What fits no longer is skipped, or has failed upstream.",
        example="all_done",
    ),
    Option(
        name="allow_failure",
        kind=Flag(),
        summary="Let the workflow succeed although this step has failed.",
    ),
    WHEN,
    Option(
        name="at_end",
        kind=Flag(),
        summary="Run it once all other steps have ended, whatever has happened.",
        detail="Also after a cancel, and after the deadline. `after` may name other steps at the end only.",
    ),
    Option(
        name="undoes",
        kind=StepName(),
        summary="The step that it undoes, if that has succeeded and the workflow does not.",
        detail="It waits for nothing else. [Undo what was done](../howto/undo-what-was-done.md) has an example.",
        is_nullable=True,
        example="charge",
    ),
    Option(
        name="map",
        kind=MAP,
        summary="For which items it runs, each in a run of its own.",
        detail="[Run one step for each of many files](../howto/one-run-for-each-item.md) has examples.",
        is_nullable=True,
        example={"over": ["a.csv", "b.csv"], "max_parallel": 50},
    ),
    _of_job(
        "payload",
        summary="The JSON that its target gets.",
        detail=(
            "Null: that of the workflow's run, or of the job that it runs. Where both are objects, its fields go over "
            "those of the job, and those of an item over both."
        ),
    ),
    GIVEN,
    _of_job(
        "priority",
        summary="The tier in which its runs are claimed.",
        is_nullable=True,
        detail="Null: that of the workflow.",
    ),
    _of_job("queue", is_nullable=True, detail="Null: that of the workflow."),
    _of_job("labels"),
    _of_job("retry"),
    _of_job("delivery"),
    _of_job("timeout"),
    _of_job("soft_timeout"),
)
"""All options but the name, in the order in which they are shown. Each has a default, that of `WorkflowStep`."""

OF_JOB = frozenset({"priority", "queue", "labels", "retry", "delivery", "timeout", "soft_timeout"})
"""Options that a step which runs a job has not: that job has them."""
OF_RUNS = OF_JOB | {"payload", "given", "map"}
"""Options that a step which waits has not: it has no runs."""

OTHER_STEP_NAMES = MappingProxyType(
    {
        **dict.fromkeys(
            ("needs", "depends", "depends_on", "dependsOn", "dependencies", "parents", "upstream"), "after"
        ),
        **dict.fromkeys(("undo", "undo_of", "compensates", "compensation", "rollback"), "undoes"),
        **dict.fromkeys(("finally", "is_teardown", "onExit", "on_exit"), "at_end"),
        **dict.fromkeys(("trigger_rule", "triggerRule"), "rule"),
        **dict.fromkeys(
            ("continue_on_error", "continueOn", "allowFailure", "ignore_failure"), "allow_failure"
        ),
        **dict.fromkeys(("id", "task_id", "step"), "name"),
        **dict.fromkeys(("retries", "max_retries", "max_attempts"), "retry.max_retries"),
        "soft_time_limit": "soft_timeout",
        **dict.fromkeys(("time_limit", "execution_timeout"), "timeout"),
        **dict.fromkeys(("url", "webhook", "endpoint"), "callback_url"),
        **dict.fromkeys(("func", "task", "callable", "handler"), "function"),
        **dict.fromkeys(("cmd", "script", "exec"), "command"),
        **dict.fromkeys(
            ("foreach", "for_each", "forEach", "matrix", "with_items", "withItems", "expand"), "map"
        ),
        **dict.fromkeys(("job_name", "template", "flow", "subflow", "sub_workflow"), "job"),
        **dict.fromkeys(("args", "kwargs", "data", "params", "input"), "payload"),
        **dict.fromkeys(("suspend", "delay", "sensor", "wait_for", "waitFor"), "wait"),
        **dict.fromkeys(("if", "condition", "run_if", "skip_unless"), "when"),
        **dict.fromkeys(("arguments", "inputs", "parameters"), "with"),
    }
)
"""The names that other tools have for the fields of a step: only a refusal looks them up."""


def known_step_fields() -> frozenset[str]:
    """Return the names of all fields of a step's body, short forms included."""
    of_targets = [field for target in _targets() for field, _ in target.short_options]
    return frozenset({STEP_NAME.name, *STEP_OPTIONS.by_form, "target", *of_targets})


def _targets() -> list[TargetType]:
    """Return the types that a step's target may have."""
    return [target for target in TARGETS if target.name != WORKFLOW]


def step_schema() -> Schema:
    """Return the JSON schema of a step as a user may write it."""
    properties: Schema = {STEP_NAME.name: STEP_NAME.schema()}
    for target in _targets():
        properties |= {field: option.schema() for field, option in target.short_options}
    forms = [{**one.options.schema(type=one.name), "description": one.summary} for one in _targets()]
    properties["target"] = {"anyOf": forms, "description": "What to run, in full form."}
    properties |= {option.forms[0]: option.schema() for option in STEP_OPTIONS}
    return {"type": "object", "properties": properties, "required": [STEP_NAME.name]}


def plain_from_step(step: WorkflowStep) -> dict[str, Any]:
    """Return the full form of a step. What is as its default is left out, because there may be a thousand steps."""
    plain: dict[str, Any] = {"name": step.name}
    if step.target is not None:
        plain["target"] = {"type": step.target.type, **step.target.params}
    for option in STEP_OPTIONS:
        given = getattr(step, option.name)
        if given != option.default:
            plain[option.key] = option.store(given)
    return plain


def step_from_plain(plain: Mapping[str, Any]) -> WorkflowStep:
    """Read what `plain_from_step` wrote; it is trusted, not checked."""
    target = target_from_plain(plain["target"]) if "target" in plain else None
    return WorkflowStep(name=plain["name"], target=target, **STEP_OPTIONS.load(plain))
