"""The settings of executors that run images: containers on the worker's machine, and Jobs of Kubernetes.

They are a part of `table`, and like it import nothing slow.
"""

from __future__ import annotations

from datetime import timedelta

from mainspring.config.kinds import OneLine, Several
from mainspring.config.setting import UP, WORKER, Setting
from mainspring.core.kinds import Flag, Number, Whole
from mainspring.core.targets.container import MOST_CPUS, MOST_MEMORY
from mainspring.core.targets.kubernetes import ObjectName
from mainspring.core.times import Duration

_EXECUTING = (UP, WORKER)
_DAY = timedelta(days=1)

CONTAINER_SETTINGS = (
    Setting(
        name="executors.container.enabled",
        kind=Flag(),
        default=False,
        field="container_enabled",
        words="Allow containers as jobs: the server accepts them, the worker runs them.",
    ),
    Setting(
        name="executors.container.program",
        kind=OneLine(),
        metavar="PATH",
        default="podman",
        field="container_program",
        used_by=_EXECUTING,
        words="The program that runs containers, podman or docker, found in executors.shell.path.",
    ),
    Setting(
        name="executors.container.options",
        kind=Several(words="list of options"),
        metavar="OPTION",
        default=(),
        field="container_options",
        used_by=_EXECUTING,
        words="Options that the program is given in front of its command.",
    ),
    Setting(
        name="executors.container.run_options",
        kind=Several(words="list of options"),
        metavar="OPTION",
        default=(),
        field="container_run_options",
        used_by=_EXECUTING,
        words="Options that `run` is given behind Mainspring's own.",
    ),
    Setting(
        name="executors.container.images",
        kind=Several(words="list of images, and beginnings of their names that end in *"),
        metavar="IMAGE",
        default=(),
        default_words="no image",
        field="container_images",
        used_by=_EXECUTING,
        words="Images that jobs may run, and beginnings of their names that end in *.",
    ),
    Setting(
        name="executors.container.network",
        kind=OneLine(),
        metavar="NAME",
        default="none",
        field="container_network",
        used_by=_EXECUTING,
        words="The network that containers are in.",
    ),
    Setting(
        name="executors.container.memory",
        kind=Whole(8, MOST_MEMORY),
        default=512,
        field="container_memory",
        used_by=_EXECUTING,
        words="MiB of memory that a container has, and the most that a job can ask for.",
    ),
    Setting(
        name="executors.container.cpus",
        kind=Number(0.01, MOST_CPUS),
        default=1.0,
        field="container_cpus",
        used_by=_EXECUTING,
        words="Processors that a container has, and the most that a job can ask for.",
    ),
    Setting(
        name="executors.container.grace",
        kind=Duration(timedelta(0), timedelta(hours=1)),
        default=timedelta(seconds=5),
        field="container_grace",
        used_by=_EXECUTING,
        words="How long a container has between SIGTERM and SIGKILL.",
    ),
    Setting(
        name="executors.kubernetes.enabled",
        kind=Flag(),
        default=False,
        field="kubernetes_enabled",
        words="Allow Jobs of Kubernetes as jobs: the server accepts them, the worker runs them. It needs the extra"
        " `kubernetes`.",
    ),
    Setting(
        name="executors.kubernetes.kubeconfig",
        kind=OneLine(),
        metavar="PATH",
        default=None,
        default_words="in a pod, its service account; else KUBECONFIG, else ~/.kube/config",
        field="kubernetes_kubeconfig",
        used_by=_EXECUTING,
        words="The file that says where the cluster is and who the worker is there.",
    ),
    Setting(
        name="executors.kubernetes.context",
        kind=OneLine(),
        metavar="NAME",
        default=None,
        default_words="the file's current one",
        field="kubernetes_context",
        used_by=_EXECUTING,
        words="The context of that file.",
    ),
    Setting(
        name="executors.kubernetes.namespaces",
        kind=Several(item=ObjectName(), words="list of namespaces"),
        default=(),
        default_words="that of the worker's pod or context, else `default`",
        field="kubernetes_namespaces",
        used_by=_EXECUTING,
        words="Namespaces that jobs may name. The first is that of jobs that name none.",
    ),
    Setting(
        name="executors.kubernetes.images",
        kind=Several(words="list of images, and beginnings of their names that end in *"),
        metavar="IMAGE",
        default=(),
        default_words="no image",
        field="kubernetes_images",
        used_by=_EXECUTING,
        words="Images that jobs may run, and beginnings of their names that end in *.",
    ),
    Setting(
        name="executors.kubernetes.service_accounts",
        kind=Several(item=ObjectName(longest=253), words="list of service accounts"),
        default=(),
        field="kubernetes_service_accounts",
        used_by=_EXECUTING,
        words="Service accounts that jobs may name.",
    ),
    Setting(
        name="executors.kubernetes.pull_secrets",
        kind=Several(item=ObjectName(longest=253), words="list of Secrets"),
        default=(),
        field="kubernetes_pull_secrets",
        used_by=_EXECUTING,
        words="Secrets of the namespace with which images are pulled.",
    ),
    Setting(
        name="executors.kubernetes.as_root",
        kind=Flag(),
        default=True,
        field="kubernetes_as_root",
        used_by=_EXECUTING,
        words="Let images run as root in their container; false has Kubernetes refuse those that do.",
    ),
    Setting(
        name="executors.kubernetes.memory",
        kind=Whole(8, MOST_MEMORY),
        default=512,
        field="kubernetes_memory",
        used_by=_EXECUTING,
        words="MiB of memory that a pod has, and the most that a job can ask for.",
    ),
    Setting(
        name="executors.kubernetes.cpus",
        kind=Number(0.01, MOST_CPUS),
        default=1.0,
        field="kubernetes_cpus",
        used_by=_EXECUTING,
        words="Processors that a pod has, and the most that a job can ask for.",
    ),
    Setting(
        name="executors.kubernetes.grace",
        kind=Duration(timedelta(0), timedelta(hours=1)),
        default=timedelta(seconds=5),
        field="kubernetes_grace",
        used_by=_EXECUTING,
        words="How long a pod has between SIGTERM and SIGKILL.",
    ),
    Setting(
        name="executors.kubernetes.start_timeout",
        kind=Duration(timedelta(seconds=1), _DAY),
        default=timedelta(minutes=10),
        field="kubernetes_start_timeout",
        used_by=_EXECUTING,
        words="How long a pod may wait for a node and its image before its attempt fails and says what is missing.",
    ),
)
