"""Executor of Jobs of Kubernetes."""

from __future__ import annotations

import secrets as random_bytes
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from mainspring.core.outcomes import Failure
from mainspring.core.targets.kubernetes import KubernetesType
from mainspring.egress.secrets import NoSecrets, Revealer
from mainspring.errors import InvalidInput, MissingExtra
from mainspring.executors._commands import fill_variables
from mainspring.executors._images import check_image, check_limit
from mainspring.executors._kubernetes.attempts import PodAttempt, Surroundings
from mainspring.executors._kubernetes.cluster import ClusterCalls
from mainspring.executors._kubernetes.manifests import PodRules, WantedJob
from mainspring.executors._kubernetes.ownership import ClusterPace, WorkerLeases
from mainspring.executors._kubernetes.watching import JobWatcher
from mainspring.executors._text import ERROR_LIMIT, clean
from mainspring.executors.context import ExecutorContext
from mainspring.ports.executor import AttemptContext, Outcome
from mainspring.ports.secrets import SecretMissing, Secrets

_TYPE = KubernetesType()
_NONE = NoSecrets()
_SETTING = "executors.kubernetes"


class KubernetesExecutor:
    """Carries out attempts of target type `kubernetes`.

    `core.targets.kubernetes` describes `params`, which are checked against it. Each run has at most one Job, named
    `ms-RUN`; one of an earlier attempt is removed first, with its pod. All that a worker makes belongs to a Lease that
    it renews, so that other workers can have it removed when this one is dead.

    Args:
        kubeconfig: the file that says where the cluster is; None is the pod's service account, or the usual file.
        context: the context of that file; None is its current one.
        namespaces: those that jobs may name, the first of which is that of others; empty is the worker's own.
        images: those that jobs may run, and beginnings of names that end in `*`; empty is none.
        service_accounts: those that jobs may name.
        pull_secrets: Secrets with which images are pulled.
        as_root: let images run as root.
        memory: the most MiB of a pod.
        cpus: the most processors of one.
        grace: between SIGTERM and SIGKILL.
        start_timeout: how long a pod may wait for a node and its image.
        secrets: those that jobs may name; by default there are none.
        host_time: gives the host's time.
        pace: how fast it looks, and how soon a worker is taken for dead.

    Raises:
        InvalidInput: it is not said where the cluster is.
        MissingExtra: the library is not installed.
    """

    def __init__(
        self,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        namespaces: Sequence[str] = (),
        images: Sequence[str] = (),
        service_accounts: Sequence[str] = (),
        pull_secrets: Sequence[str] = (),
        as_root: bool = True,
        memory: int = 512,
        cpus: float = 1.0,
        grace: timedelta = timedelta(seconds=5),
        start_timeout: timedelta = timedelta(minutes=10),
        secrets: Secrets = _NONE,
        host_time: Callable[[], datetime],
        pace: ClusterPace | None = None,
    ) -> None:
        try:
            from mainspring.executors._kubernetes.credentials import ClusterCredentials
        except ModuleNotFoundError:
            raise MissingExtra("executors.kubernetes.enabled", "kubernetes") from None
        credentials = ClusterCredentials(kubeconfig, context)
        pace = ClusterPace() if pace is None else pace
        self._namespaces = tuple(namespaces) or (credentials.namespace,)
        self._images = tuple(images)
        self._service_accounts = tuple(service_accounts)
        self._memory = memory
        self._cpus = cpus
        self._secrets = secrets
        self._worker = random_bytes.token_hex(8)
        self._may_begin: Callable[[], bool] | None = None
        self._cluster = ClusterCalls(credentials)
        self._watcher = JobWatcher(self._cluster, self._worker, period=pace.look)
        self._ownership = WorkerLeases(self._cluster, self._worker, self._namespaces, host_time, pace)
        rules = PodRules(pull_secrets=tuple(pull_secrets), as_root=as_root, grace=grace)
        self._around = Surroundings(
            self._cluster, self._watcher, self._ownership, rules, pace, start_timeout, self._ask
        )

    @property
    def type(self) -> str:
        return "kubernetes"

    def ask_before_work(self, may_begin: Callable[[], bool]) -> None:
        self._may_begin = may_begin

    def _ask(self) -> bool:
        return self._may_begin is None or self._may_begin()

    async def start(self) -> None:
        await self._cluster.open()
        await self._ownership.start()

    async def stop(self) -> None:
        await self._watcher.stop()
        await self._ownership.stop()
        await self._cluster.close()

    async def execute(self, context: AttemptContext) -> Outcome:
        revealer = Revealer(self._secrets, context.tenant)
        try:
            wanted = self._read(context, revealer)
        except InvalidInput as error:
            return Failure(error=clean(str(error), ERROR_LIMIT), is_retryable=False)
        except SecretMissing as error:
            return Failure(error=clean(str(error), ERROR_LIMIT))
        return await PodAttempt(self._around, wanted, revealer).run()

    def _read(self, context: AttemptContext, revealer: Revealer) -> WantedJob:
        """Return what is to run, held to the worker's settings.

        Raises:
            InvalidInput: they do not allow it.
            SecretMissing: a secret is not to be had.
        """
        params = _TYPE.read_kept(context.params)
        check_image(params["image"], self._images, f"{_SETTING}.images")
        namespace = params.get("namespace", self._namespaces[0])
        if namespace not in self._namespaces:
            raise _not_listed("namespace", namespace, "namespaces")
        account = params.get("service_account")
        if account is not None and account not in self._service_accounts:
            raise _not_listed("service_account", account, "service_accounts")
        given = params.get("env", {})
        filled = fill_variables(given, revealer)
        return WantedJob(
            context=context,
            params=params,
            namespace=namespace,
            memory=check_limit(params.get("memory"), self._memory, "memory", f"{_SETTING}.memory"),
            cpus=check_limit(params.get("cpus"), self._cpus, "cpus", f"{_SETTING}.cpus"),
            env=filled,
            secret_names=frozenset(name for name, text in filled.items() if text != given[name]),
            worker=self._worker,
        )


def _not_listed(option: str, given: str, setting: str) -> InvalidInput:
    message = f"{given!r} is not on this worker's list, {_SETTING}.{setting}"
    return InvalidInput(f"target.{option}", message)


def make_executor(context: ExecutorContext) -> KubernetesExecutor:
    """Make a worker's executor."""
    settings = context.settings
    return KubernetesExecutor(
        kubeconfig=settings.kubernetes_kubeconfig,
        context=settings.kubernetes_context,
        namespaces=settings.kubernetes_namespaces,
        images=settings.kubernetes_images,
        service_accounts=settings.kubernetes_service_accounts,
        pull_secrets=settings.kubernetes_pull_secrets,
        as_root=settings.kubernetes_as_root,
        memory=settings.kubernetes_memory,
        cpus=settings.kubernetes_cpus,
        grace=settings.kubernetes_grace,
        start_timeout=settings.kubernetes_start_timeout,
        secrets=context.secrets,
        host_time=context.host_time,
    )
