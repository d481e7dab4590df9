"""What the process does that forks the processes of functions, when it imports this.

It outlives signals that a service manager or a terminal sends to all processes of the worker: the worker decides when
its functions end. Until a fork says otherwise, no other process of this user can read the environment of the worker,
which it has inherited.
"""

from __future__ import annotations

import signal
import sys

if sys.platform == "linux":
    from mainspring.executors._shell_supervisor.processes import hide_from_user

    hide_from_user()
for _number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(_number, signal.SIG_IGN)
