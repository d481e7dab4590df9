"""The command itself: what a freshly forked process does to become the command."""

from __future__ import annotations

import os
import pwd
import resource
import signal
from typing import Any, NoReturn

from .processes import SET_DEATH_SIGNAL, SET_NO_NEW_PRIVILEGES, prctl


def become_command(request: dict[str, Any], cwd: str, stdio: tuple[int, int], errors: int) -> NoReturn:
    """Turn this freshly forked process into the command. If that fails, write the reason to `errors`."""
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
            signal.signal(number, signal.SIG_DFL)  # the worker may have been started with some ignored
        prctl(SET_NO_NEW_PRIVILEGES, int(not request.get("keeps_privileges")))  # 0 changes nothing
        prctl(SET_DEATH_SIGNAL, signal.SIGKILL)  # after setuid, which would clear it
        stage = "exec"
        if os.getppid() == supervisor:
            os.execvpe(request["argv"][0], request["argv"], env)  # noqa: S606 -- its purpose
    except KeyError as error:
        os.write(errors, f"{stage}\0000\0{error}".encode("utf-8", "replace"))
    except OSError as error:
        text = error.filename if stage == "cwd" else error.strerror  # which folder `~` is, only we know
        os.write(errors, f"{stage}\0{error.errno}\0{text}".encode("utf-8", "replace"))
    except BaseException as error:  # noqa: BLE001 -- it must never return into the supervisor
        os.write(errors, f"{stage}\0000\0{error}".encode("utf-8", "replace"))
    os._exit(127)


def open_stdin(text: str | None) -> int:
    if text is None:
        return os.open(os.devnull, os.O_RDONLY)
    fd = os.memfd_create("stdin")  # a file, so that no one has to feed a pipe
    os.write(fd, text.encode("utf-8", "surrogateescape"))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
