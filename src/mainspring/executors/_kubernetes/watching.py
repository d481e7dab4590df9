"""Asks about the Jobs of all attempts at once, and tells each how its own is."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping

from mainspring.executors._kubernetes.cluster import ApiServerUnreachable, CallRefused, ClusterCalls, Object
from mainspring.executors._kubernetes.manifests import RUN, WORKER
from mainspring.executors._kubernetes.pauses import pause
from mainspring.executors._kubernetes.states import JobState, newest

_log = logging.getLogger(__name__)
_LONGEST_PAUSE = 30.0
"""Seconds between two looks, at most, while the API server does not answer."""


class Watched:
    """One Job that is looked at.

    Attributes:
        namespace: where it is.
        name: what it is called.
        uid: tells it from others of its name.
        since: the number of the look that was under way when it was added, which may not have seen it.
    """

    def __init__(self, namespace: str, name: str, uid: str, since: int) -> None:
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self.since = since
        self._state: JobState | None = None
        self._news = asyncio.Event()

    def tell(self, state: JobState | None) -> None:
        """Note how it is; None is gone."""
        self._state = state
        self._news.set()

    async def look(self) -> JobState | None:
        """Wait for the next look at it, and return what was seen; None means that it is gone."""
        await self._news.wait()
        self._news.clear()
        return self._state


class JobWatcher:
    """Looks at all Jobs of a worker, by one list of Jobs and one of pods, as long as there are any.

    Args:
        period: seconds between two looks.
    """

    def __init__(self, cluster: ClusterCalls, worker: str, *, period: float) -> None:
        self._cluster = cluster
        self._selector = f"{WORKER}={worker}"
        self._period = period
        self._watched: set[Watched] = set()
        self._looks = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, namespace: str, name: str, uid: str) -> Watched:
        """Look at a Job that was made, from now on."""
        watched = Watched(namespace, name, uid, self._looks)
        self._watched.add(watched)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return watched

    def remove(self, watched: Watched) -> None:
        """Look at it no more."""
        self._watched.discard(watched)

    async def stop(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        wait = self._period
        while self._watched:
            await pause(wait)
            try:
                await self._look()
            except (CallRefused, ApiServerUnreachable) as error:
                wait = min(wait * 2, _LONGEST_PAUSE)
                _log.warning("Jobs cannot be looked at, next try in %g s: %s", wait, error)
            else:
                wait = self._period

    async def _look(self) -> None:
        self._looks += 1
        by_namespace: dict[str, list[Watched]] = defaultdict(list)
        for watched in self._watched:
            by_namespace[watched.namespace].append(watched)
        errors: list[Exception] = []
        for namespace, some in by_namespace.items():
            try:
                jobs = await self._cluster.list_all("jobs", namespace, self._selector)
                # Pods come second: a Job that has ended is seen with the end of its pod.
                pods = await self._cluster.list_all("pods", namespace, self._selector)
            except (CallRefused, ApiServerUnreachable) as error:
                errors.append(error)  # which is no reason not to look elsewhere
            else:
                self._tell(some, {job["metadata"]["uid"]: job for job in jobs}, pods)
        if errors:
            raise errors[0]

    def _tell(self, some: list[Watched], jobs: Mapping[str, Object], pods: list[Object]) -> None:
        by_run: dict[str, list[Object]] = defaultdict(list)
        for pod in pods:
            by_run[pod["metadata"].get("labels", {}).get(RUN, "")].append(pod)
        for watched in some:
            job = jobs.get(watched.uid)
            if job is None:
                if watched.since < self._looks:
                    watched.tell(None)
                continue
            its = by_run[job["metadata"]["labels"][RUN]]
            watched.tell(JobState(job, newest(pod for pod in its if _owner(pod) == watched.uid)))


def _owner(pod: Object) -> str:
    """Return the id of the Job whose pod this is."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((one["uid"] for one in owners if one.get("kind") == "Job"), "")
