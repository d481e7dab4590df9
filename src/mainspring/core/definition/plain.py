"""The full form of a definition, and back: an exact round trip."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from operator import itemgetter
from typing import Any

from mainspring.core.definition.options import OPTIONS
from mainspring.core.definition.policies import Group
from mainspring.core.fields import decode_payload, encode_payload
from mainspring.core.kinds import Schema
from mainspring.core.model import JobSpec, Target
from mainspring.core.options import Option, Options
from mainspring.core.triggers import load_trigger, store_trigger

_REMEMBERED = 1024
"""Sets of options of which one serves all definitions: most are alike, and a scheduler holds many."""


def plain_from_spec(spec: JobSpec, show_payload: Callable[[bytes], Any] = decode_payload) -> dict[str, Any]:
    """Return the full form: dicts, lists, strings, numbers and None only.

    Args:
        show_payload: makes of a payload's JSON text what stands in the full form. An encoder that can take the text as
            it is need not decode it first.
    """
    plain: dict[str, Any] = {
        "name": spec.name,
        "target": {"type": spec.target.type, **spec.target.params},
        "trigger": store_trigger(spec.trigger),
        "payload": None if spec.payload is None else show_payload(spec.payload),
    }
    _SHARED.store_into(plain, spec)
    return plain


def spec_from_plain(plain: Mapping[str, Any]) -> JobSpec:
    """Read a full form that `plain_from_spec` wrote, of this release or an earlier one; it is trusted, not checked."""
    payload = plain["payload"]
    return JobSpec(
        name=plain["name"],
        target=target_from_plain(plain["target"]),
        trigger=load_trigger(plain["trigger"]),
        payload=None if payload is None else encode_payload(payload),
        **options_from_plain(plain),
    )


def target_from_plain(plain: Mapping[str, Any]) -> Target:
    """Read the target of a full form."""
    params = dict(plain)
    return Target(params.pop("type"), params)


def options_from_plain(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read all options of a full form but the payload: the arguments for a `JobSpec`."""
    try:
        return _known[_identify(plain)]
    except KeyError:
        return _load_options(plain)


_SCALARS = frozenset({"string", "integer", "number", "boolean"})
_SHARED = Options(*(option for option in OPTIONS if option.name != "payload"))


def make_identify(options: Options) -> Callable[[Mapping[str, Any]], Hashable]:
    """Make what says which kept forms have the same options, in much less time than reading them takes.

    Raises:
        AssertionError: the kept form of an option is one that this cannot compare.
    """
    groups = [(option.key, option.kind.options) for option in options if isinstance(option.kind, Group)]
    nested = [option.key for option in options if option.kind.is_nested]
    scalars, lists = _split(
        option for option in options if not isinstance(option.kind, Group) and not option.kind.is_nested
    )
    insides = [
        (
            key,
            *_split(option for option in inner if not option.kind.is_nested),
            [option.key for option in inner if option.kind.is_nested],
        )
        for key, inner in groups
    ]

    def identify(plain: Mapping[str, Any]) -> Hashable:
        found: list[Hashable] = [scalars(plain)]
        for key in lists:
            found.append(tuple(plain[key]))  # noqa: PERF401 - dearer for one
        for key in nested:
            found.append(_freeze(plain[key]) if plain[key] else ())  # noqa: PERF401 - the same
        for group, inner_scalars, inner_lists, inner_nested in insides:
            inside = plain.get(group)
            if inside is None:  # a rule that this job has not, or that is younger than what is kept
                found.append(None)
                continue
            found.append(inner_scalars(inside))
            for key in inner_lists:
                found.append(tuple(inside[key]))  # noqa: PERF401 - the same
            for key in inner_nested:  # left out where empty
                found.append(_freeze(inside.get(key, [])))  # noqa: PERF401 - the same
        return tuple(found)

    return identify


def _freeze(plain: Any) -> Hashable:
    """Return what is equal for equal kept forms, and has a hash."""
    if isinstance(plain, Mapping):
        return tuple((name, _freeze(item)) for name, item in sorted(plain.items()))
    return tuple(map(_freeze, plain)) if isinstance(plain, list) else (type(plain), plain)


def _split(options: Iterable[Option]) -> tuple[Callable[[Mapping[str, Any]], tuple[Any, ...]], list[str]]:
    """Return what gets the values of the options whose kept form is no list, and the keys of the others."""
    every = list(options)
    lists = [option.key for option in every if _is_list(option)]
    return itemgetter(*(option.key for option in every if option.key not in lists)), lists


def _is_list(option: Option) -> bool:
    """Say whether the kept form is a list. Any other that has no hash would fail with the first job that is read."""
    schema = option.kind.stored_schema()
    if _is_scalar(schema):
        return False
    is_plain_list = schema.get("type") == "array" and _is_scalar(schema.get("items", {}))
    assert is_plain_list, (
        f"option {option.name!r}: its kept form must be text, a number, true or false, or a list of these"
    )
    assert not option.is_nullable, (
        f"option {option.name!r}: a list must not be null; let the empty list mean none"
    )
    return True


def _is_scalar(schema: Schema) -> bool:
    return schema.get("type") in _SCALARS


_identify = make_identify(_SHARED)
_known: dict[Hashable, dict[str, Any]] = {}


def _load_options(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all options but the payload, and remember them."""
    values = _SHARED.load(plain)
    try:
        identity = _identify(plain)
    except KeyError:  # an option is younger than what is kept: it has its default
        return values
    if len(_known) >= _REMEMBERED:
        _known.clear()
    _known[identity] = values
    return values
