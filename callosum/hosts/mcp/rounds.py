"""Handle calls of several rounds: a result that asks for input, and the same call again with ``inputResponses``.

::

    call ── gate: ask ── input_required, a form ──> client ── call + inputResponses ── gate: yes or no ── server
    call ── server: input_required ───────────────> client ── call + inputResponses ────────────────── server

The first is a question of the gate to a person, sent through the client if the gate accepts host approvals. The second
is the server's own question: all its rounds are one call. Both exist from protocol version 2026 on, which has no
sessions, so a further round is recognised by its ``requestState``, its client, its tool and its arguments.
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
"""Prefix of the ``requestState`` of a question of the gate."""

_Same = tuple[str, str, str, bytes]
_canonical: Final = msgspec.json.Encoder(order="sorted").encode


def _same(call: Call) -> _Same:
    """Return the fields that must be equal for a call to be a further round of another."""
    return call.instance, call.session or "", call.tool, _canonical(call.params)


class Question(Struct, frozen=True):
    """Hold a call that a person must decide: the original call, its own id, the decision's id, and the sentence."""

    made: Call
    call_id: str
    decision: int
    text: str


class FormAnswer(NamedTuple):
    """Hold the answer that came back.

    ``question`` is None if this client was asked no such question about this call. ``agreed`` is None if the person has
    not chosen.
    """

    question: Question | None
    agreed: bool | None


class Rounds(Generic[F]):
    """Remember the rounds that clients are expected to continue. Any thread may use it.

    ``given_up`` receives each call that nobody continues.
    """

    def __init__(self, given_up: Callable[[F], object], seconds: float = INPUT_SECONDS) -> None:
        self._given_up = given_up
        self._seconds = seconds
        self._lock = threading.Lock()
        self._questions: OrderedDict[str, Question] = OrderedDict()
        self._waiting: OrderedDict[tuple[_Same, bytes], tuple[F, threading.Timer]] = OrderedDict()

    def ask(self, question: Question) -> str:
        """Remember a question. Return the ``requestState`` that identifies its answer."""
        state = OURS + os.urandom(12).hex()
        with self._lock:
            self._questions[state] = question
            while len(self._questions) > MOST:
                self._questions.popitem(last=False)
        return state

    def answer(self, call: Call, state: str, responses: Raw | UnsetType) -> FormAnswer:
        """Return a person's answer. A question is answered once."""
        with self._lock:
            question = self._questions.get(state)
            if question is None or _same(question.made) != _same(call):
                return FormAnswer(None, None)
            del self._questions[state]
        response = messages.fields_of(messages.fields_of(responses).get(FIELD, msgspec.UNSET))
        content = messages.fields_of(response.get("content", msgspec.UNSET))
        yes = bytes(content.get("approve", b"")) == b"true"
        return FormAnswer(question, agreed(messages.text_of(response.get("action")), approve=yes))

    def wait(self, call: Call, state: bytes, pending: F) -> None:
        """Keep a call open while its server waits for input from its client."""
        same = _same(call)
        timer = threading.Timer(self._seconds, self._expire, (same, state))
        timer.daemon = True
        with self._lock:
            replaced = [self._waiting.pop((same, state), None)]
            self._waiting[same, state] = pending, timer
            if len(self._waiting) > MOST:
                replaced.append(self._waiting.popitem(last=False)[1])
            timer.start()
        for entry in replaced:
            if entry is not None:
                entry[1].cancel()
                self._given_up(entry[0])

    def resume(self, call: Call, state: bytes) -> F | None:
        """Return the open call that this one continues, and no longer wait for it. Return None for a new call."""
        return self._taken(_same(call), state)

    def _taken(self, same: _Same, state: bytes) -> F | None:
        with self._lock:
            entry = self._waiting.pop((same, state), None)
        if entry is None:
            return None
        entry[1].cancel()
        return entry[0]

    def close(self) -> list[F]:
        """Return the open calls, which nobody can continue any more."""
        with self._lock:
            entries = list(self._waiting.values())
            self._waiting.clear()
        for _, timer in entries:
            timer.cancel()
        return [pending for pending, _ in entries]

    def _expire(self, same: _Same, state: bytes) -> None:
        pending = self._taken(same, state)
        if pending is not None:
            self._given_up(pending)


def takes_forms(meta: Mapping[str, Raw] | None) -> bool:
    """Return True if a request says that its client shows forms, which is possible from protocol version 2026 on."""
    if meta is None or not messages.is_modern(meta) or messages.CAPABILITIES not in meta:
        return False
    elicitation = messages.fields_of(meta[messages.CAPABILITIES]).get("elicitation")
    if elicitation is None or bytes(elicitation)[:1] != b"{":
        return False
    modes = messages.fields_of(elicitation)
    return not modes or "form" in modes


def asking(call: Call, text: str) -> dict[str, Any]:
    """Return the question as the input request of a result."""
    return {FIELD: {"method": "elicitation/create", "params": form(call.tool, call.params, text)}}
