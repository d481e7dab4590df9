"""The processes between a worker and its commands. They run on their own, and use only the standard library.

A worker starts one *spawner*, a process that does nothing but fork. Its forks are cheap because it stays small; a
fork of the worker itself would stop the worker's event loop (trap T1). For each command the spawner forks a
*supervisor*, which starts the command and watches it until nothing of it is left:

- It is a child subreaper, so every descendant that loses its parent, or leaves the session, becomes its child. At
  the end it kills all of them.
- It reads the output, keeps the head and the tail, and drops the rest, so endless output costs the worker nothing.
- It ends the command when its time is up, when the worker says so, and when the worker is gone. For that, it polls
  the worker's pidfd and the control socket. The command itself has the parent-death signal, in case its supervisor
  dies.

Where the work of a command lives on without its processes, as a container of a daemon does, the request names further
commands, `after`, that remove it. The supervisor runs them if the command did not end by itself, or with one of
`after_codes`, also when the worker is gone. `linger` gives what the command left behind time to end by itself.

A request on the control socket is its length in 8 hex digits, then JSON. A `T` after it ends the command. The reply
is one line of JSON, then the kept output.

Modules of this package import each other relatively: a spawner loads them without the rest of Mainspring, so that it
stays small (see `_spawner`).
"""
