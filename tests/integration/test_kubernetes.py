"""Jobs of Kubernetes: on its own control plane where that has been built, and on a fake one that is held to it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from mainspring.config.secret_settings import SecretPlace
from mainspring.config.secrets import ConfiguredSecrets
from mainspring.core.causes import Cause
from mainspring.core.ids import RunId
from mainspring.core.outcomes import Failure
from mainspring.errors import InvalidInput, MissingExtra
from mainspring.executors import KubernetesExecutor
from mainspring.executors._kubernetes.ownership import ClusterPace
from mainspring.ports.executor import AttemptContext, NotBegun, Outcome, Success
from tests.support.certificates import make_authority, make_certificate
from tests.support.kubernetes.api import Api
from tests.support.kubernetes.fake import FakeServer
from tests.support.kubernetes.node import Node
from tests.support.kubernetes.real import control_plane, make_kubeconfig
from tests.unit.executors.attempts import make_attempt

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "run-in-kubernetes.md"
IMAGE = "registry.test/jobs/busybox:1"
NAME = "ms-0000000000080"
SECRET = "hunter2-hunter2"
SECRETS = ConfiguredSecrets([SecretPlace("token", "env:TOKEN", ("default",))], {"TOKEN": SECRET})
PACE = ClusterPace(look=0.1, renew=0.2, dead=1.5, last_words=5.0)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.xdist_group("kubernetes")]


class Cluster(NamedTuple):
    """A cluster of one node.

    Attributes:
        fake: what can be made to fail; None if it is the real one.
    """

    api: Api
    node: Node
    kubeconfig: Path
    fake: FakeServer | None

    async def pod(self, namespace: str = "default", *, phase: str = "Running") -> dict[str, Any]:
        """Wait until there is a pod in a phase."""
        while True:
            for pod in await self.api.all("pods", namespace):
                if (pod.get("status") or {}).get("phase") == phase:
                    return pod
            await asyncio.sleep(0.05)

    async def gone(self, kind: str, namespace: str = "default") -> None:
        """Wait until there is none of a kind."""
        while await self.api.names(kind, namespace):  # noqa: ASYNC110 -- the API server is asked
            await asyncio.sleep(0.05)


@pytest.fixture(scope="module", params=["fake", "real"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The address of a real control plane and its authority; None for a fake one."""
    if request.param == "fake":
        yield None
        return
    built = subprocess.run(
        [ROOT / "scripts" / "kubernetes", "--path"], capture_output=True, text=True, check=False
    )
    if built.returncode:
        pytest.skip(built.stderr.strip())
    with control_plane(built.stdout.strip(), tmp_path_factory.mktemp("plane")) as found:
        yield found


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("certificates")
    return make_certificate(folder, make_authority(folder))


@pytest.fixture
async def cluster(place: Any, certificate: Any, tmp_path: Path) -> AsyncIterator[Cluster]:
    fake = FakeServer() if place is None else None
    url, ca = (await fake.start(), None) if fake is not None else place
    kubeconfig = make_kubeconfig(tmp_path / "config", url, "worker-token", ca)
    async with Api(url, "admin-token", ca) as api:
        await prepare(api, is_real=fake is None)
        node = Node(api, {IMAGE}, {"pool": "batch"}, certificate)
        await node.start()
        try:
            yield Cluster(api, node, kubeconfig, fake)
        finally:
            for namespace in ("default", "reports"):
                for kind in ("jobs", "leases", "secrets", "pods"):
                    for name in await api.names(kind, namespace):
                        await api.delete(kind, name, namespace, propagationPolicy="Background")
                        if kind == "pods":
                            await api.delete(kind, name, namespace, gracePeriodSeconds=0)
                await asyncio.wait_for(Cluster(api, node, kubeconfig, fake).gone("pods", namespace), 20)
            await node.stop()
            if fake is not None:
                await fake.stop()


async def prepare(api: Api, *, is_real: bool) -> None:
    """Give the worker the rights that the page names, in two namespaces."""
    blocks = PAGE.read_text().split("```yaml\n")[1:]
    role = yaml.safe_load(blocks[0].partition("```")[0])
    if is_real and await api.get("roles", role["metadata"]["name"]) is not None:
        return
    for namespace in ("default", "reports"):
        if is_real and namespace != "default":
            await api.make("namespaces", {"metadata": {"name": namespace}})
        named = {"name": role["metadata"]["name"]}
        await api.make("roles", {**role, "metadata": dict(named)}, namespace)
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", **named}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "worker"}
        binding = {"metadata": dict(named), "roleRef": reference, "subjects": [subject]}
        await api.make("rolebindings", binding, namespace)
        while is_real and await api.get("serviceaccounts", "default", namespace) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        if is_real:
            await api.make("serviceaccounts", {"metadata": {"name": "reporter"}}, namespace)


@asynccontextmanager
async def executing(cluster: Cluster, **options: Any) -> AsyncIterator[KubernetesExecutor]:
    given = {
        "kubeconfig": str(cluster.kubeconfig),
        "namespaces": ("default", "reports"),
        "images": ("registry.test/*", "other:"),
        "service_accounts": ("reporter",),
        "grace": timedelta(seconds=1),
        "secrets": SECRETS,
        "pace": PACE,
        "host_time": lambda: datetime.now(UTC),
    }
    executor = KubernetesExecutor(**{**given, **options})
    await executor.start()
    try:
        yield executor
    finally:
        await executor.stop()


@pytest.fixture
async def executor(cluster: Cluster) -> AsyncIterator[KubernetesExecutor]:
    async with executing(cluster) as executor:
        yield executor
        assert await cluster.api.names("secrets") == []
    await asyncio.wait_for(cluster.gone("leases"), 10)
    await asyncio.wait_for(cluster.gone("jobs"), 10)
    await asyncio.wait_for(cluster.gone("pods"), 10)
    assert cluster.node.processes() == 0


def attempt(script: str, *, token: int = 41, **more: Any) -> AttemptContext:
    given = {name: more.pop(name) for name in ("payload", "timeout", "soft_timeout") if name in more}
    params = {"image": IMAGE, "command": ["sh", "-c"], "args": [script], **more}
    return replace(make_attempt(params, **{"timeout": 60, **given}), token=token)


async def run(executor: KubernetesExecutor, script: str, **more: Any) -> Outcome:
    return await executor.execute(attempt(script, **more))


async def fail(executor: KubernetesExecutor, script: str, **more: Any) -> Failure:
    outcome = await run(executor, script, **more)
    assert isinstance(outcome, Failure), outcome
    return outcome


async def test_output_payload_and_environment(executor: KubernetesExecutor, cluster: Cluster) -> None:
    script = 'cat "$MAINSPRING_PAYLOAD_FILE"; echo; echo "$MAINSPRING_TOKEN $PRICE $TOKEN" >&2; echo "$1"'
    env = {"PRICE": "$(MAINSPRING_TOKEN) $$5", "TOKEN": "${secret:token}"}
    args = [script, "job", "$(PRICE)"]
    outcome = await run(executor, "", payload=b'{"a":1}', env=env, args=args)
    assert outcome == Success(
        result=b'{"exit_code":0}', output='{"a":1}\n41 $(MAINSPRING_TOKEN) $$5 ***\n$(PRICE)\n'
    )
    assert await cluster.api.names("jobs") == []


async def test_job_is_made_as_the_definition_and_the_settings_say(cluster: Cluster) -> None:
    async with executing(cluster, pull_secrets=("registry",), as_root=False) as executor:
        more = {
            "namespace": "reports",
            "service_account": "reporter",
            "memory": 256,
            "cpus": 0.25,
            "node_selector": {"pool": "batch"},
            "tolerations": [{"key": "pool", "operator": "Exists", "effect": "NoExecute", "seconds": 9}],
        }
        task = asyncio.create_task(run(executor, "sleep 60", timeout=90.5, **more))
        pod = await cluster.pod("reports")
        job = await cluster.api.get("jobs", NAME, "reports")
        assert job is not None
        labels = job["metadata"]["labels"]
        assert (labels["mainspring.run"], labels["mainspring.token"]) == ("run_0000000000080", "41")
        assert job["metadata"]["annotations"] == {"mainspring.job": "test", "mainspring.tenant": "default"}
        assert job["spec"]["activeDeadlineSeconds"] == 151
        assert (job["spec"]["backoffLimit"], job["spec"]["ttlSecondsAfterFinished"]) == (0, 3600)
        spec = pod["spec"]
        assert spec["serviceAccountName"] == "reporter"
        assert spec["automountServiceAccountToken"] is True
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert spec["nodeSelector"] == {"pool": "batch"}
        toleration = {"key": "pool", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}
        assert toleration in spec["tolerations"]
        container = spec["containers"][0]
        assert container["resources"]["limits"] == {"memory": "256Mi", "cpu": "250m"}
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert await cluster.api.names("pods", "reports") == []


@pytest.mark.parametrize(
    ("params", "field", "message"),
    [
        ({"image": "evil:1"}, "target.image", "executors.kubernetes.images"),
        ({"namespace": "kube-system"}, "target.namespace", "executors.kubernetes.namespaces"),
        ({"service_account": "admin"}, "target.service_account", "executors.kubernetes.service_accounts"),
        ({"memory": 513}, "target.memory", "at most 512"),
        ({"cpus": 1.5}, "target.cpus", "at most 1"),
    ],
)
async def test_what_the_worker_does_not_allow_is_refused(
    executor: KubernetesExecutor, params: dict[str, Any], field: str, message: str
) -> None:
    failure = await fail(executor, "true", **params)
    assert field in failure.error
    assert message in failure.error
    assert not failure.is_retryable


async def test_status_is_that_of_the_program(executor: KubernetesExecutor) -> None:
    failure = await fail(executor, "echo before; exit 3")
    assert (failure.error, failure.cause) == ("exit status 3", Cause(exit_code=3))
    assert (failure.output, failure.result) == ("before\n", b'{"exit_code":3}')
    assert failure.is_retryable


async def test_lack_of_memory_is_told(executor: KubernetesExecutor) -> None:
    failure = await fail(executor, "kill -9 $$")
    assert failure.error == "exit status 137: killed, because it needs more memory than it has"


async def test_program_that_is_not_in_the_image_is_told(executor: KubernetesExecutor) -> None:
    failure = await fail(executor, "", command=["/no/such"])
    assert failure.error.startswith("the program could not be started: StartError")


async def test_eviction_is_told(executor: KubernetesExecutor, cluster: Cluster) -> None:
    task = asyncio.create_task(fail(executor, "sleep 60"))
    await cluster.node.evict(await cluster.pod())
    failure = await task
    assert failure.error == "the pod was evicted: TerminationByKubelet: The node was low on resource: memory."
    assert failure.is_retryable


async def test_pod_that_somebody_deletes_is_told(executor: KubernetesExecutor, cluster: Cluster) -> None:
    task = asyncio.create_task(fail(executor, "sleep 60"))
    pod = await cluster.pod()
    await cluster.api.delete("pods", pod["metadata"]["name"])
    failure = await task
    assert failure.error in {
        "exit status 143; its pod was deleted",
        "its pod is gone: somebody deleted it, or its node was lost",
    }
    assert failure.cause is None


async def test_job_that_somebody_deletes_is_told(executor: KubernetesExecutor, cluster: Cluster) -> None:
    task = asyncio.create_task(fail(executor, "sleep 60", payload=b"1"))
    await cluster.pod()
    await cluster.api.delete("jobs", NAME, propagationPolicy="Background")
    assert (await task).error == "its Job is gone: somebody deleted it"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"image": "registry.test/missing:1"}, "the pod waited 1 s: ErrImagePull: no image"),
        ({"node_selector": {"disk": "fast"}}, "the pod waited 1 s: Unschedulable: 0/1 nodes are available"),
    ],
)
async def test_pod_that_cannot_start_is_told(cluster: Cluster, params: dict[str, Any], message: str) -> None:
    async with executing(cluster, start_timeout=timedelta(seconds=1)) as executor:
        failure = await fail(executor, "true", **params)
        assert failure.error.startswith(message)
        assert failure.is_retryable
        assert await cluster.api.names("pods") == []


async def test_name_of_an_image_that_is_wrong_is_final(executor: KubernetesExecutor) -> None:
    failure = await fail(executor, "true", image="other:")
    assert failure.error == "the pod cannot start: InvalidImageName: no image other:"
    assert not failure.is_retryable


async def test_time_limit_ends_the_pod(executor: KubernetesExecutor, cluster: Cluster) -> None:
    failure = await fail(executor, "trap 'echo asked; exit 0' TERM; echo go; sleep 60 & wait", timeout=4)
    assert (failure.error, failure.is_timeout) == ("timed out after 4 s", True)
    assert failure.output == "go\nasked\n"
    assert (await cluster.api.names("pods"), cluster.node.processes()) == ([], 0)


async def test_program_that_does_not_heed_is_killed(executor: KubernetesExecutor, cluster: Cluster) -> None:
    failure = await fail(executor, "trap '' TERM; echo go; while :; do sleep 0.1; done", timeout=3)
    assert failure.is_timeout
    assert (await cluster.api.names("pods"), cluster.node.processes()) == ([], 0)


async def test_soft_limit_asks_the_pod_to_end(executor: KubernetesExecutor) -> None:
    script = "trap 'echo asked; sleep 2; echo done; exit 4' TERM; echo go; sleep 60 & wait"
    failure = await fail(executor, script, soft_timeout=2, timeout=30)
    assert failure.is_timeout
    assert failure.error.startswith("timed out after 2 s")
    assert failure.output == "go\nasked\ndone\n"


async def test_cancel_ends_the_pod(executor: KubernetesExecutor, cluster: Cluster) -> None:
    task = asyncio.create_task(run(executor, "sleep 60", payload=b"1"))
    await cluster.pod()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await cluster.api.names("jobs"), await cluster.api.names("pods")) == ([], [])
    assert cluster.node.processes() == 0


async def test_log_is_read_once_although_connections_break(
    executor: KubernetesExecutor, cluster: Cluster
) -> None:
    cluster.node.breaks += [3, 0, 2, 0]
    failure = await fail(executor, 'for n in $(seq 1 9); do echo "line $n"; sleep 0.4; done; exit 1')
    assert failure.output == "".join(f"line {n}\n" for n in range(1, 10))


async def test_secrets_of_several_lines_are_hidden(cluster: Cluster) -> None:
    place = SecretPlace("token", "env:TOKEN", ("default",))
    secrets = ConfiguredSecrets([place], {"TOKEN": "alpha\nbeta\ngamma"})
    async with executing(cluster, secrets=secrets) as executor:
        outcome = await run(executor, 'echo "$TOKEN"; echo alpha; echo end', env={"TOKEN": "${secret:token}"})
        assert isinstance(outcome, Success)
        assert outcome.output == "***\nalpha\nend\n"


async def test_what_is_printed_is_there_while_it_runs(executor: KubernetesExecutor, cluster: Cluster) -> None:
    class Log:
        def __init__(self) -> None:
            self.text = ""
            self.news = asyncio.Event()

        def write(self, text: str) -> None:
            self.text += text
            self.news.set()

        def skip(self, count: int) -> None:
            raise AssertionError(count)

        def tell(self, progress: object) -> None:
            raise AssertionError(progress)

    class Room:
        limit = 1 << 20

        def open(self, context: AttemptContext) -> Log:
            del context
            return log

    log = Log()
    context = replace(attempt('echo "is $TOKEN"; sleep 60', env={"TOKEN": "${secret:token}"}), room=Room())
    task = asyncio.create_task(executor.execute(context))
    await log.news.wait()
    assert log.text == "is ***\n"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_later_attempt_removes_an_earlier_one(cluster: Cluster) -> None:
    """The earlier worker is dead, or has lost its lease and does not know it yet."""
    async with executing(cluster) as first, executing(cluster) as second:
        earlier = asyncio.create_task(fail(first, "sleep 60", payload=b"1"))
        await cluster.pod()
        outcome = await run(second, "echo second", token=43, payload=b"2")
        assert outcome == Success(result=b'{"exit_code":0}', output="second\n")
        assert cluster.node.most == 1
        assert (await earlier).error.startswith("its")
        assert await cluster.api.names("secrets") == []


async def test_later_attempt_waits_for_a_pod_whose_job_is_gone(cluster: Cluster) -> None:
    async with executing(cluster) as executor:
        stubborn = "trap '' TERM; while :; do sleep 0.1; done"
        earlier = asyncio.create_task(fail(executor, stubborn, token=41))
        await cluster.pod()
        await cluster.api.delete("jobs", NAME, propagationPolicy="Background")
        assert (await earlier).error.startswith("its Job is gone")
        assert isinstance(await run(executor, "echo second", token=43), Success)
        assert cluster.node.most == 1


async def test_earlier_attempt_that_comes_late_leaves_a_later_one_alone(cluster: Cluster) -> None:
    async with executing(cluster) as first, executing(cluster) as second:
        later = asyncio.create_task(run(second, "sleep 2; echo second", token=43))
        await cluster.pod()
        failure = await fail(first, "echo first", token=41, payload=b"1")
        assert failure.error == "a later attempt of the run is at work"
        assert await later == Success(result=b'{"exit_code":0}', output="second\n")
        assert await cluster.api.names("secrets") == []


async def test_job_of_another_installation_is_left_alone(cluster: Cluster) -> None:
    """Its run has the same id, and its attempt the same token: no other worker of this one can have that."""
    async with executing(cluster) as other, executing(cluster) as executor:
        theirs = asyncio.create_task(run(other, "sleep 2; echo theirs", payload=b"1"))
        await cluster.pod()
        failure = await fail(executor, "echo mine", payload=b"2")
        assert "belongs to another installation" in failure.error
        assert not failure.is_retryable, "with the next attempt, it would be taken for an earlier one"
        assert await theirs == Success(result=b'{"exit_code":0}', output="theirs\n")


async def test_job_of_somebody_else_is_left_alone(executor: KubernetesExecutor, cluster: Cluster) -> None:
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "a", "image": IMAGE, "command": ["sleep", "60"]}],
    }
    spec = {"template": {"spec": {**pod, "terminationGracePeriodSeconds": 1}}, "activeDeadlineSeconds": 99}
    job = {"metadata": {"name": NAME}, "spec": spec}
    if cluster.fake is not None:
        spec["template"] = {"metadata": {}, **spec["template"]}  # type: ignore[dict-item]
    await cluster.api.make("jobs", job)
    assert "that is not Mainspring's" in (await fail(executor, "true")).error
    assert await cluster.api.names("jobs") == [NAME]
    await cluster.api.delete("jobs", NAME, propagationPolicy="Background")


async def test_work_that_may_not_begin_leaves_nothing(executor: KubernetesExecutor, cluster: Cluster) -> None:
    executor.ask_before_work(lambda: False)
    assert await run(executor, "true", payload=b"1") == NotBegun()
    assert await cluster.api.names("jobs") == []


async def test_what_a_dead_worker_left_is_removed_by_others(cluster: Cluster) -> None:
    async with executing(cluster, pace=replace(PACE, renew=60.0)) as dead, executing(cluster):
        task = asyncio.create_task(fail(dead, "sleep 60", payload=b"1"))
        await cluster.pod()
        # It renews nothing from now on. Its own Job is gone then, so its attempt ends, too.
        assert (await task).error.startswith("its")
        await asyncio.wait_for(cluster.gone("pods"), 30)
        await asyncio.wait_for(cluster.gone("secrets"), 30)
        assert cluster.node.processes() == 0


async def test_worker_that_renews_its_lease_is_left_alone(cluster: Cluster) -> None:
    async with executing(cluster) as alive, executing(cluster):
        assert isinstance(await run(alive, "sleep 4"), Success)


async def test_worker_that_stops_takes_all_along(cluster: Cluster) -> None:
    async with executing(cluster) as executor:
        await run(executor, "true")
        assert len(await cluster.api.names("leases")) == 1
    assert await cluster.api.names("leases") == []


async def test_many_at_a_time_share_the_looks(executor: KubernetesExecutor, cluster: Cluster) -> None:
    contexts = [replace(attempt(f"echo {n}"), run_id=RunId(1000 + n)) for n in range(12)]
    outcomes = await asyncio.gather(*map(executor.execute, contexts))
    assert [one.output for one in outcomes if isinstance(one, Success)] == [f"{n}\n" for n in range(12)]


# -- what only the fake server can be made to do ------------------------------------------------------------------


def fake_of(cluster: Cluster) -> FakeServer:
    if cluster.fake is None:
        pytest.skip("a real API server does not fail when it is told to")
    return cluster.fake


async def test_lost_answer_makes_no_second_job(executor: KubernetesExecutor, cluster: Cluster) -> None:
    fake = fake_of(cluster)
    fake.lost = 1
    assert await run(executor, "echo once") == Success(result=b'{"exit_code":0}', output="once\n")
    assert fake.calls.count(("POST", "jobs")) == 2


async def test_outage_of_the_api_server_is_waited_for(executor: KubernetesExecutor, cluster: Cluster) -> None:
    fake = fake_of(cluster)
    task = asyncio.create_task(run(executor, "sleep 1; echo well"))
    await cluster.pod()
    fake.is_down = True
    await cluster.pod(phase="Succeeded")
    fake.is_down = False
    assert await task == Success(result=b'{"exit_code":0}', output="well\n")


async def test_credentials_that_expire_are_renewed(
    executor: KubernetesExecutor, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = fake_of(cluster)
    monkeypatch.setattr("mainspring.executors._kubernetes.cluster._RENEWAL_APART", 0.0)
    task = asyncio.create_task(run(executor, "sleep 2; echo well"))
    await cluster.pod()
    del fake.tokens["worker-token"]
    fake.tokens["worker-2"] = "worker"
    make_kubeconfig(cluster.kubeconfig, cluster.api.url, "worker-2", None)
    assert await task == Success(result=b'{"exit_code":0}', output="well\n")


@pytest.mark.parametrize(
    ("refusal", "is_retryable"),
    [
        ((403, "Forbidden", "exceeded quota: batch"), True),
        ((422, "Invalid", "spec.template is wrong"), False),
    ],
)
async def test_refusal_is_told(
    executor: KubernetesExecutor, cluster: Cluster, refusal: tuple[int, str, str], is_retryable: bool
) -> None:
    fake_of(cluster).refusals.append(refusal)
    failure = await fail(executor, "true", payload=b"1")
    assert failure.error == f"the cluster refuses it: {refusal[2]}"
    assert failure.is_retryable is is_retryable


async def test_overload_is_waited_for(executor: KubernetesExecutor, cluster: Cluster) -> None:
    fake_of(cluster).refusals += [(429, "TooManyRequests", "slow down"), (500, "InternalError", "etcd")]
    assert isinstance(await run(executor, "true"), Success)


async def test_idle_worker_asks_for_leases_alone(executor: KubernetesExecutor, cluster: Cluster) -> None:
    fake = fake_of(cluster)
    await run(executor, "true")
    await asyncio.sleep(PACE.look * 2)
    fake.calls.clear()
    await asyncio.sleep(PACE.renew * 3)
    assert {kind for _, kind in fake.calls} == {"leases"}


async def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("kubernetes_asyncio")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "mainspring.executors._kubernetes.credentials", raising=False)
    monkeypatch.setitem(sys.modules, "kubernetes_asyncio", None)
    with pytest.raises(MissingExtra, match=r"pip install 'mainspring\[kubernetes\]'"):
        KubernetesExecutor(host_time=lambda: datetime.now(UTC))


# -- where the cluster is -----------------------------------------------------------------------------------------


def test_cluster_that_nothing_names_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make: Callable[..., object] = KubernetesExecutor
    with pytest.raises(InvalidInput, match="does not say where the cluster is") as caught:
        make(kubeconfig=str(tmp_path / "none"), host_time=lambda: datetime.now(UTC))
    assert caught.value.field == "executors.kubernetes.kubeconfig"
    config = make_kubeconfig(tmp_path / "config", "http://127.0.0.1:1", "t", None)
    with pytest.raises(InvalidInput, match="there is no context 'prod'; there are test") as caught:
        make(kubeconfig=str(config), context="prod", host_time=lambda: datetime.now(UTC))
    assert caught.value.field == "executors.kubernetes.context"
