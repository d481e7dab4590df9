"""Flows: what users have written and steps have returned is encrypted as it is kept, and decrypted as it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from mainspring.core.audit import AuditEntry
from mainspring.core.ids import RunId
from mainspring.core.model import Run
from mainspring.core.states import RunState
from mainspring.core.workflows.answers import StepAnswer, pack_event, unpack_event
from mainspring.core.workflows.mail import words_of_mail
from mainspring.core.workflows.places import StepPlace
from mainspring.core.workflows.waits import AnswerKind
from mainspring.encryption.fields import Place
from mainspring.encryption.runs import EncryptedRuns, hide, show
from mainspring.errors import CannotDecrypt
from mainspring.ports.flow_codec import holds_words
from mainspring.ports.store.flows import (
    FlowStart,
    FlowValue,
    FlowVerdict,
    KeptFlow,
    KeptMail,
    PostedMail,
    PostVerdict,
    TurnedFlow,
)
from mainspring.ports.store.nodes import Epochs

_STATE = "state"


class EncryptedFlows(EncryptedRuns):
    """The verbs of flows. A state that holds numbers only stays plain."""

    async def start_flows(self, starts: Sequence[FlowStart], *, now: datetime) -> list[FlowVerdict]:
        """See `FlowStore`."""
        telling = [one.run_id for one in starts if one.values or holds_words(one.state)]
        places = await self._find_places(telling)
        encrypted = [
            self._encrypt_start(one, places[one.run_id]) if one.run_id in places else one
            for one in self._encrypt_in(starts)
        ]
        return await self._store.start_flows(encrypted, now=now)

    async def turn_flows(
        self, turns: Sequence[TurnedFlow], *, epochs: Epochs, now: datetime
    ) -> list[FlowVerdict]:
        """See `FlowStore`."""
        ends = await self._encrypt_ends([turn.end for turn in turns if turn.end is not None])
        ended = {end.run_id: end for end in ends}
        telling = [turn.flow_id for turn in turns if turn.values or holds_words(turn.state)]
        places = await self._find_places(telling)
        encrypted = [
            self._encrypt_turn(turn, places.get(turn.flow_id))
            if turn.end is None
            else replace(self._encrypt_turn(turn, places.get(turn.flow_id)), end=ended[turn.end.run_id])
            for turn in self._encrypt_in(turns)
        ]
        verdicts = await self._store.turn_flows(encrypted, epochs=epochs, now=now)
        for run_id in ended:
            self._places.pop(run_id, None)
        return verdicts

    async def read_flows(self, flow_ids: Sequence[RunId]) -> list[KeptFlow | None]:
        """See `FlowStore`. What cannot be decrypted stays encrypted, so that nothing is decided with it."""
        return [
            None if flow is None else self._decrypt_flow(flow)
            for flow in await self._store.read_flows(flow_ids)
        ]

    async def read_flow_states(self, flow_ids: Sequence[RunId]) -> list[bytes | None]:
        """See `FlowStore`. One that cannot be decrypted stays encrypted, and so is of no form that is known."""
        states = await self._store.read_flow_states(flow_ids)
        found = zip(flow_ids, states, strict=True)
        places = await self._find_places([one for one, state in found if state is not None])
        return [
            None if state is None else self._decrypt_kept(state, _STATE, places.get(flow_id), flow_id)
            for flow_id, state in zip(flow_ids, states, strict=True)
        ]

    async def post_mail(
        self, mails: Sequence[PostedMail], *, audit: Sequence[AuditEntry] = ()
    ) -> list[PostVerdict]:
        """See `FlowStore`."""
        places = await self._find_places([one.flow_id for one in mails if words_of_mail(one.mail)])
        encrypted = [self._encrypt_mail(one, places.get(one.flow_id)) for one in mails] if places else mails
        return await self._store.post_mail(encrypted, audit=audit)

    def _encrypt_mail(self, posted: PostedMail, place: Place | None) -> PostedMail:
        mail = posted.mail
        if place is None or not isinstance(mail, StepAnswer) or mail.words is None:
            return posted
        words = self._fields.encrypt_flow(mail.words, _answer_to(mail.step), place, posted.flow_id)
        return replace(posted, mail=replace(mail, words=words))

    async def read_mail(
        self, shards: Sequence[int], *, lows: Mapping[int, int], limit: int
    ) -> list[KeptMail]:
        """See `FlowStore`. What cannot be decrypted stays encrypted, so that nothing is decided with it."""
        mails = await self._store.read_mail(shards, lows=lows, limit=limit)
        telling = [one.flow_id for one in mails if words_of_mail(one.mail) is not None]
        if not telling:
            return mails
        places = await self._find_places(telling)
        return [self._decrypt_mail(one, places.get(one.flow_id)) for one in mails]

    def _decrypt_mail(self, kept: KeptMail, place: Place | None) -> KeptMail:
        mail = kept.mail
        if not isinstance(mail, StepAnswer) or mail.words is None:
            return kept
        if mail.kind is AnswerKind.EVENT:
            words = mail.words if place is None else self._decrypt_event_in(mail.words, place)
        else:
            words = self._decrypt_kept(mail.words, _answer_to(mail.step), place, kept.flow_id)
        return replace(kept, mail=replace(mail, words=words))

    def _decrypt_event_in(self, words: bytes, place: Place) -> bytes:
        """Return the words of an event. Its data was encrypted as that of the event."""
        topic, data = unpack_event(words)
        if data is None:
            return words
        try:
            return pack_event(topic, self._fields.decrypt_event(data, place.tenant, topic))
        except CannotDecrypt:
            return words

    async def read_step_ends(self, places: Sequence[StepPlace]) -> list[Run | None]:
        """See `FlowStore`. A result that cannot be decrypted stays encrypted."""
        runs = await self._store.read_step_ends(places)
        return [None if run is None else self._decrypt(run, hide) for run in runs]

    async def read_flow_values(self, places: Sequence[StepPlace]) -> list[bytes | None]:
        """See `FlowStore`. What cannot be decrypted stays encrypted."""
        values = await self._store.read_flow_values(places)
        owners = await self._find_places([one.flow_id for one in places])
        return [
            None
            if value is None
            else self._decrypt_kept(value, _value_at(place.step), owners.get(place.flow_id), place.flow_id)
            for place, value in zip(places, values, strict=True)
        ]

    async def list_flow_runs(
        self,
        flow_id: RunId,
        *,
        steps: Sequence[int] | None = None,
        state: RunState | None = None,
        after: RunId | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """See `FlowStore`."""
        runs = await self._store.list_flow_runs(flow_id, steps=steps, state=state, after=after, limit=limit)
        return [self._decrypt(run, show) for run in runs]

    def _encrypt_state(self, state: bytes, place: Place, flow_id: RunId) -> bytes:
        return self._fields.encrypt_flow(state, _STATE, place, flow_id) if holds_words(state) else state

    def _encrypt_start(self, start: FlowStart, place: Place) -> FlowStart:
        state = self._encrypt_state(start.state, place, start.run_id)
        return replace(start, state=state, values=self._encrypt_values(start.values, place, start.run_id))

    def _encrypt_turn(self, turn: TurnedFlow, place: Place | None) -> TurnedFlow:
        if place is None or not (turn.values or holds_words(turn.state)):
            return turn
        state = self._encrypt_state(turn.state, place, turn.flow_id)
        return replace(turn, state=state, values=self._encrypt_values(turn.values, place, turn.flow_id))

    def _encrypt_values(
        self, values: Sequence[FlowValue], place: Place, flow_id: RunId
    ) -> tuple[FlowValue, ...]:
        encrypt = self._fields.encrypt_flow
        return tuple(
            [FlowValue(one.step, encrypt(one.value, _value_at(one.step), place, flow_id)) for one in values]
        )

    def _decrypt_flow(self, flow: KeptFlow) -> KeptFlow:
        place = Place(flow.lane.tenant, flow.job_id)
        try:
            payload = self._fields.decrypt_payload(flow.payload, place)
        except CannotDecrypt as error:
            payload = hide(error)
        state = self._decrypt_kept(flow.state, _STATE, place, flow.id)
        if payload is flow.payload and state is flow.state:
            return flow
        return replace(flow, payload=payload, state=state)

    def _decrypt_kept(self, data: bytes, field: str, place: Place | None, flow_id: RunId) -> bytes:
        if place is None:
            return data
        try:
            return self._fields.decrypt_flow(data, field, place, flow_id)
        except CannotDecrypt:
            return data


def _answer_to(step: int) -> str:
    return f"answer {step}"


def _value_at(step: int) -> str:
    return f"value {step}"
