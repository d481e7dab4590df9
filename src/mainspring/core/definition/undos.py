"""What must be right about steps that undo others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

UNDOES = "undoes"
_SAYS_NOTHING = ("after", "rule", "at_end", "map", "allow_failure")


def undone_by(body: object) -> str | None:
    """Return the name of the step that one as it was written undoes; None if it undoes none."""
    name = body.get(UNDOES) if isinstance(body, Mapping) else None
    return name if isinstance(name, str) else None


def check_undos(
    bodies: Sequence[object],
    places: Mapping[str, int],
    path: str,
    add: Callable[[str, str], None],
    hint: Callable[[str, Collection[str]], str],
) -> None:
    """Refuse steps that undo what there is not, or what cannot be undone.

    Args:
        bodies: the steps as they were written.
        places: of the steps, by name.
        path: the field of the steps.
        add: takes the field and the message of each error.
        hint: asks whether another name was meant.
    """
    seen: dict[str, int] = {}
    for place, body in enumerate(bodies):
        name = undone_by(body)
        if name is None or not isinstance(body, Mapping):
            continue
        where = f"{path}[{place}]"
        message = _why_not(name, bodies, places, hint)
        if message is None and seen.setdefault(name, place) != place:
            message = f"{name!r} is undone by steps[{seen[name]}] already"
        if message is not None:
            add(f"{where}.{UNDOES}", message)
        for field in _SAYS_NOTHING:
            if body.get(field) not in (None, False, [], ()):
                add(
                    f"{where}.{field}",
                    f"does not go with {UNDOES!r}: an undo follows its step only; leave it out",
                )


def _why_not(
    name: str,
    bodies: Sequence[object],
    places: Mapping[str, int],
    hint: Callable[[str, Collection[str]], str],
) -> str | None:
    """Return why a step of this name cannot be undone."""
    if name not in places:
        return f"there is no step {name[:70]!r}{hint(name[:70], places)}"
    undone = bodies[places[name]]
    assert isinstance(undone, Mapping), "it has a name"
    if undone_by(undone) is not None:
        return f"{name!r} undoes another step itself"
    if undone.get("at_end") is True:
        return f"{name!r} runs at the end, after all undos"
    if undone.get("map") is not None:
        return f"{name!r} runs for many items; let a step after it be undone, which names them"
    return None
