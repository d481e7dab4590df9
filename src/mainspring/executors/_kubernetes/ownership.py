"""Has the objects of dead workers removed.

All that a worker makes in a namespace belongs to a Lease of the worker there, which it renews. Kubernetes deletes what
belongs to an object that is deleted. So whoever sees that a Lease is no longer renewed deletes it, and nothing else.
No clocks are compared: a Lease is dead if it has not changed for a while on the clock of the one who looks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from mainspring.core.values import value
from mainspring.executors._kubernetes.cluster import ApiServerUnreachable, CallRefused, ClusterCalls, Object
from mainspring.executors._kubernetes.manifests import MANAGED, WORKER
from mainspring.executors._kubernetes.pauses import pause

_log = logging.getLogger(__name__)


@value(kw_only=True)
class ClusterPace:
    """How fast all of this goes, in seconds.

    Attributes:
        look: between two looks at the Jobs of attempts.
        renew: between two renewals of a Lease, and two looks at those of others.
        dead: without a renewal, after which a worker is dead.
        last_words: for which the rest of a pod's output is waited for.
    """

    look: float = 2.0
    renew: float = 20.0
    dead: float = 180.0
    last_words: float = 10.0


class WorkerLeases:
    """The Leases of one worker, and its looks at those of others.

    Args:
        worker: the mark of the worker.
        namespaces: those in which it looks.
        host_time: gives the host's time, for people who look at the Lease.
    """

    def __init__(
        self,
        cluster: ClusterCalls,
        worker: str,
        namespaces: Sequence[str],
        host_time: Callable[[], datetime],
        pace: ClusterPace,
    ) -> None:
        self._cluster = cluster
        self._worker = worker
        self._namespaces = tuple(namespaces)
        self._host_time = host_time
        self._pace = pace
        self._name = f"ms-worker-{worker}"
        self._mine: dict[str, str] = {}  # by namespace, the uid of its Lease
        self._seen: dict[str, tuple[str, float]] = {}  # by uid, a version and since when
        self._making = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to renew, and to look."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End it. What is left of this worker's goes, too."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for namespace in self._mine:
            try:
                await self._cluster.delete("leases", namespace, self._name, propagationPolicy="Background")
            except (CallRefused, ApiServerUnreachable) as error:
                _log.warning("the worker's Lease in %s is left to others: %s", namespace, error)

    async def refer(self, namespace: str) -> dict[str, Any]:
        """Return what has an object of that namespace belong to this worker. The Lease is made if need be.

        Raises:
            CallRefused, ApiServerUnreachable: it could not be made.
        """
        async with self._making:
            if namespace not in self._mine:
                self._mine[namespace] = await self._make(namespace)
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "name": self._name,
            "uid": self._mine[namespace],
        }

    async def _make(self, namespace: str) -> str:
        manager, _, product = MANAGED.partition("=")
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "labels": {manager: product, WORKER: self._worker}},
            "spec": self._spec(),
        }
        try:
            made = await self._cluster.create("leases", namespace, body)
        except CallRefused as refusal:
            if refusal.reason != "AlreadyExists":
                raise
            # The answer to the call before was lost.
            made = await self._cluster.patch("leases", namespace, self._name, {"spec": self._spec()})
        return str(made["metadata"]["uid"])

    def _spec(self) -> dict[str, Any]:
        now = self._host_time().astimezone(UTC)
        return {
            "holderIdentity": self._worker,
            "leaseDurationSeconds": max(1, round(self._pace.dead)),
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }

    async def _run(self) -> None:
        while True:
            await pause(self._pace.renew)
            for namespace in list(self._mine):
                await self._attempt(self._renew(namespace))
            for namespace in {*self._namespaces, *self._mine}:
                await self._attempt(self._sweep(namespace))

    async def _attempt(self, work: Any) -> None:
        try:
            await work
        except (CallRefused, ApiServerUnreachable) as error:
            _log.warning("Leases of workers in Kubernetes cannot be kept: %s", error)

    async def _renew(self, namespace: str) -> None:
        try:
            await self._cluster.patch("leases", namespace, self._name, {"spec": self._spec()})
        except CallRefused as refusal:
            if refusal.status != 404:
                raise
            # Somebody took this worker for dead. Its Jobs go; the next one gets a new Lease.
            self._mine.pop(namespace, None)

    async def _sweep(self, namespace: str) -> None:
        now = asyncio.get_running_loop().time()
        found = await self._cluster.list_all("leases", namespace, f"{MANAGED},{WORKER}")
        for lease in found:
            if lease["metadata"]["name"] != self._name and self._is_dead(lease, now):
                await self._remove(namespace, lease)

    def _is_dead(self, lease: Object, now: float) -> bool:
        uid, version = lease["metadata"]["uid"], lease["metadata"]["resourceVersion"]
        seen = self._seen.get(uid)
        if seen is None or seen[0] != version:
            self._seen[uid] = (version, now)
            return False
        return now - seen[1] >= self._pace.dead

    async def _remove(self, namespace: str, lease: Object) -> None:
        name, uid = lease["metadata"]["name"], lease["metadata"]["uid"]
        # A renewal that comes first changes the version, and saves it.
        as_seen = {"uid": uid, "resourceVersion": lease["metadata"]["resourceVersion"]}
        if await self._cluster.delete(
            "leases", namespace, name, propagationPolicy="Background", preconditions=as_seen
        ):
            _log.warning("the worker of Lease %s in %s is dead: its Jobs are removed", name, namespace)
        self._seen.pop(uid, None)
