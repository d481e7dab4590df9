"""The processes that stand between a worker and its commands. Run by themselves, on the standard library alone.

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

Modules of this package import each other relatively: a spawner loads them without the rest of Mainspring, so that it
stays small (see `_spawner`).
"""
