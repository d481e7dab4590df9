"""Reads the definitions of jobs that users send, by what this server accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from mainspring.core.definition import edit_definition, read_definition
from mainspring.core.model import JobSpec
from mainspring.core.targets import WORKFLOW, accepted_types
from mainspring.core.triggers import Trigger
from mainspring.core.values import value
from mainspring.engine.common.group_commit import GroupCommit
from mainspring.engine.usecases.priority_classes import copy_classes
from mainspring.errors import InvalidFields, InvalidInput
from mainspring.ports.expressions import Expressions
from mainspring.ports.store import Store


@value(kw_only=True)
class Accepted:
    """What a server accepts in definitions.

    Attributes:
        types: target types. Those with a switch, like `shell`, are included only if the switch is on.
        expressions: compiles those of workflows; None: they are not looked at.
        functions: returns the names of the Python functions of this process. Those of live sessions count, too.
        check_url: checks the form of a callback URL; raises `InvalidInput`. None accepts every URL.
    """

    types: frozenset[str] = field(default_factory=accepted_types)
    expressions: Expressions | None = None
    functions: Callable[[], frozenset[str]] = frozenset
    check_url: Callable[[str], None] | None


_NAMING_FUNCTIONS = ("function", "target", WORKFLOW)
"""Fields in which a body may name functions."""


class DefinitionReader:
    """Reads definitions. What they refer to is looked up once, by `prepare`; then they may be read again and again."""

    def __init__(self, store: Store, accepted: Accepted) -> None:
        self._store = store
        self._accepted = accepted
        self._compile = None if accepted.expressions is None else accepted.expressions.compile
        # Many clients may add one job each.
        self._function_reads: GroupCommit[str, frozenset[str]] = GroupCommit(self._list_functions)

    async def prepare(
        self, tenant: str, bodies: Sequence[Mapping[str, Any]], *, are_numbered: bool = False
    ) -> tuple[list[Mapping[str, Any]], frozenset[str]]:
        """Return definitions or patches with the values of the priority classes they name, and the known functions.

        Args:
            are_numbered: the field of the error begins with the place of the body.

        Raises:
            InvalidInput: there is no such class.
        """
        functions = await self._known_functions(tenant, bodies)
        return await copy_classes(self._store, bodies, are_numbered=are_numbered), functions

    def read(
        self,
        body: Mapping[str, Any],
        *,
        now: datetime,
        functions: frozenset[str],
        tenant: str,
        index: int | None = None,
        old: Trigger | None = None,
        may_be_over: bool = False,
    ) -> JobSpec:
        """Return what a whole definition says.

        Args:
            functions: those that are known.
            tenant: the job's.
            index: its place among several, with which the field of an error begins.
            old: the trigger that the job has by now; it may have passed.
            may_be_over: another one may have passed, too.

        Raises:
            InvalidInput: a field is wrong.
        """
        try:
            spec = read_definition(
                body,
                now=now,
                types=self._accepted.types,
                functions=functions,
                compile_=self._compile,
                old=old,
                tenant=tenant,
                may_be_over=may_be_over,
            )
            self._check_urls(spec, body)
        except InvalidInput as error:
            if index is None:
                raise
            raise error.renamed(lambda field: f"[{index}].{field}") from error
        return spec

    def edit(
        self,
        spec: JobSpec,
        patch: Mapping[str, Any],
        *,
        now: datetime,
        functions: frozenset[str],
        tenant: str,
    ) -> JobSpec:
        """Return a definition as a patch changes it.

        Raises:
            InvalidInput: a field is wrong.
        """
        edited = edit_definition(
            spec,
            patch,
            now=now,
            types=self._accepted.types,
            functions=functions,
            compile_=self._compile,
            tenant=tenant,
        )
        self._check_urls(edited, patch)
        return edited

    def replace(
        self,
        spec: JobSpec,
        body: Mapping[str, Any],
        *,
        now: datetime,
        functions: frozenset[str],
        tenant: str,
    ) -> JobSpec:
        """Return what a whole definition says that comes instead of another.

        Raises:
            InvalidInput: a field is wrong.
        """
        return self.read(body, now=now, functions=functions, tenant=tenant, old=spec.trigger)

    def _check_urls(self, spec: JobSpec, body: Mapping[str, Any]) -> None:
        check = self._accepted.check_url
        if check is None:
            return
        errors = []
        for path, url in _find_urls(spec, body):
            try:
                check(url)
            except InvalidInput as error:
                errors.append(InvalidInput(path, error.message))
        if errors:
            raise InvalidFields(errors) if len(errors) > 1 else errors[0]

    async def _known_functions(self, tenant: str, bodies: Sequence[Mapping[str, Any]]) -> frozenset[str]:
        own = self._accepted.functions()
        if not any(name in body for body in bodies for name in _NAMING_FUNCTIONS):
            return own
        (offered,) = await self._function_reads([tenant])
        return own | offered

    async def _list_functions(self, tenants: Sequence[str]) -> list[frozenset[str]]:
        """Return for each tenant the functions that live sessions offer that work for it."""
        offered: dict[str | None, set[str]] = {None: set()}
        for session in await self._store.list_sessions():
            offered.setdefault(session.tenant, set()).update(session.functions)
        return [frozenset(offered[None].union(offered.get(tenant, ()))) for tenant in tenants]


def _find_urls(spec: JobSpec, body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the callback URLs of a job, each with the field in which the body has it."""
    params = spec.target.params
    if spec.target.type == "http":
        yield "target.url" if body.get("target") is not None else "callback_url", str(params["url"])
    if spec.target.type != WORKFLOW:
        return
    form = "target" if body.get("target") is not None else WORKFLOW
    written = body.get(form) or params
    for place, step in enumerate(params["steps"]):
        if step.get("target", {}).get("type") == "http":
            field = "callback_url" if "callback_url" in written["steps"][place] else "target.url"
            yield f"{form}.steps[{place}].{field}", str(step["target"]["url"])
