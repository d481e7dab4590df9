"""One attempt as a Job: made, watched to its end, removed."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from mainspring.core.outcomes import Failure
from mainspring.egress.secrets import Revealer
from mainspring.executors._kubernetes.cluster import ApiServerUnreachable, CallRefused, ClusterCalls, Object
from mainspring.executors._kubernetes.logs import PodLog
from mainspring.executors._kubernetes.manifests import (
    MANAGED,
    RUN,
    TOKEN,
    WORKER,
    PodRules,
    WantedJob,
    secret_name,
)
from mainspring.executors._kubernetes.ownership import ClusterPace, WorkerLeases
from mainspring.executors._kubernetes.pauses import pause
from mainspring.executors._kubernetes.states import JobState
from mainspring.executors._kubernetes.watching import JobWatcher, Watched
from mainspring.executors._text import ERROR_LIMIT, clean, seconds
from mainspring.ports.executor import NotBegun, Outcome, Success

T = TypeVar("T")
_log = logging.getLogger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
_CLEAN_UP = 30.0
"""Seconds for which a worker tries to remove what it has made, at the end of an attempt."""


class Surroundings:
    """What attempts share.

    Args:
        may_begin: is asked right before the work begins.
        start_timeout: how long a pod may wait for a node and its image.
    """

    def __init__(
        self,
        cluster: ClusterCalls,
        watcher: JobWatcher,
        ownership: WorkerLeases,
        rules: PodRules,
        pace: ClusterPace,
        start_timeout: timedelta,
        may_begin: Callable[[], bool],
    ) -> None:
        self.cluster = cluster
        self.watcher = watcher
        self.ownership = ownership
        self.rules = rules
        self.pace = pace
        self.start_timeout = start_timeout
        self.may_begin = may_begin


class _Ended(Exception):
    """The attempt ended before there was a Job to watch."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class PodAttempt:
    """Carries out one attempt.

    Args:
        wanted: what is to run.
        revealer: hides the secrets that it was given.
    """

    def __init__(self, around: Surroundings, wanted: WantedJob, revealer: Revealer) -> None:
        self._around = around
        self._cluster = around.cluster
        self._wanted = wanted
        self._context = wanted.context
        self._log = PodLog(around.cluster, wanted.context, revealer)
        self._following: asyncio.Task[None] | None = None
        self._soft_timed_out = False
        self._may_exist = False

    async def run(self) -> Outcome:
        """Run it to its end or its limit. If this is cancelled, its pod is stopped first."""
        limit = self._context.timeout
        is_over = asyncio.timeout(limit.total_seconds())
        try:
            async with is_over:
                outcome = await self._run()
        except _Ended as ended:
            outcome = ended.outcome
        except TimeoutError:
            if not is_over.expired():
                raise
            outcome = await self._stop_at_limit(limit)
        except asyncio.CancelledError:
            await _shielded(self._stop())
            raise
        finally:
            if self._following is not None:
                self._following.cancel()
        if isinstance(outcome, Success | Failure):
            return replace(outcome, output=self._log.read())
        return outcome

    async def _run(self) -> Outcome:
        job = await self._make()
        watched = self._around.watcher.add(self._wanted.namespace, self._wanted.name, job["metadata"]["uid"])
        try:
            outcome = await self._watch(watched)
        finally:
            self._around.watcher.remove(watched)
        if self._soft_timed_out and isinstance(outcome, Failure):
            assert self._context.soft_timeout is not None, "it has passed"
            told = f"timed out after {seconds(self._context.soft_timeout)} ({outcome.error})"
            outcome = replace(outcome, error=told, is_timeout=True, cause=None)
        return outcome

    async def _stop_at_limit(self, limit: timedelta) -> Failure:
        error = f"timed out after {seconds(limit)}"
        if not await _shielded(self._stop()):
            error += "; its Job could not be removed"
        await self._hear_out()
        return Failure(error=error, is_timeout=True)

    # -- making it ---------------------------------------------------------------------------------------------------

    async def _make(self) -> Object:
        """Make the Job, or find the one that was made by a call whose answer was lost."""
        wanted, namespace = self._wanted, self._wanted.namespace
        owner = await self._insist(lambda: self._around.ownership.refer(namespace))
        if wanted.secret is not None:
            await self._insist(lambda: self._make_secret(owner))
        body = wanted.job_body(owner, self._around.rules)
        while True:
            if not self._around.may_begin():
                await self._remove_secret()
                raise _Ended(NotBegun())
            self._may_exist = True
            made = await self._insist(lambda: self._make_job(body))
            if made is not None:
                return made
            await pause(self._around.pace.look)

    async def _make_secret(self, owner: Object) -> None:
        try:
            await self._cluster.create("secrets", self._wanted.namespace, self._wanted.secret_body(owner))
        except CallRefused as refusal:
            if refusal.reason != "AlreadyExists":
                raise

    async def _make_job(self, body: Object) -> Object | None:
        """Make it; None if there is still one of an earlier attempt, or its pod, which go now."""
        namespace, name = self._wanted.namespace, self._wanted.name
        left = await self._find_pods() if self._context.token > 1 else []
        if not left:
            try:
                return await self._cluster.create("jobs", namespace, body)
            except CallRefused as refusal:
                if refusal.reason != "AlreadyExists":
                    raise
        found = await self._cluster.find("jobs", namespace, name)
        if found is not None:
            return await self._meet(found)
        for pod in left:  # their Job went without them
            if "deletionTimestamp" not in pod["metadata"]:
                await self._cluster.delete("pods", namespace, pod["metadata"]["name"])
        return None

    async def _find_pods(self) -> list[Object]:
        """Return the pods of the run that have not ended."""
        run = f"{MANAGED},{RUN}={self._wanted.labels()[RUN]}"
        found = await self._cluster.list_all("pods", self._wanted.namespace, run)
        return [pod for pod in found if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}]

    async def _meet(self, found: Object) -> Object | None:
        """Return the Job that is there if it is this attempt's; None if it is an earlier one's, which goes now."""
        token = _token(found)
        if token is None:
            message = (
                f"there is a Job {self._wanted.name} in {self._wanted.namespace} that is not Mainspring's"
            )
            raise _Ended(Failure(error=message))
        if token == self._context.token and not self._is_mine(found):
            # An attempt has one worker. So has the Secret, which has the same name: it is not ours to remove.
            self._may_exist = False
            message = (
                f"the Job {self._wanted.name} in {self._wanted.namespace} belongs to another installation of"
                " Mainspring; each needs namespaces of its own"
            )
            raise _Ended(Failure(error=message, is_retryable=False))
        is_going = "deletionTimestamp" in found["metadata"]
        if token == self._context.token and not is_going:
            return found
        if token > self._context.token:
            self._may_exist = False
            await self._remove_secret()
            raise _Ended(Failure(error="a later attempt of the run is at work"))
        if not is_going:
            await self._remove(found, token)
        return None

    def _is_mine(self, job: Object) -> bool:
        """Say whether a Job is that of this attempt, and not of one in another installation."""
        labels = job["metadata"].get("labels") or {}
        return _token(job) == self._context.token and labels.get(WORKER) == self._wanted.worker

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call again until it is answered. What refuses it for good ends the attempt."""
        wait = _FIRST_PAUSE
        while True:
            try:
                return await call()
            except ApiServerUnreachable as error:
                _log.warning("%s: next try in %g s: %s", self._wanted.name, wait, error)
            except CallRefused as refusal:
                if not refusal.is_passing:
                    self._may_exist = False
                    await self._remove_secret()
                    told = clean(f"the cluster refuses it: {refusal}", ERROR_LIMIT)
                    is_retryable = refusal.status not in {400, 422}
                    raise _Ended(Failure(error=told, is_retryable=is_retryable)) from refusal
            await pause(wait)
            wait = min(wait * 2, _LONGEST_PAUSE)

    # -- watching it -------------------------------------------------------------------------------------------------

    async def _watch(self, watched: Watched) -> Outcome:
        loop = asyncio.get_running_loop()
        begun_at, has_started = loop.time(), False
        soft, start_limit = self._context.soft_timeout, self._around.start_timeout
        while True:
            state = await watched.look()
            if state is None:
                await self._remove_secret()
                return Failure(error="its Job is gone: somebody deleted it")
            has_started = has_started or state.has_started
            if has_started:
                self._follow(state)
            outcome = state.outcome
            if outcome is not None:
                return await self._end(outcome)
            waited = loop.time() - begun_at
            if state.is_hopeless:
                return await self._give_up(state, is_retryable=False)
            if not has_started and waited >= start_limit.total_seconds():
                return await self._give_up(state, is_retryable=True)
            if soft is not None and waited >= soft.total_seconds() and not self._soft_timed_out:
                self._soft_timed_out = await self._ask_to_end(state)

    def _follow(self, state: JobState) -> None:
        if self._following is None and state.pod is not None:
            name = state.pod["metadata"]["name"]
            self._following = asyncio.create_task(self._log.follow(self._wanted.namespace, name))

    async def _hear_out(self) -> None:
        """Wait for the rest of what the pod has printed."""
        self._log.end()
        if self._following is not None:
            await asyncio.wait([self._following], timeout=self._around.pace.last_words)

    async def _end(self, outcome: Success | Failure) -> Outcome:
        await self._hear_out()
        await self._stop(is_over=True)
        return outcome

    async def _give_up(self, state: JobState, *, is_retryable: bool) -> Outcome:
        limit = seconds(self._around.start_timeout)
        problem = state.problem or "it is not known what for"
        error = (
            f"the pod cannot start: {problem}" if not is_retryable else f"the pod waited {limit}: {problem}"
        )
        await self._stop()
        return Failure(error=clean(error, ERROR_LIMIT), is_retryable=is_retryable)

    async def _ask_to_end(self, state: JobState) -> bool:
        """Have the pod get SIGTERM, and SIGKILL at the hard limit. False if that is to be tried again."""
        if state.pod is None:
            return False
        soft = self._context.soft_timeout
        assert soft is not None, "there is a soft limit"
        left = math.ceil((self._context.timeout - soft).total_seconds())
        name = state.pod["metadata"]["name"]
        try:
            await self._cluster.delete("pods", self._wanted.namespace, name, gracePeriodSeconds=left)
        except (CallRefused, ApiServerUnreachable) as error:
            _log.warning("pod %s cannot be asked to end: %s", name, error)
            return False
        return True

    # -- removing it -------------------------------------------------------------------------------------------------

    async def _stop(self, *, is_over: bool = False) -> bool:
        """Remove the Job and what belongs to it, and say whether that is done.

        Args:
            is_over: its pod has ended, so nobody has to wait for that.
        """
        try:
            async with asyncio.timeout(_CLEAN_UP + self._around.rules.grace.total_seconds()):
                while not await self._try_to_stop(is_over=is_over):
                    await pause(self._around.pace.look)
        except TimeoutError:
            _log.warning("Job %s could not be removed in time", self._wanted.name)
            return False
        return True

    async def _try_to_stop(self, *, is_over: bool) -> bool:
        """Remove it once; False if it may still be there."""
        try:
            found = None
            if self._may_exist:
                found = await self._cluster.find("jobs", self._wanted.namespace, self._wanted.name)
            if found is None or not self._is_mine(found):
                await self._remove_secret()
                return True
            if "deletionTimestamp" not in found["metadata"]:
                await self._remove(found, self._context.token, in_background=is_over)
        except ApiServerUnreachable:
            return False
        except CallRefused as refusal:
            _log.warning("Job %s cannot be removed: %s", self._wanted.name, refusal)
            return not refusal.is_passing
        return is_over

    async def _remove(self, job: Object, token: int, *, in_background: bool = False) -> None:
        """Delete a Job, which is there until its pods have ended, and the Secret of its attempt."""
        name, namespace = self._wanted.name, self._wanted.namespace
        policy: dict[str, Any] = {"propagationPolicy": "Background" if in_background else "Foreground"}
        await self._cluster.delete(
            "jobs", namespace, name, preconditions={"uid": job["metadata"]["uid"]}, **policy
        )
        if token != self._context.token or self._wanted.secret is not None:
            await self._cluster.delete("secrets", namespace, secret_name(name, token))

    async def _remove_secret(self) -> None:
        if self._wanted.secret is None:
            return
        try:
            await self._cluster.delete("secrets", self._wanted.namespace, self._wanted.secret)
        except (CallRefused, ApiServerUnreachable) as error:  # it goes with the worker's Lease
            _log.warning("Secret %s is left behind: %s", self._wanted.secret, error)


def _token(job: Object) -> int | None:
    """Return the token of the attempt that a Job belongs to; None if it is none of ours."""
    labels = job["metadata"].get("labels") or {}
    manager, _, product = MANAGED.partition("=")
    token = labels.get(TOKEN, "")
    return int(token) if labels.get(manager) == product and token.isdigit() else None


async def _shielded(work: Awaitable[T]) -> T:
    """Do work to its end although this is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
    return task.result()
