"""The spawner: a small process that forks a supervisor for each command."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from typing import Any, NoReturn

from .processes import (
    SET_SUBREAPER,
    children_of,
    hide_from_user,
    make_poll,
    prctl,
    send_signal,
    wake_on_child,
)
from .supervisor import CommandSupervisor, folder_prefix


def main(server_fd: int, worker_pid: int) -> NoReturn:
    """Run the spawner: fork a supervisor for each control socket that arrives, until the worker is gone."""
    hide_from_user()  # supervisors read secrets for their commands
    server = socket.socket(fileno=server_fd)
    try:
        worker = os.pidfd_open(worker_pid)
    except ProcessLookupError:  # the worker was killed while this process started
        os._exit(0)
    if os.getppid() != worker_pid:
        os._exit(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(
            number, signal.SIG_IGN
        )  # stopping a service signals all its processes; the worker decides
    prctl(SET_SUBREAPER, 1)
    wake = wake_on_child()
    gc.disable()
    gc.freeze()
    poll = make_poll(server.fileno(), worker, wake)
    supervisors: set[int] = set()
    server.send(b"R")
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if worker in ready:
            os._exit(0)
        if wake in ready:
            os.read(wake, 4096)
            _reap(supervisors)
        if server.fileno() in ready:
            message, fds, _, _ = socket.recv_fds(server, 16, 1)
            if not message:
                os._exit(0)
            for fd in fds:
                pid = os.fork()
                if pid == 0:
                    server.close()
                    _be_supervisor(fd, worker)
                supervisors.add(pid)
                os.close(fd)


def _reap(supervisors: set[int]) -> None:
    """Reap supervisors. What a crashed one left behind has become our child; kill it."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            break
        if pid in supervisors and status != 0:
            _remove_folder(pid)
        supervisors.discard(pid)
    for pid in children_of(os.getpid()) - supervisors:
        send_signal(pid, signal.SIGKILL)


def _remove_folder(supervisor: int) -> None:
    """Remove the working folder that a crashed supervisor could not remove itself."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            is_its_own = entry.name.startswith(folder_prefix(supervisor)) and entry.is_dir(
                follow_symlinks=False
            )
            if is_its_own and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                shutil.rmtree(entry.path, ignore_errors=True)


def _be_supervisor(control_fd: int, worker: int) -> NoReturn:
    try:
        os.set_inheritable(control_fd, False)
        control = socket.socket(fileno=control_fd)
        request = _read_request(control)
        if request is not None:
            prctl(SET_SUBREAPER, 1)
            live, header, output = CommandSupervisor(request, control, worker).run()
            control.settimeout(30)
            with contextlib.suppress(OSError):
                control.sendall(live + b"R" + json.dumps(header).encode() + b"\n" + output)
    except BaseException:  # noqa: BLE001 -- it must never return into the spawner's loop
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def _read_request(control: socket.socket) -> dict[str, Any] | None:
    data = b""
    size = 8
    while len(data) < size:
        chunk = control.recv(65536)
        if not chunk:
            return None
        data += chunk
        if size == 8 <= len(data):
            size += int(data[:8], 16)
    request: dict[str, Any] = json.loads(data[8:size])
    return request
