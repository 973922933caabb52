"""Calls that take several rounds: a result that asks for input, and the same call again with ``inputResponses``.

::

    call ── gate: ask ── input_required, a form ──> client ── call + inputResponses ── gate: yes or no ── server
    call ── server: input_required ───────────────> client ── call + inputResponses ────────────────── server

The first is a question of the gate to a person, put through the client where the gate takes a host's word. The second
is the server's own: it is one call from its first round to its last. Both are from 2026 on; the protocol is without
sessions, so what comes back is known by its ``requestState``, its client, its tool and its arguments.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct, UnsetType

from callosum.elicitation import FIELD, INPUT_SECONDS, MOST, agreed, form
from callosum.hosts.mcp import messages
from callosum.model import Call

F = TypeVar("F")

OURS: Final = "callosum-"
"""How the ``requestState`` of a question of the gate begins."""

_Same = tuple[str, str, str, bytes]
_canonical: Final = msgspec.json.Encoder(order="sorted").encode


def _same(call: Call) -> _Same:
    """Return what must be equal for a call to be a further round of another."""
    return call.instance, call.session or "", call.tool, _canonical(call.params)


class Question(Struct, frozen=True):
    """A call that a person must decide: as its client made it, its own id, the gate's, and the sentence."""

    made: Call
    call_id: str
    decision: int
    text: str


class Answer(NamedTuple):
    """What came back.

    ``question`` is None where none is known that was put to this client about this call; ``agreed`` where the person
    has not chosen.
    """

    question: Question | None
    agreed: bool | None


class Rounds(Generic[F]):
    """What clients are expected to come back with. ``given_up`` is told of a call that nobody continues.

    Usable from any thread.
    """

    def __init__(self, given_up: Callable[[F], object], seconds: float = INPUT_SECONDS) -> None:
        self._given_up = given_up
        self._seconds = seconds
        self._lock = threading.Lock()
        self._questions: OrderedDict[str, Question] = OrderedDict()
        self._waiting: OrderedDict[tuple[_Same, bytes], tuple[F, threading.Timer]] = OrderedDict()

    def ask(self, question: Question) -> str:
        """Remember a question; return the ``requestState`` by which its answer is known."""
        state = OURS + os.urandom(12).hex()
        with self._lock:
            self._questions[state] = question
            while len(self._questions) > MOST:
                self._questions.popitem(last=False)
        return state

    def answer(self, call: Call, state: str, responses: Raw | UnsetType) -> Answer:
        """Return what a person said. A question is answered once."""
        with self._lock:
            question = self._questions.get(state)
            if question is None or _same(question.made) != _same(call):
                return Answer(None, None)
            del self._questions[state]
        said = messages.fields_of(messages.fields_of(responses).get(FIELD, msgspec.UNSET))
        content = messages.fields_of(said.get("content", msgspec.UNSET))
        yes = bytes(content.get("approve", b"")) == b"true"
        return Answer(question, agreed(messages.text_of(said.get("action")), approve=yes))

    def wait(self, call: Call, state: bytes, flight: F) -> None:
        """Keep a call open whose server has asked its client for input."""
        same = _same(call)
        timer = threading.Timer(self._seconds, self._expire, (same, state))
        timer.daemon = True
        with self._lock:
            left = [self._waiting.pop((same, state), None)]
            self._waiting[same, state] = flight, timer
            if len(self._waiting) > MOST:
                left.append(self._waiting.popitem(last=False)[1])
            timer.start()
        for one in left:
            if one is not None:
                one[1].cancel()
                self._given_up(one[0])

    def resume(self, call: Call, state: bytes) -> F | None:
        """Return the call that this one goes on with, which is no longer waited for; None for a new call."""
        return self._taken(_same(call), state)

    def _taken(self, same: _Same, state: bytes) -> F | None:
        with self._lock:
            found = self._waiting.pop((same, state), None)
        if found is None:
            return None
        found[1].cancel()
        return found[0]

    def close(self) -> list[F]:
        """Return the calls that nobody can continue any more."""
        with self._lock:
            left = list(self._waiting.values())
            self._waiting.clear()
        for _, timer in left:
            timer.cancel()
        return [flight for flight, _ in left]

    def _expire(self, same: _Same, state: bytes) -> None:
        flight = self._taken(same, state)
        if flight is not None:
            self._given_up(flight)


def takes_forms(meta: Mapping[str, Raw] | None) -> bool:
    """Whether the client of a request shows forms to a person: it must say so with each request, and from 2026 on."""
    if meta is None or not messages.is_modern(meta) or messages.CAPABILITIES not in meta:
        return False
    said = messages.fields_of(meta[messages.CAPABILITIES]).get("elicitation")
    if said is None or bytes(said)[:1] != b"{":
        return False
    modes = messages.fields_of(said)
    return not modes or "form" in modes


def asking(call: Call, text: str) -> dict[str, Any]:
    """Return the question as the input request of a result."""
    return {FIELD: {"method": "elicitation/create", "params": form(call.tool, call.params, text)}}
