"""From what a user wrote to a checked `Workflow`, and back. All that is wrong is told at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from mainspring.core.definition.forms import read_target
from mainspring.core.definition.options import OPTIONS
from mainspring.core.definition.retry import check_causes
from mainspring.core.definition.step_kinds import check_job_step, check_wait_step
from mainspring.core.definition.step_values import GIVEN, check_expressions, steps_named
from mainspring.core.definition.steps import (
    OTHER_STEP_NAMES,
    STEP_NAME,
    STEP_OPTIONS,
    known_step_fields,
    plain_from_step,
    step_from_plain,
)
from mainspring.core.definition.timeouts import check_timeouts
from mainspring.core.definition.undos import check_undos, undone_by
from mainspring.core.expressions import Compile
from mainspring.core.fields import check_known, encode_payload, kind, show_key
from mainspring.core.model import JobSpec, Target
from mainspring.core.options import Options
from mainspring.core.retry import RetryPolicy
from mainspring.core.targets import TARGETS, WORKFLOW, WorkflowType
from mainspring.core.targets.workflow import RESULT
from mainspring.core.workflows.graph import find_cycles
from mainspring.core.workflows.model import Workflow, WorkflowStep
from mainspring.core.workflows.rules import StepRule
from mainspring.errors import InvalidFields, InvalidInput

P = ParamSpec("P")
T = TypeVar("T")

MOST_STEPS = 1000
"""Steps of a workflow, unless a server says otherwise."""
MOST_BYTES = 1024 * 1024
"""Bytes of a workflow's full form, as JSON, unless a server says otherwise."""
MOST_ERRORS = 100
"""Errors that are told at once."""
NO_RETRY = RetryPolicy(max_retries=0)
"""Of a workflow as a whole."""
_OF_STEPS: Mapping[str, object] = MappingProxyType(
    {
        "retry": NO_RETRY,
        **{
            field.name: field.default
            for field in fields(JobSpec)
            if field.name in {"labels", "delivery", "timeout", "soft_timeout", "preempts", "preemptible"}
        },
    }
)
"""Fields of a job that say nothing for a workflow unless they are as here."""
FIELDS_OF_STEPS = frozenset(form for name in _OF_STEPS for form in OPTIONS.get(name).forms)
"""Their names in a body."""
WHOLE_OPTIONS = Options(*(option for option in WorkflowType.options if option.name != "steps"))
"""The options of a workflow as a whole, beside its steps."""
_OTHER_NAMES = MappingProxyType(
    {
        **dict.fromkeys(("timeout", "time_limit", "execution_timeout", "activeDeadlineSeconds"), "deadline"),
        **dict.fromkeys(("returns", "output", "outputs", "return"), "result"),
    }
)
"""The names that other tools have for them."""
_MOST_CYCLES = 10
_MOST_COMPARED = 5000
"""Names with which misspelt ones are compared, in all."""
_SHOWN_STEPS = 8
"""Steps of a cycle that are named: the first ones, and the last."""


class _Findings:
    """What is wrong, in the order in which it was found."""

    def __init__(self) -> None:
        self.errors: list[InvalidInput] = []
        self._compared = 0

    @property
    def are_many(self) -> bool:
        """Whether no more will be told."""
        return len(self.errors) >= MOST_ERRORS

    def add(self, field: str, message: str) -> None:
        self.errors.append(InvalidInput(field, message))

    def keep(self, path: str, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return what a reader returns; None if it finds an error, which is kept, its field below the path."""
        try:
            return read(*args, **kwargs)
        except InvalidInput as error:
            self.errors.append(type(error)(f"{path}.{error.field}", error.message))
            return None

    def hint(self, name: str, known: Collection[str]) -> str:
        """Ask whether the nearest name was meant. To compare many names with many takes seconds, so that ends."""
        from difflib import get_close_matches  # only a refusal needs it

        self._compared += len(known)
        near = get_close_matches(name, known, n=1) if self._compared <= _MOST_COMPARED else None
        return f"; did you mean {near[0]!r}?" if near else ""

    def tell(self) -> None:
        """Raise all, if there are any.

        Raises:
            InvalidFields: something is wrong.
        """
        if self.errors:
            raise InvalidFields(self.errors[:MOST_ERRORS])


def read_workflow(
    value: object,
    path: str = "workflow",
    *,
    types: frozenset[str] | None = None,
    functions: frozenset[str] | None = None,
    compile_: Compile | None = None,
    most_steps: int = MOST_STEPS,
    most_bytes: int = MOST_BYTES,
) -> Workflow:
    """Read a workflow.

    Args:
        value: what the user wrote: `{"steps": [...], ...}`, each step with its target in short or full form.
        path: where the user wrote it, for errors.
        types: target types that are accepted; None is all.
        functions: names of functions that are known; None is not to be checked.
        compile_: refuses expressions that are none; None: only the steps that they name are checked.

    Raises:
        InvalidFields: something is wrong. It has all errors, the first `MOST_ERRORS` if there are more.
    """
    findings = _Findings()
    bodies = _read_list(value, path, findings, most_steps)
    options = _read_options(value, path, findings)
    steps: list[WorkflowStep | None] = []
    for place, body in enumerate(bodies):
        steps.append(_read_step(body, f"{path}.steps[{place}]", findings, types, functions))
        if findings.are_many:
            findings.tell()
    links = _check_graph(bodies, f"{path}.steps", findings)
    if links is not None:
        result = _field(value, RESULT.name)
        known = _add_ended_before(bodies, links)
        check_expressions(
            bodies, known, result, path, compile_=compile_, add=findings.add, hint=findings.hint
        )
    findings.tell()
    assert links is not None, "a cycle is told"
    workflow = Workflow(_waiting_for([step for step in steps if step is not None], links), **options)
    size = len(encode_payload(plain_from_workflow(workflow)))
    if size > most_bytes:
        findings.add(path, f"has {size} bytes; at most {most_bytes} fit, put large data elsewhere")
    findings.tell()
    return workflow


def settle_retry(old: JobSpec | None, target: Target | None, values: dict[str, Any]) -> None:
    """Give a workflow no retries as a whole unless the user wrote otherwise, which `check_workflow` refuses.

    Args:
        old: the job that is changed; None for a new one.
        target: the one that is given; None if none is.
        values: the options that are given. The policy is added.
    """
    if target is None or "retry" in values:
        return
    was = old is not None and old.target.type == WORKFLOW
    if target.type == WORKFLOW and not was:
        values["retry"] = NO_RETRY
    elif was and target.type != WORKFLOW:
        values["retry"] = RetryPolicy()


def check_workflow(spec: JobSpec, body: Mapping[str, Any]) -> None:
    """Refuse what a workflow has for each step instead.

    Args:
        body: what the user wrote.

    Raises:
        InvalidInput: the field is one that the user wrote, if there is one.
    """
    if spec.target.type != WORKFLOW:
        return
    form = WORKFLOW if WORKFLOW in body else "target"
    for place, step in enumerate(spec.target.params.get("steps", ())):
        if step.get("job") == spec.name:
            raise InvalidInput(f"{form}.steps[{place}].job", "is this workflow itself, which would never end")
    for name, usual in _OF_STEPS.items():
        if getattr(spec, name) == usual:
            continue
        option = OPTIONS.get(name)
        field = next((form for form in option.forms if form in body), name)
        if name == "retry":
            message = (
                "a workflow is not repeated as a whole; give the steps a retry, and set max_retries to 0 here"
            )
            raise InvalidInput("retry.max_retries", message)
        if name in STEP_OPTIONS.by_form:
            message = "is for what a worker carries out; give it to the steps instead"
        else:
            message = "is for what a worker carries out, and a workflow waits for its steps without one"
        raise InvalidInput(field, message)


def _read_list(value: object, path: str, findings: _Findings, most: int) -> Sequence[object]:
    """Return the bodies of the steps."""
    if not isinstance(value, Mapping):
        findings.add(path, f"must be an object with steps, not {kind(value)}")
        return ()
    _check_fields(value, frozenset(WorkflowType.options.by_form), _OTHER_NAMES, path, findings)
    if "steps" not in value:
        findings.add(f"{path}.steps", "is missing; a workflow has at least one step")
        return ()
    bodies = value["steps"]
    if not isinstance(bodies, list | tuple) or not 1 <= len(bodies) <= most:
        found = f"{len(bodies)} of them" if isinstance(bodies, list | tuple) else kind(bodies)
        findings.add(f"{path}.steps", f"must be a list of 1 to {most} steps, not {found}")
        return ()
    return bodies


def _read_options(value: object, path: str, findings: _Findings) -> dict[str, Any]:
    """Return the options of a workflow as a whole."""
    given = (
        {name: one for name, one in value.items() if name != "steps"} if isinstance(value, Mapping) else {}
    )
    return findings.keep(path, WHOLE_OPTIONS.read_given, given, str) or {}


def _check_fields(
    body: Mapping[Any, Any], known: frozenset[str], others: Mapping[str, str], path: str, findings: _Findings
) -> None:
    """Refuse each field that does not exist."""
    for name in body:
        if name not in known and not findings.are_many:
            findings.keep(path, check_known, [name], known, others=others)


def _read_step(
    body: object,
    path: str,
    findings: _Findings,
    types: frozenset[str] | None,
    functions: frozenset[str] | None,
) -> WorkflowStep | None:
    """Return a step; None if anything of it is wrong."""
    if not isinstance(body, Mapping):
        findings.add(path, f"must be an object with a name and a target, not {kind(body)}")
        return None
    before = len(findings.errors)
    given = {name: value for name, value in body.items() if name != WORKFLOW}  # refused as its target
    _check_fields(given, known_step_fields(), OTHER_STEP_NAMES, path, findings)
    name = findings.keep(path, _read_name, body)
    target = None
    if body.get("wait") is not None:
        findings.keep(path, check_wait_step, body)
    elif body.get("job") is not None:
        findings.keep(path, check_job_step, body)
    else:
        target = findings.keep(path, _read_step_target, body, types, functions)
    values: dict[str, Any] = {}
    for option in STEP_OPTIONS:
        given = {form: body[form] for form in option.forms if form in body}
        if given:
            values |= findings.keep(path, STEP_OPTIONS.read_given, given, str) or {}
    if len(findings.errors) > before or name is None:
        return None
    step = WorkflowStep(name=name, target=target, **values)
    if step.given is not None and step.payload is not None:
        findings.add(
            f"{path}.{GIVEN.key}", "is instead of 'payload', which is given; put its fields in here, too"
        )
    if target is None:
        return step
    findings.keep(path, check_timeouts, step.timeout, step.soft_timeout, body)
    if step.retry.rules:
        findings.keep(path, check_causes, JobSpec(name=name, target=target, retry=step.retry), body)
    return step


def _read_name(body: Mapping[str, Any]) -> str:
    if STEP_NAME.name not in body:
        raise InvalidInput(STEP_NAME.name, "is missing; every step has a name")
    name: str = STEP_NAME.read(body[STEP_NAME.name], STEP_NAME.name)
    return name


def _read_step_target(
    body: Mapping[str, Any], types: frozenset[str] | None, functions: frozenset[str] | None
) -> Target:
    target = read_target(body, types=types, functions=functions, owner="step")
    if target is None:
        heads = [head for head in TARGETS.heads if head != WORKFLOW]
        raise InvalidInput(
            "target", f"is missing; give one of {', '.join([*heads, 'job', 'wait', 'target'])}"
        )
    return target


def _waiting_for(steps: Sequence[WorkflowStep], links: Sequence[list[int]]) -> tuple[WorkflowStep, ...]:
    """Return the steps with all their parents: those too that only their `with` names.

    For a step at the end, what is not at the end has ended anyway.
    """
    whole: list[WorkflowStep] = []
    for step, parents in zip(steps, links, strict=True):
        of_its_kind = [parent for parent in parents if steps[parent].at_end is step.at_end]
        names = [] if step.undoes is not None else [steps[parent].name for parent in of_its_kind]
        whole.append(step if len(step.after) == len(names) else replace(step, after=tuple(names)))
    return tuple(whole)


def _check_graph(bodies: Sequence[object], path: str, findings: _Findings) -> list[list[int]] | None:
    """Refuse names given twice, parents that do not exist, rules without parents, and cycles.

    It looks at what was written, also where other fields of a step are wrong. Return the parents of each step; None if
    there is a cycle.
    """
    places: dict[str, int] = {}
    for place, body in enumerate(bodies):
        name = _field(body, "name")
        if isinstance(name, str) and places.setdefault(name, place) != place:
            findings.add(
                f"{path}[{place}].name", f"{name[:70]!r} is the name of steps[{places[name]}] already"
            )
    links: list[list[int]] = []
    for place, body in enumerate(bodies):
        links.append(_find_parents(body, f"{path}[{place}]", bodies, places, findings))
        if findings.are_many:
            return None
    check_undos(bodies, places, path, findings.add, findings.hint)
    names = [str(_field(body, "name")) for body in bodies]
    cycles = list(find_cycles(links, _MOST_CYCLES))
    for cycle in cycles:
        after = _names_of(bodies[cycle[0]])
        parent = names[cycle[-1]]
        field = f"after[{after.index(parent)}]" if parent in after else steps_named(bodies[cycle[0]])[parent]
        findings.add(f"{path}[{cycle[0]}].{field}", f"cycle: {_show_cycle(cycle, names)}")
    lasts = [_field(body, "at_end") is True for body in bodies]
    waits_for_last = any(
        lasts[parent] > lasts[step] or undone_by(bodies[parent]) is not None
        for step, parents in enumerate(links)
        for parent in parents
    )
    return None if cycles or waits_for_last else links


def _add_ended_before(bodies: Sequence[object], links: Sequence[list[int]]) -> list[list[int]]:
    """Return the links with those from undos, and steps at the end, to what has ended when they start."""
    lasts = [_field(body, "at_end") is True for body in bodies]
    undoing = [undone_by(body) is not None and not last for body, last in zip(bodies, lasts, strict=True)]
    if not any(lasts) and not any(undoing):
        return list(links)
    undos = [place for place, is_undo in enumerate(undoing) if is_undo]
    work = [place for place in range(len(bodies)) if not lasts[place] and not undoing[place]]
    return [
        [*parents, *work, *undos] if lasts[place] else [*work] if undoing[place] else parents
        for place, parents in enumerate(links)
    ]


def _field(body: object, name: str) -> object:
    return body.get(name) if isinstance(body, Mapping) else None


def _names_of(body: object) -> list[Any]:
    """Return what a step names as its parents; nothing if that is no list."""
    after = _field(body, "after")
    return list(after) if isinstance(after, list | tuple) else []


def _find_parents(
    body: object, path: str, bodies: Sequence[object], places: Mapping[str, int], findings: _Findings
) -> list[int]:
    """Return the places of the parents that exist; refuse the others, and a rule that has none to judge."""
    found: dict[int, None] = {}
    for place, name in enumerate(_names_of(body)):
        if not isinstance(name, str) or findings.are_many:
            continue  # it is told already
        if name in places:
            found[places[name]] = None
            if (message := _why_not_after(body, bodies[places[name]], name)) is not None:
                findings.add(f"{path}.after[{place}]", message)
            continue
        message = f"there is no step {name[:70]!r}{findings.hint(name[:70], places)}"
        findings.add(f"{path}.after[{place}]", message)
    implied = {name: field for name, field in steps_named(body).items() if name in places}
    for name, field in implied.items():
        message = _why_not_after(body, bodies[places[name]], name)
        is_last = _field(body, "at_end") is True or undone_by(body) is not None
        if message is not None and not is_last:
            findings.add(f"{path}.{field}", message)
    found |= dict.fromkeys(places[name] for name in implied)
    rule = _field(body, "rule")
    if isinstance(rule, str) and rule in _IN_NEED and _field(body, "after") in (None, [], ()) and not implied:
        message = f"{rule!r} asks for the end of other steps; name them in 'after', or leave the rule out"
        findings.add(f"{path}.rule", message)
    return list(found)


def _why_not_after(body: object, parent: object, name: str) -> str | None:
    """Return why a step may not wait for another one: one of them runs at the end."""
    if undone_by(parent) is not None:
        return f"{name!r} runs only to undo another step; leave it out"
    is_last, is_parent_last = _field(body, "at_end") is True, _field(parent, "at_end") is True
    if is_last and not is_parent_last:
        return f"{name!r} has ended anyway when a step at the end starts; leave it out"
    if is_parent_last and not is_last:
        return f"{name!r} runs at the end, after this step; give this step 'at_end', too, or leave it out"
    return None


_IN_NEED = frozenset(rule.value for rule in StepRule if rule.needs_parents)


def _show_cycle(cycle: Sequence[int], names: Sequence[str]) -> str:
    shown = [show_key(names[step]) for step in cycle]
    if len(shown) > _SHOWN_STEPS:
        left_out = len(shown) - _SHOWN_STEPS
        shown = [*shown[: _SHOWN_STEPS - 1], f"({left_out} more)", shown[-1]]
    return " → ".join([*shown, shown[0]])


def plain_from_workflow(workflow: Workflow) -> dict[str, Any]:
    """Return the full form, which is kept and shown: dicts, lists, strings, numbers and None only."""
    plain: dict[str, Any] = {"steps": [plain_from_step(step) for step in workflow.steps]}
    for option in WHOLE_OPTIONS:
        given = getattr(workflow, option.name)
        if given != option.default:
            plain[option.key] = option.store(given)
    return plain


def workflow_from_plain(plain: Mapping[str, Any]) -> Workflow:
    """Read a full form that `plain_from_workflow` wrote; it is trusted, not checked."""
    steps = tuple([step_from_plain(step) for step in plain["steps"]])
    return Workflow(steps, **WHOLE_OPTIONS.load(plain))
