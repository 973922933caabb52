"""The catalogue of events: one class for each event, with its fields and their units.

An event has a dotted name (``tool.completed``) and a payload. On the wire the payload is a JSON object in camelCase.
Besides the event's own fields it carries those of ``CorpusEvent`` that are known::

    {"name": "github_prs", "output": "3 open", "duration": 1204.0, "at": 1715850906.2, "instance": "mira"}

The dotted name is sent next to the payload, not in it, because some payloads have a field ``type`` of their own. In
``POST /events`` the object also has the name, under ``type``; no event that hosts may report has such a field.

To add an event, write one class. ``CATALOGUE`` is built from the classes, and ``docs/events.md`` from the catalogue
(``page``): the docstring says what happened, and each field's ``description`` what it means. The type of a number names
its unit (``Milliseconds``).
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

from callosum.characters import is_shown
from callosum.errors import ConfigError
from callosum.model import DEFAULT_NAMESPACE, MAX_NAME
from callosum.redact import summarise
from callosum.wire import MAX_EVENTS, BadRequest, Id
from callosum.wire import fault_of as _fault_of
from callosum.wire import read as _read

Count = Annotated[int, Meta(ge=0, le=2**53, extra={"unit": "a count"})]
Nth = Annotated[int, Meta(ge=0, le=2**53, extra={"unit": "counted from 1"})]
Tokens = Annotated[int, Meta(ge=0, le=2**53, extra={"unit": "tokens"})]
Bytes = Annotated[int, Meta(ge=0, le=2**53, extra={"unit": "bytes"})]
Milliseconds = Annotated[float, Meta(ge=0, extra={"unit": "milliseconds"})]
Share = Annotated[float, Meta(ge=0, le=1, extra={"unit": "a share of 1"})]
Moment = Annotated[float, Meta(ge=0, le=2**33, extra={"unit": "Unix seconds"})]
Reading = Annotated[float | int | str, Meta(extra={"unit": "depends on the resource"})]
Metric = Annotated[float | int | str, Meta(extra={"unit": "part of the name"})]

ToolName = Annotated[str, Meta(description="the tool's name, as the agent calls it", examples=["github_prs"])]
Args = Annotated[
    Mapping[str, Any], Meta(description="its arguments, summarised and redacted", examples=[{"state": "open"}])
]
TaskId = Annotated[str, Meta(description="the guarded run that the call belongs to", examples=["TASK-89"])]
Provider = Annotated[str, Meta(description="the provider that serves the model", examples=["anthropic"])]
Model = Annotated[str, Meta(description="the model's name", examples=["claude-sonnet-4-20250514"])]
Channel = Annotated[
    str, Meta(description='the channel of the answer: cli, console or host; "" if unknown', examples=["cli"])
]

CATALOGUE: Final[dict[str, type[CorpusEvent]]] = {}
"""Every event by its dotted name, in the order of definition."""

_NAME: Final = re.compile(r"[a-z]+(\.[a-z][A-Za-z]*)+")


class CorpusEvent(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """The fields that every event carries, as far as they are known.

    A subclass sets its dotted name and the ``region`` that emits it. ``remote`` says whether a host may report the
    event over the wire; events that only the gate can know are not remote.
    """

    dotted: ClassVar[str] = ""
    region: ClassVar[str] = ""
    remote: ClassVar[bool] = False

    at: Annotated[Moment, Meta(description="when it happened; now, if absent", examples=[1778922906.2])] = field(
        default_factory=time.time
    )
    instance: Annotated[
        str | None, Meta(description="the session that acts: `instance` or `instance/session`", examples=["mira"])
    ] = None
    namespace: Annotated[
        str | None, Meta(description="the namespace it belongs to; absent: no single namespace", examples=["default"])
    ] = None
    call_id: Annotated[str | None, Meta(description="the host's id of the tool call", examples=["call-7"])] = None
    id: Annotated[
        Id | None,
        Meta(
            description="the gate's id of the action: the moment it was let through or stopped",
            examples=[1778922904996000],
            extra={"unit": "microseconds since 1970"},
        ),
    ] = None
    cause: Annotated[
        str | None,
        Meta(description="the id, in the stream, of the event that caused this one", examples=["1778922904996000.0"]),
    ] = None
    source: Annotated[
        str | None,
        Meta(
            description="where it was read: `transcript` is the host's transcript; absent: reported directly",
            examples=["transcript"],
        ),
    ] = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Add the class to the catalogue. Raises ``TypeError`` for a name that cannot be used.

        A class whose name begins with ``_`` only holds the shared fields of several events.
        """
        super().__init_subclass__(**options)
        if cls.__name__.startswith("_"):
            return
        name = cls.__dict__.get("dotted", "")
        if not _NAME.fullmatch(name):
            raise TypeError(f"{cls.__name__}.dotted: expected a name like 'tool.completed', got {name!r}")
        if cls.remote and "type" in get_annotations(cls):
            raise TypeError(f"{cls.__name__}.type: on the wire this is the event's name, so no remote event has it")
        existing = CATALOGUE.get(name)
        if existing is not None and (existing.__module__, existing.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"{cls.__name__}.dotted: {name!r} is {existing.__name__}'s")
        CATALOGUE[name] = cls


# --- input ----------------------------------------------------------------------------------------------


class InputReceived(CorpusEvent, frozen=True):
    """A prompt or a message reached a session."""

    dotted: ClassVar[str] = "input.received"
    region: ClassVar[str] = "host"
    remote: ClassVar[bool] = True

    content: Annotated[str, Meta(description="the text, shortened and redacted", examples=["What PRs need review?"])]
    channel_id: Annotated[str, Meta(description="the channel it came through", examples=["desktop"])]
    conversation_id: Annotated[str, Meta(description="the conversation it belongs to", examples=["c-17"])]


class InputClassified(CorpusEvent, frozen=True):
    """The intent of an input was determined."""

    dotted: ClassVar[str] = "input.classified"
    region: ClassVar[str] = "Prefrontal"
    remote: ClassVar[bool] = True

    intent: Annotated[str, Meta(description="inform, read, write, communicate, commit or destroy", examples=["inform"])]
    confidence: Annotated[Share, Meta(description="the confidence in that intent", examples=[0.8])]


class InputRouted(CorpusEvent, frozen=True):
    """The host chose the model for an input."""

    dotted: ClassVar[str] = "input.routed"
    region: ClassVar[str] = "Prefrontal"
    remote: ClassVar[bool] = True

    provider: Provider
    model: Model


# --- context --------------------------------------------------------------------------------------------


class ContextBuilt(CorpusEvent, frozen=True):
    """A session's context was assembled."""

    dotted: ClassVar[str] = "context.built"
    region: ClassVar[str] = "Prefrontal"
    remote: ClassVar[bool] = True

    tokens: Annotated[Tokens, Meta(description="the size of the context", examples=[7842])]
    sections: Annotated[Count, Meta(description="the number of its sections", examples=[12])]


class ContextTrimmed(CorpusEvent, frozen=True):
    """A context was cut to its budget."""

    dotted: ClassVar[str] = "context.trimmed"
    region: ClassVar[str] = "RAS"
    remote: ClassVar[bool] = True

    before: Annotated[Tokens, Meta(description="the size before", examples=[9310])]
    after: Annotated[Tokens, Meta(description="the size after", examples=[7842])]
    dropped: Annotated[
        Count,
        Meta(
            description="the number of sections of a brief, or messages of a conversation, that were left out",
            examples=[3],
        ),
    ]


# --- models ---------------------------------------------------------------------------------------------


class LlmResponse(CorpusEvent, frozen=True):
    """A model answered."""

    dotted: ClassVar[str] = "llm.response"
    region: ClassVar[str] = "Thalamus"
    remote: ClassVar[bool] = True

    provider: Provider
    model: Model
    tokens: Annotated[
        Tokens, Meta(description="the length of request and answer together; 0 if unknown", examples=[342])
    ]
    context: Annotated[
        Tokens | None, Meta(description="the length of the request: input and cache; absent if unknown", examples=[318])
    ] = None
    window: Annotated[
        Tokens | None, Meta(description="the size of the model's context window; absent if unknown", examples=[258400])
    ] = None


class LlmError(CorpusEvent, frozen=True):
    """A model failed."""

    dotted: ClassVar[str] = "llm.error"
    region: ClassVar[str] = "Thalamus"
    remote: ClassVar[bool] = True

    provider: Provider
    error: Annotated[str, Meta(description="the error", examples=["overloaded"])]
    will_retry: Annotated[bool, Meta(description="whether the host will retry", examples=[True])]


class LlmToken(CorpusEvent, frozen=True):
    """A piece of a streamed answer arrived."""

    dotted: ClassVar[str] = "llm.token"
    region: ClassVar[str] = "Thalamus"
    remote: ClassVar[bool] = True

    delta: Annotated[
        str,
        Meta(
            description="the piece of text; a secret split across two pieces is not recognised", examples=["Three PRs "]
        ),
    ]


# --- tools ----------------------------------------------------------------------------------------------


class ToolCalled(CorpusEvent, frozen=True):
    """A call reached the gate. Blocked calls are included."""

    dotted: ClassVar[str] = "tool.called"
    region: ClassVar[str] = "Motor"

    name: ToolName
    args: Args
    task_id: TaskId | None = None
    traceparent: Annotated[
        str | None,
        Meta(
            description="the caller's span in W3C Trace Context format, if the host passes it on",
            examples=["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
        ),
    ] = None
    tracestate: Annotated[
        str | None, Meta(description="data that tracing systems add to the span", examples=["vendor=00f067aa0ba902b7"])
    ] = None


class ToolCompleted(CorpusEvent, frozen=True):
    """A call completed."""

    dotted: ClassVar[str] = "tool.completed"
    region: ClassVar[str] = "Motor"

    name: ToolName
    output: Annotated[Any, Meta(description="the result, summarised and redacted", examples=["3 open"])] = None
    duration: Annotated[
        Milliseconds | None, Meta(description="the time from decision to report; absent if unknown", examples=[1204.0])
    ] = None
    task_id: TaskId | None = None


class ToolFailed(CorpusEvent, frozen=True):
    """A call failed or was cancelled, or its outcome is unknown."""

    dotted: ClassVar[str] = "tool.failed"
    region: ClassVar[str] = "Motor"

    name: ToolName
    error: Annotated[str, Meta(description="the error, or a note that the outcome is unknown", examples=["timed out"])]
    attempt: Annotated[Nth, Meta(description="the attempt that failed", examples=[2])] = 1
    task_id: TaskId | None = None


class ParsedCall(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A tool call as the model wrote it."""

    name: ToolName
    args: Args = field(default_factory=dict)
    call_id: Annotated[str | None, Meta(description="the id that the model gave the call", examples=["call-7"])] = None


class ToolParsed(CorpusEvent, frozen=True):
    """Tool calls were read from a model's answer, before they reached the gate."""

    dotted: ClassVar[str] = "tool.parsed"
    region: ClassVar[str] = "Wernicke"
    remote: ClassVar[bool] = True

    calls: Annotated[
        tuple[ParsedCall, ...],
        Meta(
            max_length=100,
            description="the calls, in order",
            examples=[[{"name": "github_prs", "args": {"state": "open"}}]],
        ),
    ]


# --- safety ---------------------------------------------------------------------------------------------


class SafetyAllowed(CorpusEvent, frozen=True):
    """The gate let a call through, possibly with a warning."""

    dotted: ClassVar[str] = "safety.allowed"
    region: ClassVar[str] = "Amygdala"

    tool_name: ToolName
    classification: Annotated[
        str, Meta(description="the risk: safe, low, medium, high or critical (tiers 0 to 4)", examples=["safe"])
    ]
    verdict: Annotated[
        str | None,
        Meta(description="`warn` if the call was let through with a warning; absent: `allow`", examples=["warn"]),
    ] = None
    reason: Annotated[
        str | None,
        Meta(
            description="the text that the agent was given, if any",
            examples=['[Callosum] Conflict: mira acted on "email:anna@example.com" 40 s ago (send_email). ...'],
        ),
    ] = None


class SafetyBlocked(CorpusEvent, frozen=True):
    """The gate stopped a call: the session must confirm it, a person is asked, or it is blocked."""

    dotted: ClassVar[str] = "safety.blocked"
    region: ClassVar[str] = "Amygdala"

    tool_name: ToolName
    reason: Annotated[
        str,
        Meta(
            description="the text that the agent was given",
            examples=['[Callosum] Conflict: mira has an active action on "email:anna@example.com". ...'],
        ),
    ]
    verdict: Annotated[
        str | None, Meta(description="`confirm`, `ask` or `block`; absent if unknown", examples=["block"])
    ] = None


class _PersonAnswered(CorpusEvent, frozen=True):
    tool_name: ToolName
    channel_id: Channel


class SafetyApproved(_PersonAnswered, frozen=True):
    """A person approved a call."""

    dotted: ClassVar[str] = "safety.approved"
    region: ClassVar[str] = "Amygdala"


class SafetyDenied(_PersonAnswered, frozen=True):
    """A person denied a call."""

    dotted: ClassVar[str] = "safety.denied"
    region: ClassVar[str] = "Amygdala"


# --- leases --------------------------------------------------------------------------------------------

Keys = Annotated[
    tuple[str, ...], Meta(description="the keys that the lease holds", examples=[["email:anna@example.com"]])
]


class LeaseTaken(CorpusEvent, frozen=True):
    """A session took a lease: other sessions are warned about its keys, or kept off them."""

    dotted: ClassVar[str] = "lease.taken"
    region: ClassVar[str] = "Amygdala"

    context_keys: Keys
    tier: Annotated[
        int, Meta(description="3 warns other sessions, 4 keeps them off", examples=[3], extra={"unit": "a tier"})
    ]
    tool_name: ToolName


class _LeaseEnded(CorpusEvent, frozen=True):
    context_keys: Keys
    tool_name: ToolName


class LeaseReleased(_LeaseEnded, frozen=True):
    """A lease was released: its call ended, or its session gave it up."""

    dotted: ClassVar[str] = "lease.released"
    region: ClassVar[str] = "Amygdala"


class LeaseExpired(_LeaseEnded, frozen=True):
    """A lease expired, or its process died: the outcome of its call is unknown."""

    dotted: ClassVar[str] = "lease.expired"
    region: ClassVar[str] = "Amygdala"


# --- tasks: guarded runs of a tool, with their attempts -------------------------------------------------


class TaskCreated(CorpusEvent, frozen=True):
    """A guarded run of a tool was planned."""

    dotted: ClassVar[str] = "task.created"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: TaskId
    tool_name: ToolName


class TaskStarted(CorpusEvent, frozen=True):
    """An attempt began."""

    dotted: ClassVar[str] = "task.started"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: TaskId
    attempt: Annotated[Nth, Meta(description="the attempt that began", examples=[1])]


class TaskStepCompleted(CorpusEvent, frozen=True):
    """A step of a task completed."""

    dotted: ClassVar[str] = "task.stepCompleted"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: TaskId
    step: Annotated[str, Meta(description="the name of the step", examples=["fetch"])]
    duration: Annotated[Milliseconds, Meta(description="the duration of the step", examples=[310.5])]


class TaskCompleted(CorpusEvent, frozen=True):
    """A task ended."""

    dotted: ClassVar[str] = "task.completed"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: TaskId
    success: Annotated[bool, Meta(description="whether the tool succeeded", examples=[True])]
    total_duration: Annotated[
        Milliseconds, Meta(description="the duration of the task, including pauses between attempts", examples=[1820.0])
    ]


class TaskFailed(CorpusEvent, frozen=True):
    """A task was given up."""

    dotted: ClassVar[str] = "task.failed"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: TaskId
    error: Annotated[str, Meta(description="the error of the last attempt", examples=["timed out"])]
    attempts: Annotated[Count, Meta(description="the number of attempts", examples=[3])]


class TaskStopped(CorpusEvent, frozen=True):
    """A task was stopped from outside, or by the gate."""

    dotted: ClassVar[str] = "task.stopped"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: TaskId
    reason: Annotated[str, Meta(description="the reason, or who stopped it", examples=["stopped by its session"])]


# --- memory ---------------------------------------------------------------------------------------------


class MemorySaved(CorpusEvent, frozen=True):
    """A page of memory was written."""

    dotted: ClassVar[str] = "memory.saved"
    region: ClassVar[str] = "Hippocampus"

    type: Annotated[str, Meta(description="the kind of page", examples=["episode"])]
    path: Annotated[
        str, Meta(description="the page's path below `brain/` in the state folder", examples=["episodes/2026-05-16.md"])
    ]


class MemoryConsolidated(CorpusEvent, frozen=True):
    """A week's digest was written."""

    dotted: ClassVar[str] = "memory.consolidated"
    region: ClassVar[str] = "Brainstem"

    week: Annotated[str, Meta(description="the ISO 8601 week", examples=["2026-W20"])]
    episode_count: Annotated[Count, Meta(description="the number of days in the digest", examples=[5])]


class MemoryPromoted(CorpusEvent, frozen=True):
    """A key that several sessions keep returning to got its own page."""

    dotted: ClassVar[str] = "memory.promoted"
    region: ClassVar[str] = "Brainstem"

    topic: Annotated[str, Meta(description="the key", examples=["email:anna@example.com"])]
    path: Annotated[
        str,
        Meta(
            description="the page's path below `brain/` in the state folder",
            examples=["topics/email-anna-example-com.md"],
        ),
    ]


# --- health ---------------------------------------------------------------------------------------------


class HealthOk(CorpusEvent, frozen=True):
    """All checks passed."""

    dotted: ClassVar[str] = "health.ok"
    region: ClassVar[str] = "Hypothalamus"
    remote: ClassVar[bool] = True

    metrics: Annotated[
        Mapping[str, Metric], Meta(description="the measured values, by name", examples=[{"storeMilliseconds": 0.4}])
    ]


class HealthWarning(CorpusEvent, frozen=True):
    """A resource is beyond its threshold."""

    dotted: ClassVar[str] = "health.warning"
    region: ClassVar[str] = "Hypothalamus"

    resource: Annotated[str, Meta(description="the resource beyond its threshold", examples=["llm"])]
    value: Annotated[Reading, Meta(description="the measured value: a number or words", examples=[6])]
    threshold: Annotated[Reading, Meta(description="the threshold: a number or words", examples=[5])]


class HealthCritical(CorpusEvent, frozen=True):
    """A resource is beyond its threshold, and the gate can no longer work well."""

    dotted: ClassVar[str] = "health.critical"
    region: ClassVar[str] = "Hypothalamus"

    resource: Annotated[str, Meta(description="the resource beyond its threshold", examples=["store"])]
    value: Annotated[Reading, Meta(description="the measured value: a number or words", examples=["disk full"])]
    threshold: Annotated[Reading, Meta(description="the threshold: a number or words", examples=["writable"])]


class ResourceLowContext(CorpusEvent, frozen=True):
    """A session's context is nearly full."""

    dotted: ClassVar[str] = "resource.low.context"
    region: ClassVar[str] = "Hypothalamus"

    used: Annotated[Tokens, Meta(description="the amount in use", examples=[180001])]
    max: Annotated[Tokens, Meta(description="the total amount", examples=[200000])]


class ResourceLowMemory(CorpusEvent, frozen=True):
    """Memory is nearly used up."""

    dotted: ClassVar[str] = "resource.low.memory"
    region: ClassVar[str] = "Hypothalamus"

    used: Annotated[Bytes, Meta(description="the amount in use", examples=[15900000000])]
    max: Annotated[Bytes, Meta(description="the total amount", examples=[16000000000])]


class ResourceLowDisk(CorpusEvent, frozen=True):
    """The disk with the state folder is nearly full."""

    dotted: ClassVar[str] = "resource.low.disk"
    region: ClassVar[str] = "Hypothalamus"

    used: Annotated[Bytes, Meta(description="the amount in use", examples=[99000000000])]
    max: Annotated[Bytes, Meta(description="the total amount", examples=[100000000000])]


# --- learning -------------------------------------------------------------------------------------------


class OutcomeRecorded(CorpusEvent, frozen=True):
    """The outcome of a call that was warned, confirmed, asked or blocked became known."""

    dotted: ClassVar[str] = "outcome.recorded"
    region: ClassVar[str] = "Basal Ganglia"

    type: Annotated[str, Meta(description="the outcome, such as `confirmed.done`", examples=["done"])]
    tool_name: ToolName
    args: Args


class PreferenceLearned(CorpusEvent, frozen=True):
    """The same kind of pause was confirmed again and again: a narrower rule is proposed, not applied."""

    dotted: ClassVar[str] = "preference.learned"
    region: ClassVar[str] = "Basal Ganglia"

    pattern: Annotated[str, Meta(description="the calls it applies to", examples=["email_send to *@example.com"])]
    preference: Annotated[str, Meta(description="the proposed preference", examples=["warn instead of confirm"])]


# --- system ---------------------------------------------------------------------------------------------


class SchedulerTick(CorpusEvent, frozen=True):
    """A job of the schedule ran."""

    dotted: ClassVar[str] = "scheduler.tick"
    region: ClassVar[str] = "Brainstem"

    job_name: Annotated[str, Meta(description="the job", examples=["sweep"])]
    schedule: Annotated[str, Meta(description="the schedule, in words", examples=["every 30 s"])]


class WatcherChanged(CorpusEvent, frozen=True):
    """Rules or configuration changed on disk."""

    dotted: ClassVar[str] = "watcher.changed"
    region: ClassVar[str] = "Brainstem"

    path: Annotated[str, Meta(description="the file", examples=["tiers.json"])]
    change_type: Annotated[str, Meta(description="created, changed or deleted", examples=["changed"])]


class CortexReindexed(CorpusEvent, frozen=True):
    """The journal or a page was indexed for search."""

    dotted: ClassVar[str] = "cortex.reindexed"
    region: ClassVar[str] = "Cortex"

    path: Annotated[str, Meta(description="the indexed page, or `journal`", examples=["episodes/2026-05-16.md"])]
    action: Annotated[str, Meta(description="added, changed or removed", examples=["added"])]


# --- out ------------------------------------------------------------------------------------------------

E = TypeVar("E", bound=CorpusEvent)

MAX_PAYLOAD: Final = 65_536
"""Longest payload, in bytes of JSON. The fields of a longer payload are summarised."""

_plain: Final = msgspec.json.Encoder().encode


def encode(event: CorpusEvent) -> bytes:
    """Return the payload as JSON on one line. Never raises.

    A payload is summarised as in the journal if it is too long or JSON cannot represent it: a value of an unknown type,
    broken Unicode, a number that is too large.
    """
    try:
        written = _plain(event)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _plain(_in_words(event))
    return written if len(written) <= MAX_PAYLOAD else _plain(_in_words(event))


def _in_words(event: CorpusEvent) -> dict[str, Any]:
    """Return the payload with every field summarised."""
    names = zip(event.__struct_fields__, event.__struct_encode_fields__, strict=True)
    values = {wire: getattr(event, name) for name, wire in names}
    return {name: _short(value) for name, value in values.items() if value is not None}


def _short(value: Any) -> Any:
    """Return the part of a value that is kept: text is cut and redacted, containers are summarised."""
    if isinstance(value, Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, tuple):
        value = [msgspec.structs.asdict(item) if isinstance(item, Struct) else item for item in value]
    (kept,) = summarise({"text": value}).values()  # the name is cut as well when no room is left
    return kept


# --- in -------------------------------------------------------------------------------------------------

_BODY: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()
_NAMES: Final = ("instance", "namespace", "callId", "cause")


def read(body: bytes | bytearray) -> tuple[CorpusEvent, ...]:
    """Parse the body of ``POST /events``: an object with ``type`` and an event's fields, or a list of them.

    An event without a namespace belongs to the default one; one without ``at`` happens now. Raises ``BadRequest`` with
    the place (``[2].duration``) as ``decode`` does, and for more than ``MAX_EVENTS``.
    """
    decoded = _read(_BODY, body, listed=True)
    if not isinstance(decoded, list):
        return (_taken(decoded, ""),)
    if len(decoded) > MAX_EVENTS:
        raise BadRequest(f"expected at most {MAX_EVENTS} events, got {len(decoded)}", at="body")
    return tuple([_taken(item, f"[{number}]") for number, item in enumerate(decoded)])


def named(name: str, payload: Mapping[str, Any]) -> CorpusEvent:
    """Make an event of this process from its dotted name and its payload, whose fields are spelled as on the wire.

    Values are not changed. Raises ``ConfigError`` at ``type`` for an unknown name, with the closest name, else at the
    field that is wrong, missing or unknown.
    """
    kind = CATALOGUE.get(name)
    if kind is None:
        raise ConfigError(unknown(name, list(CATALOGUE)), at="type")
    fields = kind.__struct_encode_fields__
    for field_name in payload:
        if field_name not in fields:
            close = difflib.get_close_matches(str(field_name)[:MAX_NAME], fields, 1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(fields)}"
            raise ConfigError(f"{name} has no such field{hint}", at=str(field_name)[:MAX_NAME])
    try:
        return msgspec.convert(payload, kind)
    except msgspec.ValidationError as error:
        raise _fault_of(error) from None


def _taken(item: Any, place: str) -> CorpusEvent:
    if not isinstance(item, dict):
        raise BadRequest("expected an object with `type` and the fields of an event", at=place or "body")
    try:
        name = item.pop("type", None)
        if not isinstance(name, str):
            raise BadRequest("expected the dotted name of an event", at="type")  # noqa: TRY301 - its place is added
        if item.get("namespace") is None:
            item["namespace"] = DEFAULT_NAMESPACE
        return decode(name, item)
    except BadRequest as error:
        at = "" if error.at == "body" else error.at
        joined = f"{place}.{at}" if place and at and not at.startswith("[") else place + at
        raise BadRequest(error.message, at=joined or "body") from None


def decode(type: str, payload: Mapping[str, Any]) -> CorpusEvent:
    """Make an event that a host reports from its dotted name and its payload (decoded JSON).

    Texts are cut at 200 characters and redacted, ``args`` are summarised. Raises ``BadRequest`` at ``type`` for an
    unknown name (with the closest name) or one that hosts may not report, else at the field.
    """
    kind = CATALOGUE.get(type)
    if kind is None:
        raise BadRequest(
            unknown(type, [name for name, event_kind in CATALOGUE.items() if event_kind.remote]), at="type"
        )
    if not kind.remote:
        raise BadRequest(f"only {kind.region} emits {type}; hosts cannot report it", at="type")
    try:
        event = msgspec.convert(payload, kind)
    except msgspec.ValidationError as error:
        raise _fault_of(error) from None
    except RecursionError:
        raise BadRequest("nested too deeply", at="body") from None
    if kind is HealthOk and event.instance is None:
        raise BadRequest("expected the name of the host that reports its health", at="instance")
    return cleaned(event)


def select(text: str) -> frozenset[str] | None:
    """Return the events that ``text`` names: dotted names separated by commas, ``tool.*``, or ``*`` (None: all).

    Raises ``BadRequest`` at ``types`` for a name that matches no event, with the closest name.
    """
    chosen: set[str] = set()
    everything = False
    for word in (part.strip() for part in text.split(",")):
        if word == "*":
            everything = True
            continue
        start = word[:-1] if word.endswith(".*") else None
        names = {name for name in CATALOGUE if name == word or (start and name.startswith(start))}
        if not names:
            families = {f"{name.rpartition('.')[0]}.*" for name in CATALOGUE}
            raise BadRequest(unknown(word, [*CATALOGUE, *sorted(families)]), at="types")
        chosen |= names
    return None if everything else frozenset(chosen)


def unknown(name: str, names: list[str]) -> str:
    """Return the message for an unknown event, with the closest name."""
    close = difflib.get_close_matches(name[:MAX_NAME], names, 1)
    return f"there is no event {_short(name)!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def cleaned(event: E) -> E:
    """Return an event from an untrusted host in a form that may be shown.

    Texts are cut and redacted, containers summarised. Raises ``BadRequest`` at a name that cannot be used.
    """
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


def _cleaned_call(call: ParsedCall, at: str) -> ParsedCall:
    _check_name(call.call_id, f"{at}.callId")
    return ParsedCall(_short(call.name), _short(call.args), call.call_id)


def _check_name(value: str | None, at: str) -> None:
    if value is None:
        return
    if not 0 < len(value) <= MAX_NAME:
        raise BadRequest(f"expected 1 to {MAX_NAME} characters, got {len(value)}", at=at)
    if not is_shown(value):
        raise BadRequest("expected no control characters, invisible characters or broken Unicode", at=at)
