"""Other job queues, each in an environment of its own, to be measured in turn with ours on one machine."""

from benchmarks.peers.contestants import Contestant, find_contestants

__all__ = ["Contestant", "find_contestants"]
