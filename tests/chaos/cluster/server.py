"""`mainspring server` as a process to be harmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.chaos.failpoints import Failpoint
from tests.chaos.processes import READY, Process, free_port, set_failpoint


class ClusterServer(Process):
    """One `mainspring server` on a PostgreSQL that it shares.

    Args:
        store: the DSN; a callable, as the way to the store may be made later.
        port: where it listens in each of its lives.
        options: more options of `mainspring server`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str,
        store: Callable[[], str],
        port: int,
        receiver: str,
        beat_period: float,
        node_period: float,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(folder, name=name, is_watched=True)
        self.address = f"http://127.0.0.1:{port}"
        self._store = store
        self._options = [
            *("--port", str(port), "--beat-period", str(beat_period), "--node-period", str(node_period)),
            *("--allow-shell", "--callback-allow", receiver, "--drain", "10"),
            *options,
        ]

    def start(self, failpoint: Failpoint | None = None, environment: Mapping[str, str] | None = None) -> None:
        """Start and return once it listens.

        Args:
            environment: added to its environment, such as a shifted clock.

        Raises:
            Ended: it ended before that.
        """
        arguments = ["server", "--store", self._store(), *self._options]
        self._spawn(arguments, READY, {**set_failpoint(failpoint), **(environment or {})})


def free_ports(count: int) -> list[int]:
    """Return so many different ports that nobody listens on."""
    found: list[int] = []
    while len(found) < count:
        found.append(free_port(above=found[-1] if found else None))
    return found
