"""The control plane of Kubernetes: etcd, API server and controllers, without nodes."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.kubernetes.fake import TOKENS

_CONTROLLERS = (
    "job-controller,garbage-collector-controller,ttl-after-finished-controller,serviceaccount-controller"
)
_PATIENCE = 90.0


@contextmanager
def control_plane(program: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Start it, and give the address of its API server and the file of its authority."""
    etcd, peer, port = (_free_port() for _ in range(3))
    url = f"https://127.0.0.1:{port}"
    (folder / "tokens.csv").write_text(
        "".join(
            f'{token},{user},{user},"{"system:masters" if user == "admin" else ""}"\n'
            for token, user in TOKENS.items()
        )
    )
    subprocess.run(
        ["openssl", "genrsa", "-out", folder / "accounts.key", "2048"], check=True, capture_output=True
    )
    started = [
        _start(
            folder,
            program,
            "etcd",
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
            f"--quota-backend-bytes={256 << 20}",
        )
    ]
    try:
        started.append(
            _start(
                folder,
                program,
                "kube-apiserver",
                f"--etcd-servers=http://127.0.0.1:{etcd}",
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={folder / 'certificates'}",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={folder / 'accounts.key'}",
                f"--service-account-signing-key-file={folder / 'accounts.key'}",
                f"--token-auth-file={folder / 'tokens.csv'}",
                "--authorization-mode=RBAC",
            )
        )
        _wait(url, folder)
        config = make_kubeconfig(folder / "manager.json", url, "admin-token", None)
        started.append(
            _start(
                folder,
                program,
                "kube-controller-manager",
                f"--kubeconfig={config}",
                f"--controllers={_CONTROLLERS}",
                "--leader-elect=false",
                "--secure-port=0",
            )
        )
        yield url, str(folder / "certificates" / "apiserver.crt")
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGKILL)
            process.wait()


def make_kubeconfig(path: Path, url: str, token: str, ca: str | None) -> Path:
    """Write the file by which a client finds an API server."""
    cluster: dict[str, object] = {"server": url}
    if ca is not None:
        cluster["certificate-authority"] = ca
    elif url.startswith("https:"):
        cluster["insecure-skip-tls-verify"] = True
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "worker", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "worker"}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(text))
    path.chmod(0o600)
    return path


def _start(folder: Path, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    with (folder / f"{arguments[0]}.log").open("wb") as log:
        return subprocess.Popen(
            [program, *arguments], stdout=log, stderr=log, env=os.environ | {"GOGC": "50"}
        )


def _wait(url: str, folder: Path) -> None:
    context = ssl._create_unverified_context()
    until = time.monotonic() + _PATIENCE
    request = urllib.request.Request(url + "/readyz", headers={"Authorization": "Bearer admin-token"})
    while True:
        try:
            with urllib.request.urlopen(request, context=context):
                return
        except (urllib.error.URLError, OSError):
            if time.monotonic() > until:
                raise AssertionError((folder / "kube-apiserver.log").read_text()[-3000:]) from None
            time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
