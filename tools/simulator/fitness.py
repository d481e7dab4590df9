"""Checks that a simulated server owns no shards while its host has a wrong clock or other zone data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from mainspring.core.shards import Refusal
from mainspring.ports.figures import ShardFigures
from mainspring.ports.store.nodes import NodeFacts
from tools.simulator.world import Node, World

WRONG = 10.0
"""How far a host's clock must be off for the node to refuse for sure, in seconds: twice the limit."""


class Fitness:
    """Sits between a server and its host's clock, and watches its store calls.

    It judges the server by what the server has read, not by what is true: a fault may begin in the middle of a check.
    """

    def __init__(self, world: World, node: Node, facts: NodeFacts) -> None:
        self._world = world
        self._node = node
        self._tzdata = facts.tzdata
        self._is_clock_wrong = False
        self._recorded: str | None = None
        self._refusal: Refusal | None = None

    def tell_time(self) -> datetime:
        """Return what the host's clock shows, and note that it was read."""
        skew = self._node.trouble.host_skew
        self._is_clock_wrong = abs(skew) > WRONG
        return self._world.time() + timedelta(seconds=skew)

    def check(self, verb: str, given: Mapping[str, Any]) -> None:
        """Record a rule that this call is about to break."""
        is_zone_data_other = self._recorded not in {None, self._tzdata}
        if verb == "take_shards" and (self._is_clock_wrong or is_zone_data_other):
            self._accuse("takes shards")
        elif verb == "beat_node":
            refusal = given["refusal"]
            if self._is_clock_wrong and refusal is not Refusal.CLOCK:
                self._accuse(f"reports {refusal} for a wrong clock")
            elif is_zone_data_other and refusal is None:
                self._accuse("reports nothing about its other zone data")

    def learn(self, verb: str, args: tuple[Any, ...], given: Mapping[str, Any], result: Any) -> None:
        """Note what the store has answered."""
        if verb == "read_cluster":
            self._recorded = result.tzdata
        elif verb == "record_tzdata" and result:
            self._recorded = args[0]
        elif verb == "beat_node":
            self._note_refusal(given["refusal"])

    def _note_refusal(self, refusal: Refusal | None) -> None:
        if refusal is self._refusal:
            return
        recorder = self._world.recorder
        name = self._node.name
        recorder.say(
            f"{name} refuses shards: {refusal}" if refusal is not None else f"{name} takes part again"
        )
        if refusal is None:
            recorder.reached[f"node_came_back_after_{self._refusal}"] += 1
        else:
            recorder.reached[f"node_refused_{refusal}"] += 1
        self._refusal = refusal

    def _accuse(self, what: str) -> None:
        zones = f"zone data {self._tzdata}, recorded {self._recorded}"
        self._world.recorder.broken.append(
            f"{self._world.time().isoformat()} {self._node.name} {what}"
            f" (clock {'wrong' if self._is_clock_wrong else 'right'}, {zones})"
        )


def check_division(figures: Mapping[str, ShardFigures | None], owned: set[int], shards: int) -> list[str]:
    """Return what is still wrong after everything has been repaired.

    Args:
        figures: the figures of each server; None for one that does not run.
        owned: the shards that servers plan.
        shards: how many shards there are.
    """
    broken = []
    for name, seen in figures.items():
        if seen is None:
            broken.append(f"{name} does not run")
        elif seen.refusal is not None:
            broken.append(f"{name} still refuses shards: {seen.refusal}")
    if len(owned) != shards:
        broken.append(f"no server plans {shards - len(owned)} shards")
    return broken
