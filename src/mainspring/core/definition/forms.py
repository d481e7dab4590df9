"""Short and full forms: which target a body means, and what a patch replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.core.expressions import Compile
from mainspring.core.fields import encode_payload, read_mapping
from mainspring.core.model import INLINE_LIMIT, Target
from mainspring.core.options import Path
from mainspring.core.targets import TARGETS, WORKFLOW, TargetType, WorkflowType, unknown_type
from mainspring.core.types import Types
from mainspring.errors import InvalidInput

_SMALL = 4096
"""Characters of a text; some of them fit in any case."""


def replacing_only(patch: Mapping[str, Any], full: Sequence[str], types: Types[Any]) -> Mapping[str, Any]:
    """Return a patch without the nulls that only remove what it replaces, like `cron` in `{"cron": null, "every": 7}`.

    If every form that the patch gives is null, the first one stays.

    Args:
        full: the field of the full form, `trigger` or `target`, and others that stand for any type.
    """
    given = [name for name in (*full, *types.heads) if name in patch]
    kept = [name for name in given if patch[name] is not None] or given[:1]
    if not kept:
        return patch
    removed = {name for name in given if name not in kept}
    removed.update(
        name
        for name in types.companions
        if name in patch
        and patch[name] is None
        and not any(owner.head in kept for owner in types.by_field[name])
    )
    return {name: value for name, value in patch.items() if name not in removed}


def read_target(
    body: Mapping[str, Any],
    *,
    types: frozenset[str] | None,
    functions: frozenset[str] | None,
    compile_: Compile | None = None,
    owner: str = "job",
) -> Target | None:
    """Return the target of a body in short or full form; None when it gives none.

    Args:
        compile_: refuses expressions of workflows that are none; None: they are not looked at.
        owner: what the body defines, for errors.

    Raises:
        InvalidInput: more than one is given, or the one given is wrong. Of a workflow, `InvalidFields` has all errors.
    """
    given = [name for name in ("target", *TARGETS.heads) if name in body]
    if len(given) > 1:
        raise InvalidInput(given[1], f"a {owner} has one target; {given[0]!r} is given already")
    for field in TARGETS.companions:
        if field in body and not any(owner.head in given for owner in TARGETS.by_field[field]):
            raise InvalidInput(field, _goes_with(field, given))
    if not given:
        return None
    form = given[0]
    if form != "target":
        kind = TARGETS.of_head(form)
        if types is not None and kind.name not in types:
            raise InvalidInput(form, unknown_type(kind.name, types))
        if isinstance(kind, WorkflowType):
            return _make_workflow(
                kind, body[form], form, types=types, functions=functions, compile_=compile_, owner=owner
            )
        return _make_target(kind, kind.read_short(body), kind.path_of_short, functions, form)
    full = read_mapping(body["target"], "target")
    name = full.get("type")
    if not isinstance(name, str) or name not in TARGETS.by_name or (types is not None and name not in types):
        raise InvalidInput("target.type", unknown_type(name, types))
    kind, path = TARGETS.by_name[name], _path_of_full("target")
    given_of = {field: value for field, value in full.items() if field != "type"}
    if isinstance(kind, WorkflowType):
        return _make_workflow(
            kind, given_of, "target", types=types, functions=functions, compile_=compile_, owner=owner
        )
    values = kind.options.read_all(given_of, path)
    return _make_target(kind, values, path, functions, "target")


def _make_workflow(
    kind: WorkflowType,
    body: object,
    form: str,
    *,
    types: frozenset[str] | None,
    functions: frozenset[str] | None,
    compile_: Compile | None,
    owner: str,
) -> Target:
    if owner == "step":
        field = "target.type" if form == "target" else form
        raise InvalidInput(field, "is for a job: a step calls a function or an URL, or runs a command")
    params = kind.read_body(body, form, types=types, functions=functions, compile_=compile_)
    return Target(WORKFLOW, params)


def _goes_with(field: str, given: Sequence[str]) -> str:
    """Say what is missing beside a field of a target's short form, and what to do."""
    heads = TARGETS.owners(field)
    if not given:
        return f"goes with {heads}, which is not given; add {heads}, or remove {field}"
    return f"goes with {heads}, not with {given[0]}; remove {field}, or give {heads} instead of {given[0]}"


def _make_target(
    kind: TargetType, values: Mapping[str, Any], path: Path, functions: frozenset[str] | None, form: str
) -> Target:
    params = kind.make(values, path, functions=functions)
    if not _is_small(params) and (size := len(encode_payload(params))) > INLINE_LIMIT:
        raise InvalidInput(form, f"has {size} bytes; at most {INLINE_LIMIT} fit, put large data elsewhere")
    return Target(kind.name, params)


def _is_small(params: Mapping[str, Any]) -> bool:
    """Say whether the size of parameters is beyond doubt: most are a short text or two."""
    return all(len(value) <= _SMALL if isinstance(value, str) else not value for value in params.values())


def _path_of_full(field: str) -> Path:
    return lambda name: f"{field}.{name}"
