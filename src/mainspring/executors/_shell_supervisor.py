"""The processes that stand between a worker and its commands. Run as a script, on the standard library alone.

A worker starts one *spawner*: a small process that does nothing but fork, which is cheap because it stays small
(a fork of the worker itself would stop its event loop, trap T1). For each command the spawner forks a *supervisor*,
which starts the command and watches over it until nothing of it is left:

- It is a child subreaper, so every descendant that loses its parent, or leaves the session, becomes its child. At
  the end it kills all of them.
- It reads the output, keeps head and tail, and drops the rest, so endless output costs the worker nothing.
- It ends the command when its time is up, when the worker says so, and when the worker is gone: it polls the
  worker's pidfd and the control socket. The command itself has the parent-death signal in case its supervisor dies.

Request on the control socket: length in 8 hex digits, JSON. Then `T` to end the command. Reply: one line of JSON,
the kept output.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import pwd
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from typing import Any, NoReturn

_SET_DEATH_SIGNAL, _SET_SUBREAPER, _SET_NO_NEW_PRIVILEGES = 1, 36, 38
_KEPT_END = 32 * 1024
_LAST_OUTPUT_SECONDS = 0.2
_KILL_ROUNDS = 500
_LONGEST_POLL = 3600.0
_libc = ctypes.CDLL(None, use_errno=True)
_monotonic = time.monotonic  # noqa: TID251 -- a process of its own, which no simulation reaches


def main(server_fd: int, worker_pid: int) -> NoReturn:
    """Be the spawner: fork a supervisor for each control socket that arrives, until the worker is gone."""
    server = socket.socket(fileno=server_fd)
    try:
        worker = os.pidfd_open(worker_pid)
    except ProcessLookupError:  # the worker was killed while this process was made
        os._exit(0)
    if os.getppid() != worker_pid:
        os._exit(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(
            number, signal.SIG_IGN
        )  # who stops a service signals all its processes; the worker decides
    _prctl(_SET_SUBREAPER, 1)
    wake = _wake_on_child()
    gc.disable()
    gc.freeze()
    poll = _poll(server.fileno(), worker, wake)
    supervisors: set[int] = set()
    server.send(b"R")
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if worker in ready:
            os._exit(0)
        if wake in ready:
            os.read(wake, 4096)
            _bury(supervisors)
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


def _bury(supervisors: set[int]) -> None:
    """Reap supervisors; what a crashed one left behind has become our child and is killed."""
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
    for pid in _children(os.getpid()) - supervisors:
        _signal(pid, signal.SIGKILL)


def _folder_prefix(supervisor: int) -> str:
    return f"mainspring-{supervisor}-"


def _remove_folder(supervisor: int) -> None:
    """Remove the working folder that a crashed supervisor could not remove itself."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            is_its_own = entry.name.startswith(_folder_prefix(supervisor)) and entry.is_dir(
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
            _prctl(_SET_SUBREAPER, 1)
            header, output = Supervisor(request, control, worker).run()
            control.settimeout(30)
            with contextlib.suppress(OSError):
                control.sendall(json.dumps(header).encode() + b"\n" + output)
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


class Supervisor:
    """Starts one command and stays until nothing of it is left."""

    def __init__(self, request: dict[str, Any], control: socket.socket, worker: int) -> None:
        self._request = request
        self._control = control
        self._worker = worker
        self._head = self._tail = b""
        self._size = 0
        self._reason = "exited"
        self._kill_at: float | None = None
        self._main = 0
        self._output = -1

    def run(self) -> tuple[dict[str, Any], bytes]:
        """Carry the command out; return the reply's header and the kept output."""
        folder = (
            tempfile.mkdtemp(prefix=_folder_prefix(os.getpid())) if self._request["cwd"] is None else None
        )
        wake = _wake_on_child()
        try:
            error = self._start(folder or self._request["cwd"])
            if error is None:
                self._watch(wake)
            code, is_clean = self._end(wake)
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        header = {
            "error": error,
            "code": code,
            "reason": self._reason,
            "head": len(self._head),
            "dropped": self._size - len(self._head) - len(self._tail),
            "is_clean": is_clean,
        }
        return header, self._head + self._tail

    def _start(self, cwd: str) -> list[str] | None:
        """Fork the command; return where and why it could not be started."""
        self._output, output_write = os.pipe()
        error_read, error_write = os.pipe()
        os.set_blocking(self._output, False)
        stdin = _open_stdin(self._request["stdin"])
        self._main = os.fork()
        if self._main == 0:
            _become_command(self._request, cwd, (stdin, output_write), error_write)
        for fd in (output_write, error_write, stdin):
            os.close(fd)
        told = os.read(error_read, 65536)
        os.close(error_read)
        return told.decode("utf-8", "replace").split("\0") if told else None

    def _watch(self, wake: int) -> None:
        """Wait for the end of the command, or bring it about."""
        now = _monotonic()
        hard_at = now + self._request["timeout"]
        soft_at = now + self._request["soft_timeout"] if self._request["soft_timeout"] is not None else None
        poll = _poll(self._control.fileno(), self._worker, wake, self._output)
        while not self._has_ended():
            wait = min(at for at in (soft_at, hard_at, self._kill_at) if at is not None) - _monotonic()
            ready = {fd for fd, _ in poll.poll(min(max(0.0, wait), _LONGEST_POLL) * 1000 + 1)}
            if self._output in ready and not self._read_output():
                poll.unregister(self._output)
            if wake in ready:
                os.read(wake, 4096)
            if self._worker in ready:
                return
            if self._control.fileno() in ready:
                if not self._control.recv(16):
                    return
                self._terminate("cancelled")
            now = _monotonic()
            if self._kill_at is not None and now >= self._kill_at:
                return
            if soft_at is not None and now >= soft_at:
                self._terminate("soft_timeout", kill_at=hard_at)
                soft_at = None
            if now >= hard_at:
                self._terminate("timeout")
                hard_at = float("inf")

    def _terminate(self, reason: str, kill_at: float | None = None) -> None:
        """Ask everything to end, and set the time at which it is made to."""
        if kill_at is None:
            kill_at = _monotonic() + self._request["grace"]
        if self._kill_at is not None:
            self._kill_at = min(self._kill_at, kill_at)
            return
        self._reason = reason
        self._kill_at = kill_at
        with contextlib.suppress(OSError):
            os.killpg(self._main, signal.SIGTERM)
        for pid in _descendants(os.getpid()):
            if _group(pid) != self._main:
                _signal(pid, signal.SIGTERM)
            _signal(pid, signal.SIGCONT)

    def _has_ended(self) -> bool:
        """Reap adopted processes; True when the command's own process has ended (and is still a zombie)."""
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return False
            if ended.si_pid == self._main:
                return True
            os.waitpid(ended.si_pid, os.WNOHANG)

    def _end(self, wake: int) -> tuple[int, bool]:
        """Kill whatever is left; return the command's exit code (minus a signal) and whether all is gone."""
        with contextlib.suppress(OSError):
            os.killpg(self._main, signal.SIGKILL)  # not reaped yet, so the group is surely ours
        _, status = os.waitpid(self._main, 0)
        is_clean = False
        for _ in range(_KILL_ROUNDS):
            left = _descendants(os.getpid())
            for pid in left:
                _signal(pid, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                is_clean = True
                break
            self._read_output()
            if left:
                select.select([wake], [], [], 0.01)
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
        until = _monotonic() + _LAST_OUTPUT_SECONDS
        while self._read_output() and (wait := until - _monotonic()) > 0:
            select.select([self._output], [], [], wait)
        return os.waitstatus_to_exitcode(status), is_clean

    def _read_output(self) -> bool:
        """Take what is there; False when there will be no more."""
        try:
            data = os.read(self._output, 65536)
        except BlockingIOError:
            return True
        self._size += len(data)
        room = _KEPT_END - len(self._head)
        if room > 0:
            self._head += data[:room]
            self._tail = data[room:][-_KEPT_END:]
        else:
            self._tail = (self._tail + data)[-_KEPT_END:]
        return bool(data)


def _become_command(request: dict[str, Any], cwd: str, stdio: tuple[int, int], errors: int) -> NoReturn:
    """Turn this freshly forked process into the command; tell through `errors` when that fails."""
    stage = "start"
    try:
        supervisor = os.getppid()
        signal.set_wakeup_fd(-1)
        os.setsid()
        os.dup2(stdio[0], 0)
        os.dup2(stdio[1], 1)
        os.dup2(stdio[1], 2)
        env = request["env"]
        stage = "user"
        user = pwd.getpwnam(request["user"]) if request["user"] else pwd.getpwuid(os.geteuid())
        env = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, **env}
        stage = "limit"
        for name, limit in request["limits"].items():
            resource.setrlimit(getattr(resource, "RLIMIT_" + name.upper()), (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if request["user"] and user.pw_uid != os.geteuid():
            stage = "user"
            os.initgroups(user.pw_name, user.pw_gid)
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
        stage = "cwd"
        os.chdir(env["HOME"] if cwd == "~" else cwd)
        os.umask(0o022)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)  # whoever started the worker may have had some ignored
        _prctl(_SET_NO_NEW_PRIVILEGES, 1)
        _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)  # after setuid, which would clear it
        stage = "exec"
        if os.getppid() == supervisor:
            os.execvpe(request["argv"][0], request["argv"], env)  # noqa: S606 -- its purpose
    except KeyError as error:
        os.write(errors, f"{stage}\0000\0{error}".encode("utf-8", "replace"))
    except OSError as error:
        os.write(errors, f"{stage}\0{error.errno}\0{error.strerror}".encode("utf-8", "replace"))
    except BaseException as error:  # noqa: BLE001 -- it must never return into the supervisor
        os.write(errors, f"{stage}\0000\0{error}".encode("utf-8", "replace"))
    os._exit(127)


def _open_stdin(text: str | None) -> int:
    if text is None:
        return os.open(os.devnull, os.O_RDONLY)
    fd = os.memfd_create("stdin")  # a file, so that nobody has to feed a pipe
    os.write(fd, text.encode("utf-8", "surrogateescape"))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _wake_on_child() -> int:
    """Return a descriptor that becomes readable when a child ends."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return read


def _poll(*fds: int) -> select.poll:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return poll


def _children(pid: int) -> set[int]:
    """Return the children of a process, zombies included."""
    found: set[int] = set()
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as tasks:
        for task in tasks:
            with contextlib.suppress(OSError):
                found.update(map(int, _read(f"{task.path}/children").split()))
    return found


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        data = b""
        while chunk := os.read(fd, 65536):
            data += chunk
        return data
    finally:
        os.close(fd)


def _descendants(pid: int) -> set[int]:
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        fresh = _children(waiting.pop()) - found
        found |= fresh
        waiting += fresh
    return found


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _prctl(option: int, value: int) -> None:
    _libc.prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
