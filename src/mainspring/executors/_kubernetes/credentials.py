"""Where the cluster is, and who the worker is there. The one place that imports the library."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kubernetes_asyncio import client, config
from kubernetes_asyncio.client.configuration import Configuration

from mainspring.errors import InvalidInput
from mainspring.executors._text import clean

KUBECONFIG = "executors.kubernetes.kubeconfig"
_CONTEXT = "executors.kubernetes.context"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod has its own credentials and the name of its namespace."""
_WRONG = (config.ConfigException, OSError, ValueError, TypeError)


class ClusterCredentials:
    """Finds the cluster, and who the worker is there.

    Args:
        kubeconfig: a file; None goes by where the worker runs.
        context: its context; None is the current one.

    Raises:
        InvalidInput: there is no such file or context, or the file is wrong.
    """

    def __init__(self, kubeconfig: str | None, context: str | None) -> None:
        self._file = kubeconfig
        self._context = context
        self.is_in_pod = kubeconfig is None and context is None and (_ACCOUNT / "token").exists()
        self.namespace = self._find_namespace()

    def _find_namespace(self) -> str:
        if self.is_in_pod:
            return (_ACCOUNT / "namespace").read_text().strip() or "default"
        try:
            contexts, active = config.list_kube_config_contexts(config_file=self._file)
        except _WRONG as error:
            place = self._file or os.environ.get("KUBECONFIG") or "~/.kube/config"
            message = f"{place} does not say where the cluster is: {clean(str(error), 300)}"
            raise InvalidInput(KUBECONFIG, message) from error
        if self._context is not None:
            active = next((one for one in contexts if one["name"] == self._context), None)
            if active is None:
                known = ", ".join(sorted(one["name"] for one in contexts))
                raise InvalidInput(_CONTEXT, f"there is no context {self._context!r}; there are {known}")
        return str((active or {}).get("context", {}).get("namespace") or "default")

    async def connect(self) -> Any:
        """Return a client. A program that the file names may be run to get a token.

        Raises:
            InvalidInput: there are no credentials.
        """
        made = Configuration()
        try:
            if self.is_in_pod:
                config.load_incluster_config(  # type: ignore[no-untyped-call]
                    client_configuration=made
                )
            else:
                await config.load_kube_config(
                    config_file=self._file,
                    context=self._context,
                    client_configuration=made,
                    persist_config=False,
                )
        except _WRONG as error:
            raise InvalidInput(KUBECONFIG, clean(str(error), 300)) from error
        made.connection_pool_maxsize = 0  # followed logs keep theirs, and must not keep others waiting
        return client.ApiClient(made)
