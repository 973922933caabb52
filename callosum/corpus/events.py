"""The catalogue of events: one class an event, with its fields and their units.

An event has a dotted name (``tool.completed``) and a payload. On the wire the payload is a JSON object in
camelCase; beside the event's own fields it carries those of ``CorpusEvent`` as far as they are known::

    {"name": "github_prs", "output": "3 open", "duration": 1204.0, "at": 1715850906.2, "instance": "mira"}

The dotted name stands next to the payload, not in it: some payloads have a field ``type`` of their own.
In ``POST /events`` the object also has the name, under ``type``; none that is taken in has such a field.

To add an event is to write one class. ``CATALOGUE`` is made from the classes, and ``docs/events.md`` from the
catalogue (``page``): a class says in its docstring what happened, and each field in its ``description`` what it
means. The unit of a number stands in its type (``Milliseconds``).
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
Reading = Annotated[float | int | str, Meta(extra={"unit": "the resource's own"})]
Metric = Annotated[float | int | str, Meta(extra={"unit": "stands in the name"})]

ToolName = Annotated[str, Meta(description="the tool's name, as the agent calls it", examples=["github_prs"])]
Args = Annotated[
    Mapping[str, Any], Meta(description="its arguments, summarised and redacted", examples=[{"state": "open"}])
]
TaskId = Annotated[str, Meta(description="the guarded run that it belongs to", examples=["TASK-89"])]
Provider = Annotated[str, Meta(description="who serves the model", examples=["anthropic"])]
Model = Annotated[str, Meta(description="the model's name", examples=["claude-sonnet-4-20250514"])]
Channel = Annotated[
    str, Meta(description='through what the person answered: cli, console, host; "" if nobody said', examples=["cli"])
]

CATALOGUE: Final[dict[str, type[CorpusEvent]]] = {}
"""Every event there is, by its dotted name, in the order of definition."""

_NAME: Final = re.compile(r"[a-z]+(\.[a-z][A-Za-z]*)+")


class CorpusEvent(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """What all events carry beside their own fields, as far as it is known.

    A subclass says its dotted name and the ``region`` that emits it; ``remote`` says whether a host may
    report it over the wire. What only the gate can know, it cannot.
    """

    dotted: ClassVar[str] = ""
    region: ClassVar[str] = ""
    remote: ClassVar[bool] = False

    at: Annotated[Moment, Meta(description="when it was; now, if nothing is said", examples=[1778922906.2])] = field(
        default_factory=time.time
    )
    instance: Annotated[
        str | None,
        Meta(description="the session that acts: `instance` or `instance/session`", examples=["mira"]),
    ] = None
    namespace: Annotated[
        str | None,
        Meta(description="whose memory it concerns; absent: no single one's", examples=["default"]),
    ] = None
    call_id: Annotated[str | None, Meta(description="the host's id of the tool call", examples=["call-7"])] = None
    id: Annotated[
        Id | None,
        Meta(
            description="the gate's id of the action: when it was let through or refused",
            examples=[1778922904996000],
            extra={"unit": "microseconds since 1970"},
        ),
    ] = None
    cause: Annotated[
        str | None,
        Meta(description="the event that caused this one: its id in the stream", examples=["1778922904996000.0"]),
    ] = None
    source: Annotated[
        str | None,
        Meta(
            description="where it was read: `transcript`, that of the host; absent: whoever emits it was told",
            examples=["transcript"],
        ),
    ] = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Puts the class into the catalogue. Raises ``TypeError`` for a name that cannot be used.

        A class whose name begins with ``_`` only has the fields of several events.
        """
        super().__init_subclass__(**options)
        if cls.__name__.startswith("_"):
            return
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
    """A prompt or a message reached a session."""

    dotted: ClassVar[str] = "input.received"
    region: ClassVar[str] = "host"
    remote: ClassVar[bool] = True

    content: Annotated[
        str, Meta(description="what was said, shortened and redacted", examples=["What PRs need review?"])
    ]
    channel_id: Annotated[str, Meta(description="through what it came", examples=["desktop"])]
    conversation_id: Annotated[str, Meta(description="the conversation that it belongs to", examples=["c-17"])]


class InputClassified(CorpusEvent, frozen=True):
    """It was found out what an input asks for."""

    dotted: ClassVar[str] = "input.classified"
    region: ClassVar[str] = "Prefrontal"
    remote: ClassVar[bool] = True

    intent: Annotated[str, Meta(description="inform, read, write, communicate, commit or destroy", examples=["inform"])]
    confidence: Annotated[Share, Meta(description="how sure that is", examples=[0.8])]


class InputRouted(CorpusEvent, frozen=True):
    """Which model takes an input, as the host says."""

    dotted: ClassVar[str] = "input.routed"
    region: ClassVar[str] = "Prefrontal"
    remote: ClassVar[bool] = True

    provider: Provider
    model: Model


# --- context --------------------------------------------------------------------------------------------


class ContextBuilt(CorpusEvent, frozen=True):
    """A session's context was put together."""

    dotted: ClassVar[str] = "context.built"
    region: ClassVar[str] = "Prefrontal"
    remote: ClassVar[bool] = True

    tokens: Annotated[Tokens, Meta(description="how large it is", examples=[7842])]
    sections: Annotated[Count, Meta(description="of how many sections it is made", examples=[12])]


class ContextTrimmed(CorpusEvent, frozen=True):
    """A context was cut to size."""

    dotted: ClassVar[str] = "context.trimmed"
    region: ClassVar[str] = "RAS"
    remote: ClassVar[bool] = True

    before: Annotated[Tokens, Meta(description="how large it was", examples=[9310])]
    after: Annotated[Tokens, Meta(description="how large it is now", examples=[7842])]
    dropped: Annotated[
        Count,
        Meta(description="how many sections of a brief, or messages of a conversation, were left out", examples=[3]),
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
        Tokens, Meta(description="how long request and answer are together, 0 if nobody said", examples=[342])
    ]
    context: Annotated[
        Tokens | None, Meta(description="how long the request was: input and cache; absent if unknown", examples=[318])
    ] = None
    window: Annotated[
        Tokens | None, Meta(description="how much the model's context holds; absent if unknown", examples=[258400])
    ] = None


class LlmError(CorpusEvent, frozen=True):
    """A model failed."""

    dotted: ClassVar[str] = "llm.error"
    region: ClassVar[str] = "Thalamus"
    remote: ClassVar[bool] = True

    provider: Provider
    error: Annotated[str, Meta(description="what went wrong", examples=["overloaded"])]
    will_retry: Annotated[bool, Meta(description="whether the host tries again", examples=[True])]


class LlmToken(CorpusEvent, frozen=True):
    """A piece of a model's answer came, while it is being written."""

    dotted: ClassVar[str] = "llm.token"
    region: ClassVar[str] = "Thalamus"
    remote: ClassVar[bool] = True

    delta: Annotated[
        str,
        Meta(
            description="the piece of text; a secret that is cut across two pieces is not recognised",
            examples=["Three PRs "],
        ),
    ]


# --- tools ----------------------------------------------------------------------------------------------


class ToolCalled(CorpusEvent, frozen=True):
    """A call reached the gate; blocked ones too."""

    dotted: ClassVar[str] = "tool.called"
    region: ClassVar[str] = "Motor"

    name: ToolName
    args: Args
    task_id: TaskId | None = None
    traceparent: Annotated[
        str | None,
        Meta(
            description="the caller's span, as W3C Trace Context writes it, where the host hands it on",
            examples=["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
        ),
    ] = None
    tracestate: Annotated[
        str | None, Meta(description="what tracing systems add to it", examples=["vendor=00f067aa0ba902b7"])
    ] = None


class ToolCompleted(CorpusEvent, frozen=True):
    """A call was done."""

    dotted: ClassVar[str] = "tool.completed"
    region: ClassVar[str] = "Motor"

    name: ToolName
    output: Annotated[Any, Meta(description="what came back, summarised and redacted", examples=["3 open"])] = None
    duration: Annotated[
        Milliseconds | None, Meta(description="from the decision to the report; absent if unknown", examples=[1204.0])
    ] = None
    task_id: TaskId | None = None


class ToolFailed(CorpusEvent, frozen=True):
    """A call failed, was cancelled, or nobody knows how it ended."""

    dotted: ClassVar[str] = "tool.failed"
    region: ClassVar[str] = "Motor"

    name: ToolName
    error: Annotated[
        str, Meta(description="what went wrong, or that nobody knows how it ended", examples=["timed out"])
    ]
    attempt: Annotated[Nth, Meta(description="which attempt failed", examples=[2])] = 1
    task_id: TaskId | None = None


class ParsedCall(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A tool call as a model wrote it."""

    name: ToolName
    args: Args = field(default_factory=dict)
    call_id: Annotated[str | None, Meta(description="the id that the model gave it", examples=["call-7"])] = None


class ToolParsed(CorpusEvent, frozen=True):
    """A model's answer was read as tool calls, before they reach the gate."""

    dotted: ClassVar[str] = "tool.parsed"
    region: ClassVar[str] = "Wernicke"
    remote: ClassVar[bool] = True

    calls: Annotated[
        tuple[ParsedCall, ...],
        Meta(
            max_length=100,
            description="the calls, in their order",
            examples=[[{"name": "github_prs", "args": {"state": "open"}}]],
        ),
    ]


# --- safety ---------------------------------------------------------------------------------------------


class SafetyAllowed(CorpusEvent, frozen=True):
    """The gate let a call through, perhaps with a warning."""

    dotted: ClassVar[str] = "safety.allowed"
    region: ClassVar[str] = "Amygdala"

    tool_name: ToolName
    classification: Annotated[
        str, Meta(description="how grave it is: safe, low, medium, high, critical (tiers 0 to 4)", examples=["safe"])
    ]
    verdict: Annotated[
        str | None, Meta(description="`warn` if it was let through with a warning; absent: `allow`", examples=["warn"])
    ] = None
    reason: Annotated[
        str | None,
        Meta(
            description="what the agent was told, if anything",
            examples=['[Callosum] Conflict: mira acted on "email:anna@example.com" 40 s ago (send_email). ...'],
        ),
    ] = None


class SafetyBlocked(CorpusEvent, frozen=True):
    """The gate did not let a call through: it must be confirmed, a person is asked, or it is blocked."""

    dotted: ClassVar[str] = "safety.blocked"
    region: ClassVar[str] = "Amygdala"

    tool_name: ToolName
    reason: Annotated[
        str,
        Meta(
            description="what the agent was told",
            examples=['[Callosum] Conflict: mira has an active action on "email:anna@example.com". ...'],
        ),
    ]
    verdict: Annotated[
        str | None, Meta(description="`confirm`, `ask` or `block`; absent: not known", examples=["block"])
    ] = None


class _PersonAnswered(CorpusEvent, frozen=True):
    tool_name: ToolName
    channel_id: Channel


class SafetyApproved(_PersonAnswered, frozen=True):
    """A person agreed to a call."""

    dotted: ClassVar[str] = "safety.approved"
    region: ClassVar[str] = "Amygdala"


class SafetyDenied(_PersonAnswered, frozen=True):
    """A person refused a call."""

    dotted: ClassVar[str] = "safety.denied"
    region: ClassVar[str] = "Amygdala"


# --- leases: beside the events of the seed --------------------------------------------------------------

Keys = Annotated[tuple[str, ...], Meta(description="the keys that it holds", examples=[["email:anna@example.com"]])]


class LeaseTaken(CorpusEvent, frozen=True):
    """A session took a lease: others are warned off its keys, or held off."""

    dotted: ClassVar[str] = "lease.taken"
    region: ClassVar[str] = "Amygdala"

    context_keys: Keys
    tier: Annotated[int, Meta(description="3 warns others, 4 holds them off", examples=[3], extra={"unit": "a tier"})]
    tool_name: ToolName


class _LeaseEnded(CorpusEvent, frozen=True):
    context_keys: Keys
    tool_name: ToolName


class LeaseReleased(_LeaseEnded, frozen=True):
    """A lease was given back: its call came to its end, or it was released."""

    dotted: ClassVar[str] = "lease.released"
    region: ClassVar[str] = "Amygdala"


class LeaseExpired(_LeaseEnded, frozen=True):
    """A lease ran out, or its process died: nobody knows how its call ended."""

    dotted: ClassVar[str] = "lease.expired"
    region: ClassVar[str] = "Amygdala"


# --- tasks: guarded runs of a tool, with their attempts -------------------------------------------------


class TaskCreated(CorpusEvent, frozen=True):
    """A guarded run of a tool is planned."""

    dotted: ClassVar[str] = "task.created"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: TaskId
    tool_name: ToolName


class TaskStarted(CorpusEvent, frozen=True):
    """An attempt begins."""

    dotted: ClassVar[str] = "task.started"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: TaskId
    attempt: Annotated[Nth, Meta(description="which attempt begins", examples=[1])]


class TaskStepCompleted(CorpusEvent, frozen=True):
    """A step of a task is done."""

    dotted: ClassVar[str] = "task.stepCompleted"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: TaskId
    step: Annotated[str, Meta(description="what the step is called", examples=["fetch"])]
    duration: Annotated[Milliseconds, Meta(description="how long the step took", examples=[310.5])]


class TaskCompleted(CorpusEvent, frozen=True):
    """A task came to its end."""

    dotted: ClassVar[str] = "task.completed"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: TaskId
    success: Annotated[bool, Meta(description="whether the tool did what it was to do", examples=[True])]
    total_duration: Annotated[
        Milliseconds, Meta(description="how long the task took, pauses between attempts included", examples=[1820.0])
    ]


class TaskFailed(CorpusEvent, frozen=True):
    """A task was given up."""

    dotted: ClassVar[str] = "task.failed"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: TaskId
    error: Annotated[str, Meta(description="what went wrong the last time", examples=["timed out"])]
    attempts: Annotated[Count, Meta(description="how often it was tried", examples=[3])]


class TaskStopped(CorpusEvent, frozen=True):
    """A task was stopped from outside, or by the gate."""

    dotted: ClassVar[str] = "task.stopped"
    region: ClassVar[str] = "Motor"
    remote: ClassVar[bool] = True

    task_id: TaskId
    reason: Annotated[str, Meta(description="who or what stopped it", examples=["stopped by its session"])]


# --- memory ---------------------------------------------------------------------------------------------


class MemorySaved(CorpusEvent, frozen=True):
    """A page of memory was written."""

    dotted: ClassVar[str] = "memory.saved"
    region: ClassVar[str] = "Hippocampus"

    type: Annotated[str, Meta(description="what sort of page", examples=["episode"])]
    path: Annotated[
        str, Meta(description="where it is, below `brain/` in the state folder", examples=["episodes/2026-05-16.md"])
    ]


class MemoryConsolidated(CorpusEvent, frozen=True):
    """A week's digest was written."""

    dotted: ClassVar[str] = "memory.consolidated"
    region: ClassVar[str] = "Brainstem"

    week: Annotated[str, Meta(description="the week, as in ISO 8601", examples=["2026-W20"])]
    episode_count: Annotated[Count, Meta(description="of how many days it tells", examples=[5])]


class MemoryPromoted(CorpusEvent, frozen=True):
    """A key to which several sessions keep returning got a page of its own."""

    dotted: ClassVar[str] = "memory.promoted"
    region: ClassVar[str] = "Brainstem"

    topic: Annotated[str, Meta(description="the key", examples=["email:anna@example.com"])]
    path: Annotated[
        str,
        Meta(
            description="where its page is, below `brain/` in the state folder",
            examples=["topics/email-anna-example-com.md"],
        ),
    ]


# --- health ---------------------------------------------------------------------------------------------


class HealthOk(CorpusEvent, frozen=True):
    """All is well."""

    dotted: ClassVar[str] = "health.ok"
    region: ClassVar[str] = "Hypothalamus"
    remote: ClassVar[bool] = True

    metrics: Annotated[
        Mapping[str, Metric],
        Meta(description="what was measured, by name", examples=[{"storeMilliseconds": 0.4}]),
    ]


class HealthWarning(CorpusEvent, frozen=True):
    """Something is beyond its threshold."""

    dotted: ClassVar[str] = "health.warning"
    region: ClassVar[str] = "Hypothalamus"

    resource: Annotated[str, Meta(description="what is beyond its threshold", examples=["llm"])]
    value: Annotated[Reading, Meta(description="what was found: a number, or words that say it", examples=[6])]
    threshold: Annotated[
        Reading, Meta(description="where it begins to matter: a number, or words that say it", examples=[5])
    ]


class HealthCritical(CorpusEvent, frozen=True):
    """As ``HealthWarning``, and the gate can no longer do its work well."""

    dotted: ClassVar[str] = "health.critical"
    region: ClassVar[str] = "Hypothalamus"

    resource: Annotated[str, Meta(description="what is beyond its threshold", examples=["store"])]
    value: Annotated[
        Reading, Meta(description="what was found: a number, or words that say it", examples=["disk full"])
    ]
    threshold: Annotated[
        Reading, Meta(description="where it begins to matter: a number, or words that say it", examples=["writable"])
    ]


class ResourceLowContext(CorpusEvent, frozen=True):
    """A session's context is nearly full."""

    dotted: ClassVar[str] = "resource.low.context"
    region: ClassVar[str] = "Hypothalamus"

    used: Annotated[Tokens, Meta(description="how much of it is used", examples=[180001])]
    max: Annotated[Tokens, Meta(description="how much there is", examples=[200000])]


class ResourceLowMemory(CorpusEvent, frozen=True):
    """Memory is nearly used up."""

    dotted: ClassVar[str] = "resource.low.memory"
    region: ClassVar[str] = "Hypothalamus"

    used: Annotated[Bytes, Meta(description="how much of it is used", examples=[15900000000])]
    max: Annotated[Bytes, Meta(description="how much there is", examples=[16000000000])]


class ResourceLowDisk(CorpusEvent, frozen=True):
    """The disk with the state folder is nearly full."""

    dotted: ClassVar[str] = "resource.low.disk"
    region: ClassVar[str] = "Hypothalamus"

    used: Annotated[Bytes, Meta(description="how much of it is used", examples=[99000000000])]
    max: Annotated[Bytes, Meta(description="how much there is", examples=[100000000000])]


# --- learning -------------------------------------------------------------------------------------------


class OutcomeRecorded(CorpusEvent, frozen=True):
    """It became known how a warned, confirmed or asked call ended."""

    dotted: ClassVar[str] = "outcome.recorded"
    region: ClassVar[str] = "Basal Ganglia"

    type: Annotated[str, Meta(description="how it ended", examples=["done"])]
    tool_name: ToolName
    args: Args


class PreferenceLearned(CorpusEvent, frozen=True):
    """The same sort of pause was confirmed again and again: a narrower rule is proposed, not applied."""

    dotted: ClassVar[str] = "preference.learned"
    region: ClassVar[str] = "Basal Ganglia"

    pattern: Annotated[str, Meta(description="which calls it is about", examples=["email_send to *@example.com"])]
    preference: Annotated[str, Meta(description="what the people here prefer", examples=["warn instead of confirm"])]


# --- system ---------------------------------------------------------------------------------------------


class SchedulerTick(CorpusEvent, frozen=True):
    """A job of the schedule ran."""

    dotted: ClassVar[str] = "scheduler.tick"
    region: ClassVar[str] = "Brainstem"

    job_name: Annotated[str, Meta(description="the job", examples=["sweep"])]
    schedule: Annotated[str, Meta(description="when it runs, in words", examples=["every 30 s"])]


class WatcherChanged(CorpusEvent, frozen=True):
    """Rules or configuration changed on disk."""

    dotted: ClassVar[str] = "watcher.changed"
    region: ClassVar[str] = "Brainstem"

    path: Annotated[str, Meta(description="the file", examples=["tiers.json"])]
    change_type: Annotated[str, Meta(description="created, changed or deleted", examples=["changed"])]


class CortexReindexed(CorpusEvent, frozen=True):
    """Journal or episodes were indexed for search."""

    dotted: ClassVar[str] = "cortex.reindexed"
    region: ClassVar[str] = "Cortex"

    path: Annotated[str, Meta(description="what was indexed", examples=["episodes/2026-05-16.md"])]
    action: Annotated[str, Meta(description="added, changed or removed", examples=["added"])]


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
    (kept,) = summarise({"text": value}).values()  # the name is cut too, when there is no room left
    return kept


# --- in -------------------------------------------------------------------------------------------------

_BODY: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()
_NAMES: Final = ("instance", "namespace", "callId", "cause")


def read(body: bytes | bytearray) -> tuple[CorpusEvent, ...]:
    """Reads the body of ``POST /events``: an object with ``type`` and an event's fields, or a list of them.

    An event without a namespace is of the default one, one without ``at`` is of now. Raises ``BadRequest``
    with the place (``[2].duration``) as ``decode`` does, and for more than ``MAX_EVENTS``.
    """
    found = _read(_BODY, body, listed=True)
    if not isinstance(found, list):
        return (_taken(found, ""),)
    if len(found) > MAX_EVENTS:
        raise BadRequest(f"expected at most {MAX_EVENTS} events, got {len(found)}", at="body")
    return tuple([_taken(item, f"[{number}]") for number, item in enumerate(found)])


def named(name: str, payload: Mapping[str, Any]) -> CorpusEvent:
    """Make an event of this process from its dotted name and its payload, whose fields are spelled as on the wire.

    Values stay as they are. Raises ``ConfigError`` at ``type`` for a name that stands for no event, with one that is
    near, else at the field that is wrong, missing or unknown.
    """
    kind = CATALOGUE.get(name)
    if kind is None:
        raise ConfigError(unknown(name, list(CATALOGUE)), at="type")
    fields = kind.__struct_encode_fields__
    for field_name in payload:
        if field_name not in fields:
            near = difflib.get_close_matches(str(field_name)[:MAX_NAME], fields, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(fields)}"
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
            raise BadRequest("expected the dotted name of an event", at="type")  # noqa: TRY301 - has its place added
        if item.get("namespace") is None:
            item["namespace"] = DEFAULT_NAMESPACE
        return decode(name, item)
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
    if kind is HealthOk and event.instance is None:
        raise BadRequest("expected the name of the host that is well", at="instance")
    return cleaned(event)


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


def cleaned(event: E) -> E:
    """Return the event as what an untrusted host says may be told: texts cut and redacted, containers summarised.

    Raises ``BadRequest`` at a name that cannot be used.
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


def _cleaned_call(call: ParsedCall, place: str) -> ParsedCall:
    _check_name(call.call_id, f"{place}.callId")
    return ParsedCall(_short(call.name), _short(call.args), call.call_id)


def _check_name(value: str | None, at: str) -> None:
    if value is None:
        return
    if not 0 < len(value) <= MAX_NAME:
        raise BadRequest(f"expected 1 to {MAX_NAME} characters, got {len(value)}", at=at)
    if not is_shown(value):
        raise BadRequest("control characters, invisible ones and broken Unicode are not allowed", at=at)
