"""The catalogue of events: one class an event, with its fields and their units.

An event has a dotted name (``tool.completed``) and a payload. On the wire the payload is a JSON object in
camelCase; beside the event's own fields it carries those of ``CorpusEvent`` as far as they are known::

    {"name": "github_prs", "output": "3 open", "duration": 1204.0, "at": 1715850906.2, "instance": "mira"}

The dotted name stands next to the payload, not in it: some payloads have a field ``type`` of their own.
In ``POST /events`` the object also has the name, under ``type``; none that is taken in has such a field.

To add an event is to write one class. ``CATALOGUE`` is made from the classes.
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Mapping
from inspect import get_annotations
from typing import Annotated, Any, ClassVar, Final, TypeVar

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from callosum.model import DEFAULT_NAMESPACE, MAX_NAME
from callosum.redact import summarise
from callosum.wire import MAX_EVENTS, BadRequest, Id, can_be_seen
from callosum.wire import fault_of as _fault_of
from callosum.wire import read as _read

Count = Annotated[int, Meta(ge=0, le=2**53)]
Number = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Moment = Annotated[float, Meta(ge=0, le=2**33)]

CATALOGUE: Final[dict[str, type[CorpusEvent]]] = {}
"""Every event there is, by its dotted name, in the order of definition."""

_NAME: Final = re.compile(r"[a-z]+(\.[a-z][A-Za-z]*)+")


class CorpusEvent(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """What all events carry beside their own fields, as far as it is known.

    ``at`` is when, in Unix seconds (default: now). ``instance`` is the session that acts (``instance`` or
    ``instance/session``), ``namespace`` whose memory it concerns (None: no single one). ``call_id`` is the
    host's id of the tool call, ``id`` the gate's id of the action. ``cause`` is the event that caused this
    one: its id in the stream, where it came from the journal.

    A subclass says its dotted name and the ``region`` that emits it; ``remote`` says whether a host may
    report it over the wire. What only the gate can know, it cannot.
    """

    dotted: ClassVar[str] = ""
    region: ClassVar[str] = ""
    remote: ClassVar[bool] = False

    at: Moment = field(default_factory=time.time)
    instance: str | None = None
    namespace: str | None = None
    call_id: str | None = None
    id: Id | None = None
    cause: str | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Puts the class into the catalogue. Raises ``TypeError`` for a name that cannot be used."""
        super().__init_subclass__(**options)
        name = cls.__dict__.get("dotted", "")
        if not _NAME.fullmatch(name):
            raise TypeError(f"{cls.__name__}.dotted: expected a name like 'tool.completed', got {name!r}")
        if cls.remote and "type" in get_annotations(cls):
            raise TypeError(f"{cls.__name__}.type: on the wire this is the event's name, so no remote event has it")
        known = CATALOGUE.get(name)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"{cls.__name__}.dotted: {name!r} is {known.__name__}'s")
        CATALOGUE[name] = cls


# --- input ----------------------------------------------------------------------------------------------


class InputReceived(CorpusEvent, frozen=True):
    """A prompt or a message reached a session. ``content`` is shortened and redacted."""

    dotted: ClassVar[str] = "input.received"
    region: ClassVar[str] = "host"
    remote: ClassVar[bool] = True

    content: str
    channel_id: str
    conversation_id: str


class InputClassified(CorpusEvent, frozen=True):
    """What an input asks for: inform, read, write, communicate, commit, destroy. ``confidence`` is 0 to 1."""

    dotted: ClassVar[str] = "input.classified"
    region: ClassVar[str] = "Prefrontal"
    remote: ClassVar[bool] = True

    intent: str
    confidence: Share


class InputRouted(CorpusEvent, frozen=True):
    """Which model takes an input, as the host says."""

    dotted: ClassVar[str] = "input.routed"
    region: ClassVar[str] = "Prefrontal"
    remote: ClassVar[bool] = True

    provider: str
    model: str


# --- context --------------------------------------------------------------------------------------------


class ContextBuilt(CorpusEvent, frozen=True):
    """A session's context was put together: its size in tokens, and of how many sections."""

    dotted: ClassVar[str] = "context.built"
    region: ClassVar[str] = "Prefrontal"
    remote: ClassVar[bool] = True

    tokens: Count
    sections: Count


class ContextTrimmed(CorpusEvent, frozen=True):
    """A context was cut to size: tokens ``before`` and ``after``, and how many sections were ``dropped``."""

    dotted: ClassVar[str] = "context.trimmed"
    region: ClassVar[str] = "RAS"
    remote: ClassVar[bool] = True

    before: Count
    after: Count
    dropped: Count


# --- models ---------------------------------------------------------------------------------------------


class LlmResponse(CorpusEvent, frozen=True):
    """A model answered, with so many ``tokens``."""

    dotted: ClassVar[str] = "llm.response"
    region: ClassVar[str] = "Thalamus"
    remote: ClassVar[bool] = True

    provider: str
    model: str
    tokens: Count


class LlmError(CorpusEvent, frozen=True):
    """A model failed; ``will_retry``: the host tries again."""

    dotted: ClassVar[str] = "llm.error"
    region: ClassVar[str] = "Thalamus"
    remote: ClassVar[bool] = True

    provider: str
    error: str
    will_retry: bool


class LlmToken(CorpusEvent, frozen=True):
    """A piece of a model's answer, while it comes. A secret cut across two pieces is not recognised."""

    dotted: ClassVar[str] = "llm.token"
    region: ClassVar[str] = "Thalamus"
    remote: ClassVar[bool] = True

    delta: str


# --- tools ----------------------------------------------------------------------------------------------


class ToolCalled(CorpusEvent, frozen=True):
    """A call reached the gate; blocked ones too. ``args`` are summarised and redacted.

    ``task_id`` is the guarded run that it belongs to, where there is one.
    """

    dotted: ClassVar[str] = "tool.called"
    region: ClassVar[str] = "Motor"

    name: str
    args: Mapping[str, Any]
    task_id: str | None = None


class ToolCompleted(CorpusEvent, frozen=True):
    """A call was done. ``duration`` is in milliseconds from the decision to the report, None if unknown."""

    dotted: ClassVar[str] = "tool.completed"
    region: ClassVar[str] = "Motor"

    name: str
    output: Any = None
    duration: Number | None = None
    task_id: str | None = None


class ToolFailed(CorpusEvent, frozen=True):
    """A call failed, was cancelled, or nobody knows how it ended. ``attempt`` counts from 1."""

    dotted: ClassVar[str] = "tool.failed"
    region: ClassVar[str] = "Motor"

    name: str
    error: str
    attempt: Count = 1
    task_id: str | None = None


class ParsedCall(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A tool call as a model wrote it; ``args`` are summarised and redacted."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    call_id: str | None = None


class ToolParsed(CorpusEvent, frozen=True):
    """A model's answer was read as tool calls, before they reach the gate."""

    dotted: ClassVar[str] = "tool.parsed"
    region: ClassVar[str] = "Wernicke"
    remote: ClassVar[bool] = True

    calls: Annotated[tuple[ParsedCall, ...], Meta(max_length=100)]


# --- safety ---------------------------------------------------------------------------------------------


class SafetyAllowed(CorpusEvent, frozen=True):
    """The gate let a call through, perhaps with a warning.

    ``classification`` says how grave the call is: safe, low, medium, high, critical (tiers 0 to 4).
    """

    dotted: ClassVar[str] = "safety.allowed"
    region: ClassVar[str] = "Amygdala"

    tool_name: str
    classification: str


class SafetyBlocked(CorpusEvent, frozen=True):
    """The gate did not let a call through: it must be confirmed, a person is asked, or it is blocked."""

    dotted: ClassVar[str] = "safety.blocked"
    region: ClassVar[str] = "Amygdala"

    tool_name: str
    reason: str


class SafetyApproved(CorpusEvent, frozen=True):
    """A person agreed to a call. ``channel_id`` says through what (cli, console, host), "" if nobody said."""

    dotted: ClassVar[str] = "safety.approved"
    region: ClassVar[str] = "Amygdala"

    tool_name: str
    channel_id: str


class SafetyDenied(CorpusEvent, frozen=True):
    """A person refused a call. ``channel_id`` as in ``SafetyApproved``."""

    dotted: ClassVar[str] = "safety.denied"
    region: ClassVar[str] = "Amygdala"

    tool_name: str
    channel_id: str


# --- tasks: guarded runs of a tool, with their attempts -------------------------------------------------


class TaskCreated(CorpusEvent, frozen=True):
    """A guarded run of a tool is planned."""

    dotted: ClassVar[str] = "task.created"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: str
    tool_name: str


class TaskStarted(CorpusEvent, frozen=True):
    """An attempt begins; ``attempt`` counts from 1."""

    dotted: ClassVar[str] = "task.started"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: str
    attempt: Count


class TaskStepCompleted(CorpusEvent, frozen=True):
    """A step of a task is done; ``duration`` in milliseconds."""

    dotted: ClassVar[str] = "task.stepCompleted"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: str
    step: str
    duration: Number


class TaskCompleted(CorpusEvent, frozen=True):
    """A task came to its end; ``total_duration`` in milliseconds, pauses between attempts included."""

    dotted: ClassVar[str] = "task.completed"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: str
    success: bool
    total_duration: Number


class TaskFailed(CorpusEvent, frozen=True):
    """A task was given up after so many ``attempts``."""

    dotted: ClassVar[str] = "task.failed"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: str
    error: str
    attempts: Count


class TaskStopped(CorpusEvent, frozen=True):
    """A task was stopped from outside, or by the gate."""

    dotted: ClassVar[str] = "task.stopped"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: str
    reason: str


# --- memory ---------------------------------------------------------------------------------------------


class MemorySaved(CorpusEvent, frozen=True):
    """A page of memory was written: what sort (``episode``), and its path below the state folder."""

    dotted: ClassVar[str] = "memory.saved"
    region: ClassVar[str] = "Hippocampus"

    type: str
    path: str


class MemoryConsolidated(CorpusEvent, frozen=True):
    """A week's digest was written; ``week`` as in ISO 8601 (``2026-W20``)."""

    dotted: ClassVar[str] = "memory.consolidated"
    region: ClassVar[str] = "Brainstem"

    week: str
    episode_count: Count


class MemoryPromoted(CorpusEvent, frozen=True):
    """A key to which several sessions keep returning got a page of its own."""

    dotted: ClassVar[str] = "memory.promoted"
    region: ClassVar[str] = "Brainstem"

    topic: str
    path: str


# --- health ---------------------------------------------------------------------------------------------


class HealthOk(CorpusEvent, frozen=True):
    """All is well; ``metrics`` are what was measured, by name, the unit in the name."""

    dotted: ClassVar[str] = "health.ok"
    region: ClassVar[str] = "Hypothalamus"

    metrics: Mapping[str, float | int | str]


class HealthWarning(CorpusEvent, frozen=True):
    """Something is beyond its threshold; ``value`` and ``threshold`` are numbers, or words that say it."""

    dotted: ClassVar[str] = "health.warning"
    region: ClassVar[str] = "Hypothalamus"

    resource: str
    value: float | int | str
    threshold: float | int | str


class HealthCritical(CorpusEvent, frozen=True):
    """As ``HealthWarning``, and the gate can no longer do its work well."""

    dotted: ClassVar[str] = "health.critical"
    region: ClassVar[str] = "Hypothalamus"

    resource: str
    value: float | int | str
    threshold: float | int | str


class ResourceLowContext(CorpusEvent, frozen=True):
    """A session's context is nearly full, in tokens."""

    dotted: ClassVar[str] = "resource.low.context"
    region: ClassVar[str] = "Hypothalamus"

    used: Count
    max: Count


class ResourceLowMemory(CorpusEvent, frozen=True):
    """Memory is nearly used up, in bytes."""

    dotted: ClassVar[str] = "resource.low.memory"
    region: ClassVar[str] = "Hypothalamus"

    used: Count
    max: Count


class ResourceLowDisk(CorpusEvent, frozen=True):
    """The disk with the state folder is nearly full, in bytes."""

    dotted: ClassVar[str] = "resource.low.disk"
    region: ClassVar[str] = "Hypothalamus"

    used: Count
    max: Count


# --- learning -------------------------------------------------------------------------------------------


class OutcomeRecorded(CorpusEvent, frozen=True):
    """How a warned, confirmed or asked call ended; ``args`` are summarised and redacted."""

    dotted: ClassVar[str] = "outcome.recorded"
    region: ClassVar[str] = "Basal Ganglia"

    type: str
    tool_name: str
    args: Mapping[str, Any]


class PreferenceLearned(CorpusEvent, frozen=True):
    """The same sort of pause was confirmed again and again: a narrower rule is proposed, not applied."""

    dotted: ClassVar[str] = "preference.learned"
    region: ClassVar[str] = "Basal Ganglia"

    pattern: str
    preference: str


# --- system ---------------------------------------------------------------------------------------------


class SchedulerTick(CorpusEvent, frozen=True):
    """A job of the schedule ran; ``schedule`` in words (``every 60 s``)."""

    dotted: ClassVar[str] = "scheduler.tick"
    region: ClassVar[str] = "Brainstem"

    job_name: str
    schedule: str


class WatcherChanged(CorpusEvent, frozen=True):
    """Rules or configuration changed on disk; ``change_type`` is created, changed or deleted."""

    dotted: ClassVar[str] = "watcher.changed"
    region: ClassVar[str] = "Brainstem"

    path: str
    change_type: str


class CortexReindexed(CorpusEvent, frozen=True):
    """Journal or episodes were indexed for search; ``action`` is added, changed or removed."""

    dotted: ClassVar[str] = "cortex.reindexed"
    region: ClassVar[str] = "Cortex"

    path: str
    action: str


# --- out ------------------------------------------------------------------------------------------------

E = TypeVar("E", bound=CorpusEvent)

MAX_PAYLOAD: Final = 65_536
"""Longest payload, in bytes of JSON. Of a longer one the fields are summarised."""

_plain: Final = msgspec.json.Encoder().encode


def encode(event: CorpusEvent) -> bytes:
    """Returns the payload as JSON on one line. Never raises.

    A payload that is too long, or that JSON cannot hold (a value of an unknown type, broken Unicode, a
    number that is too large), is summarised as the journal does it.
    """
    try:
        written = _plain(event)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _plain(_in_words(event))
    return written if len(written) <= MAX_PAYLOAD else _plain(_in_words(event))


def _in_words(event: CorpusEvent) -> dict[str, Any]:
    """The payload with every field summarised."""
    names = zip(event.__struct_fields__, event.__struct_encode_fields__, strict=True)
    values = {wire: getattr(event, name) for name, wire in names}
    return {name: _short(value) for name, value in values.items() if value is not None}


def _short(value: Any) -> Any:
    """What is kept of a value: text is cut and redacted, containers summarised."""
    if isinstance(value, Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, tuple):
        value = [msgspec.structs.asdict(item) if isinstance(item, Struct) else item for item in value]
    return summarise({"text": value})["text"]


# --- in -------------------------------------------------------------------------------------------------

_BODY: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()
_NAMES: Final = ("instance", "namespace", "callId", "cause")


def read(body: bytes | bytearray) -> tuple[CorpusEvent, ...]:
    """Reads the body of ``POST /events``: an object with ``type`` and an event's fields, or a list of them.

    An event without a namespace is of the default one, one without ``at`` is of now. Raises ``BadRequest``
    with the place (``[2].duration``) as ``decode`` does, and for more than ``MAX_EVENTS``.
    """
    found = _read(_BODY, body)
    if not isinstance(found, list):
        return (_taken(found, ""),)
    if len(found) > MAX_EVENTS:
        raise BadRequest(f"expected at most {MAX_EVENTS} events, got {len(found)}", at="body")
    return tuple([_taken(item, f"[{number}]") for number, item in enumerate(found)])


def _taken(item: Any, place: str) -> CorpusEvent:
    if not isinstance(item, dict):
        raise BadRequest("expected an object with `type` and the fields of an event", at=place or "body")
    try:
        name = item.pop("type", None)
        if not isinstance(name, str):
            raise BadRequest("expected the dotted name of an event", at="type")  # noqa: TRY301 - has its place added
        return decode(name, {"namespace": DEFAULT_NAMESPACE, **item})
    except BadRequest as error:
        at = "" if error.at == "body" else error.at
        joined = f"{place}.{at}" if place and at and not at.startswith("[") else place + at
        raise BadRequest(error.message, at=joined or "body") from None


def decode(type: str, payload: Mapping[str, Any]) -> CorpusEvent:
    """Makes an event that a host reports from its dotted name and its payload (as decoded from JSON).

    Texts are cut at 200 characters and redacted, ``args`` summarised. Raises ``BadRequest`` at ``type``
    for a name that is unknown (with one that is near) or that only this system may emit, else at the field.
    """
    kind = CATALOGUE.get(type)
    if kind is None:
        raise BadRequest(unknown(type, [name for name, found in CATALOGUE.items() if found.remote]), at="type")
    if not kind.remote:
        raise BadRequest(f"{type} is emitted by {kind.region} alone; no host reports it", at="type")
    try:
        event = msgspec.convert(payload, kind)
    except msgspec.ValidationError as error:
        raise _fault_of(error) from None
    except RecursionError:
        raise BadRequest("nested too deeply", at="body") from None
    return _cleaned(event)


def select(text: str) -> frozenset[str] | None:
    """Returns the events that ``text`` names: dotted names with commas between, ``tool.*``, or ``*`` (None: all).

    Raises ``BadRequest`` at ``types`` for a name that stands for no event, with one that is near.
    """
    chosen: set[str] = set()
    everything = False
    for word in (part.strip() for part in text.split(",")):
        if word == "*":
            everything = True
            continue
        start = word[:-1] if word.endswith(".*") else None
        found = {name for name in CATALOGUE if name == word or (start and name.startswith(start))}
        if not found:
            families = {f"{name.rpartition('.')[0]}.*" for name in CATALOGUE}
            raise BadRequest(unknown(word, [*CATALOGUE, *sorted(families)]), at="types")
        chosen |= found
    return None if everything else frozenset(chosen)


def unknown(name: str, known: list[str]) -> str:
    """Says that there is no such event, and which is near."""
    near = difflib.get_close_matches(name[:MAX_NAME], known, 1)
    return f"there is no event {_short(name)!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _cleaned(event: E) -> E:
    """The event with its names checked, its texts cut and redacted, its containers summarised."""
    changed: dict[str, Any] = {}
    for name, wire in zip(event.__struct_fields__, event.__struct_encode_fields__, strict=True):
        value = getattr(event, name)
        if wire in _NAMES:
            _check_name(value, wire)
        elif isinstance(value, tuple):
            changed[name] = tuple([_cleaned_call(call, f"calls[{place}]") for place, call in enumerate(value)])
        elif isinstance(value, str | Mapping):
            changed[name] = _short(value)
    return replace(event, **changed)


def _cleaned_call(call: ParsedCall, place: str) -> ParsedCall:
    _check_name(call.call_id, f"{place}.callId")
    return ParsedCall(_short(call.name), _short(call.args), call.call_id)


def _check_name(value: str | None, at: str) -> None:
    if value is None:
        return
    if not 0 < len(value) <= MAX_NAME:
        raise BadRequest(f"expected 1 to {MAX_NAME} characters, got {len(value)}", at=at)
    if not can_be_seen(value):
        raise BadRequest("control characters, invisible ones and broken Unicode are not allowed", at=at)
