"""Says for whom no worker works: what live workers offer, against what a job needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Protocol

from mainspring.core.abilities import explain_missing, plain_labels
from mainspring.core.claiming import required_labels, target_of, unfold_route
from mainspring.core.definition.plain import target_from_plain
from mainspring.core.model import JobSpec
from mainspring.core.targets import TARGETS, WORKFLOW
from mainspring.core.values import value
from mainspring.core.workflows.places import is_workflow_route
from mainspring.core.workflows.step_jobs import is_workflow


class Offer(Protocol):
    """What a worker session offers. Empty queues stand for all, and no tenant does."""

    @property
    def queues(self) -> Collection[str]: ...
    @property
    def types(self) -> Collection[str]: ...
    @property
    def functions(self) -> Collection[str]: ...
    @property
    def labels(self) -> Collection[str]: ...
    @property
    def tenant(self) -> str | None: ...


def is_of_engine(offer: Offer) -> bool:
    """Say whether a session is that of a server's own worker, which begins workflows. It counts as no worker."""
    return WORKFLOW in offer.types


class GapCode(StrEnum):
    """What is missing for runs to be executed."""

    NO_WORKER = "no_worker"
    TENANT_UNSERVED = "tenant_unserved"
    QUEUE_UNSERVED = "queue_unserved"
    TARGET_UNSERVED = "target_unserved"
    LABELS_UNSERVED = "labels_unserved"


@value()
class Gap:
    """Why no live worker can execute runs of a queue and a route.

    Attributes:
        what: the tenant, queue, function, type of target or labels that nobody serves; empty if there is no worker.
    """

    code: GapCode
    what: str
    sentence: str


@value()
class OfferKind:
    """What some sessions offer alike."""

    queues: frozenset[str]
    types: frozenset[str]
    functions: frozenset[str]
    labels: frozenset[str]
    tenant: str | None

    def works_for(self, tenant: str) -> bool:
        """Say whether these sessions get runs of a tenant."""
        return self.tenant is None or self.tenant == tenant

    def serves(self, queue: str) -> bool:
        """Say whether these sessions serve a queue."""
        return not self.queues or queue in self.queues

    def knows(self, kind: str, name: str) -> bool:
        """Say whether these sessions can execute a target."""
        return name in self.functions if kind == "function" else kind in self.types


class Offers:
    """What all live workers offer, and what is missing. Answers are kept, because many jobs ask alike."""

    def __init__(self, offers: Iterable[Offer]) -> None:
        self._kinds = {
            OfferKind(
                frozenset(offer.queues),
                frozenset(offer.types),
                frozenset(offer.functions),
                frozenset(offer.labels),
                offer.tenant,
            )
            for offer in offers
            if not is_of_engine(offer)
        }
        self._bound = frozenset(kind.tenant for kind in self._kinds)
        self._known: dict[tuple[str, str, str | None], Gap | None] = {}

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def has_function(self, name: str, tenant: str) -> bool:
        """Say whether a live worker that works for a tenant has a function, whichever queues it serves."""
        return any(name in one.functions and one.works_for(tenant) for one in self._kinds)

    def find_gap(self, queue: str, route: str, tenant: str) -> Gap | None:
        """Return why no live worker can execute a tenant's runs of a queue and a route; None if one can.

        Workflows need none: the servers carry them out.
        """
        if is_workflow_route(route):
            return None
        # In most clusters, workers work for all tenants, which have the same answer then.
        key = queue, route, None if self._bound == _FOR_ALL else tenant
        if key not in self._known:
            self._known[key] = _find_gap(self._kinds, queue, route, tenant)
        return self._known[key]

    def find_gap_of(self, spec: JobSpec, tenant: str) -> Gap | None:
        """Return why no live worker can execute a job's runs; None if one can. All steps of a workflow count."""
        if not is_workflow(spec):
            return self.find_gap(spec.queue, spec.route, tenant)
        for step in spec.target.params.get("steps", ()):
            if "target" not in step:  # it runs another job, which is told of by itself
                continue
            labels = tuple(step.get("labels", ()))
            of_step = JobSpec(name=step["name"], target=target_from_plain(step["target"]), labels=labels)
            gap = self.find_gap(step.get("queue") or spec.queue, of_step.route, tenant)
            if gap is not None:
                return replace(gap, sentence=f"Step {step['name']!r}: {gap.sentence}")
        return None


_FOR_ALL = frozenset({None})


def _find_gap(kinds: Collection[OfferKind], queue: str, route: str, tenant: str) -> Gap | None:
    if not kinds:
        return Gap(GapCode.NO_WORKER, "", "No worker is alive.")
    offers = [offer for offer in kinds if offer.works_for(tenant)]
    if not offers:
        return Gap(GapCode.TENANT_UNSERVED, tenant, f"No live worker works for tenant {tenant!r}.")
    serving = [offer for offer in offers if offer.serves(queue)]
    if not serving:
        return Gap(GapCode.QUEUE_UNSERVED, queue, f"No live worker serves queue {queue!r}.")
    parts = unfold_route(route)
    kind, name = target_of(parts)
    who = "No live worker" if len(serving) == len(offers) else f"No live worker of queue {queue!r}"
    able = [offer for offer in serving if offer.knows(kind, name)]
    if not able:
        return Gap(GapCode.TARGET_UNSERVED, name or kind, _describe_target(who, kind, name))
    labels = required_labels(parts)
    if any(offer.labels.issuperset(labels) for offer in able):
        return None
    offered = frozenset[str]().union(*(offer.labels for offer in able))
    missing = explain_missing(labels - offered)
    if missing is not None:
        return Gap(GapCode.LABELS_UNSERVED, " ".join(sorted(labels)), f"{who} that could run it {missing}.")
    labels = frozenset(plain_labels(labels)) or labels
    words = ", ".join(map(repr, sorted(labels)))
    what = "the label" if len(labels) == 1 else "all the labels"
    return Gap(
        GapCode.LABELS_UNSERVED, " ".join(sorted(labels)), f"{who} that could run it offers {what} {words}."
    )


def _describe_target(who: str, kind: str, name: str) -> str:
    if kind == "function":
        return f"{who} has the function {name!r}."
    if kind == "shell":
        return f"{who} runs shell commands: they are off until server and worker get --allow-shell."
    known = TARGETS.by_name.get(kind)
    if known is not None and known.turned_on_by:
        return f"{who} runs {kind} jobs: they are off until server and worker get {known.turned_on_by}."
    return f"{who} executes targets of type {kind!r}."
