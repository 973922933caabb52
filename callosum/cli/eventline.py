"""Show one event as a line for people: time, event, session and a few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from rich.text import Text

from callosum.characters import escaped
from callosum.cli import show
from callosum.cli.text import clean
from callosum.cli.times import clock
from callosum.corpus.events import CorpusEvent
from callosum.policy.summary import JournalledCall, summary_of

_LONGEST: Final = 200
"""Maximum length of an event's text in a line, in characters."""
_PREFIX: Final = "[Callosum] "
_COMMON: Final = frozenset(CorpusEvent.__struct_encode_fields__)

STYLES: Final = {
    "safety.blocked": "red",
    "safety.denied": "red",
    "tool.failed": "red",
    "task.failed": "red",
    "llm.error": "red",
    "health.critical": "bold red",
    "health.warning": "yellow",
    "resource.": "yellow",
    "task.stopped": "yellow",
    "lease.expired": "yellow",
    "context.trimmed": "yellow",
    "preference.learned": "magenta",
    "safety.": "green",
    "tool.completed": "green",
    "task.completed": "green",
    "health.ok": "dim",
    "llm.token": "dim",
    "scheduler.": "dim",
    "cortex.": "dim",
    "": "cyan",
}
"""Colours by the beginning of an event's name; the first match counts."""

SENTENCES: Final = {
    "input.received": '"{content}"',
    "input.classified": "{intent}, confidence {confidence}",
    "input.routed": "{provider} {model}",
    "context.built": "{tokens} tokens in {sections} sections",
    "context.trimmed": "{before} to {after} tokens, {dropped} sections left out",
    "llm.response": "{provider} {model}: {tokens} tokens",
    "llm.error": "{provider}: {error}{willRetry}",
    "llm.token": '"{delta}"',
    "tool.called": "{name}  {args}",
    "tool.completed": "{name}  done{duration}{output}",
    "tool.failed": "{name}  failed{attempt}: {error}",
    "tool.parsed": "{calls}",
    "safety.allowed": "{toolName}  {verdict}, {classification}{reason}",
    "safety.blocked": "{toolName}  {verdict}: {reason}",
    "safety.approved": "{toolName}  approved{channelId}",
    "safety.denied": "{toolName}  refused{channelId}",
    "lease.taken": "{toolName}  {contextKeys}",
    "lease.released": "{toolName}  {contextKeys}",
    "lease.expired": "{toolName}  ran out: {contextKeys}",
    "task.created": "{taskId}  {toolName} is planned",
    "task.started": "{taskId}  attempt {attempt} begins",
    "task.stepCompleted": "{taskId}  {step} done{duration}",
    "task.completed": "{taskId}  {success}{totalDuration}",
    "task.failed": "{taskId}  given up after {attempts} attempts: {error}",
    "task.stopped": "{taskId}  stopped: {reason}",
    "memory.saved": "{type} {path}",
    "memory.consolidated": "{week}: {episodeCount} episodes",
    "memory.promoted": "{topic}: {path}",
    "health.ok": "{metrics}",
    "health.warning": "{resource}: {value}, threshold {threshold}",
    "health.critical": "{resource}: {value}, threshold {threshold}",
    "resource.low.context": "{used} of {max} tokens used",
    "resource.low.memory": "{used} of {max} used",
    "resource.low.disk": "{used} of {max} used",
    "outcome.recorded": "{toolName}  {type}  {args}",
    "preference.learned": "{pattern}: {preference}",
    "scheduler.tick": "{jobName}, {schedule}",
    "watcher.changed": "{path} {changeType}",
    "cortex.reindexed": "{path} {action}",
}
"""What a line says about an event, with the fields of its payload. Any other event shows its fields."""


def line(type: str, payload: Mapping[str, Any]) -> Text:
    """Return the line. Nothing in the payload can have an effect on the terminal."""
    at = payload.get("at")
    text = Text().append(clock(at) if isinstance(at, int | float) and 0 <= at < 2**33 else "--:--:--", "dim")
    style = next(style for start, style in STYLES.items() if type.startswith(start))
    for part, width in ((show.cell(type, style), 20), (show.cell(payload.get("instance"), limit=40), 16)):
        text.append("  ").append_text(part).append(" " * max(0, width - part.cell_len))
    return text.append(f"  {words(type, payload)}")


def words(type: str, payload: Mapping[str, Any]) -> str:
    """Return an event in a few words, without control characters: ``message  done in 1.2 s``."""
    told = _Told(type, payload)
    form = SENTENCES.get(type)
    if form is not None:
        try:
            return form.format_map(told).rstrip()
        except KeyError:  # a payload without one of the fields, of another version or program
            pass
    return "  ".join(f"{clean(name)}={_plain(value)}" for name, value in payload.items() if name not in _COMMON)


class _Told(dict[str, str]):
    """The fields of a payload as text. An optional field includes the words around it."""

    def __init__(self, type: str, payload: Mapping[str, Any]) -> None:
        super().__init__(_OPTIONAL.get(type, {}))
        for name, value in payload.items():
            if value is not None:
                self[name] = _in_words(type, name, value)


_OPTIONAL: Final[Mapping[str, Mapping[str, str]]] = {
    "tool.completed": {"duration": "", "output": ""},
    "tool.failed": {"attempt": ""},
    "safety.allowed": {"verdict": "allow", "reason": ""},
    "safety.blocked": {"verdict": "not let through"},
}


def _in_words(type: str, name: str, value: Any) -> str:
    match name, value:
        case "args", Mapping() if type == "tool.called":
            return clean(summary_of(JournalledCall(params=value)), _LONGEST) or _plain(value)
        case "key" | "contextKey" | "lane", str():
            return clean(escaped(value), _LONGEST)
        case "keys" | "contextKeys", list():
            return clean(escaped(", ".join(map(_inner, value[:20]))), _LONGEST)
        case "duration" | "totalDuration", int() | float():
            return f" in {_span(value)}"
        case "output", _:
            return f": {_plain(value)}"
        case "attempt", int() if type == "tool.failed":
            return f" (attempt {value})" if value > 1 else ""
        case "willRetry", bool():
            return ", is tried again" if value else ""
        case "success", bool():
            return "done" if value else "not done"
        case "channelId", str() if type.startswith("safety."):
            return f" ({clean(value, 40)})" if value else ""
        case "reason", str() if type == "safety.allowed":
            return f": {clean(value.removeprefix(_PREFIX), _LONGEST)}"
        case "reason", str():
            return clean(value.removeprefix(_PREFIX), _LONGEST)
        case "used" | "max", int() if type != "resource.low.context":
            return _bytes(value)
    return _plain(value)


def _plain(value: Any) -> str:
    """Return a value of JSON as text: ``state=open page=2`` for an object, one level deep."""
    match value:
        case str():
            return clean(value, _LONGEST)
        case bool():
            return "yes" if value else "no"
        case None:
            return "-"
        case float():
            return f"{value:.6g}"
        case dict():
            return clean(" ".join(f"{name}={_inner(inner)}" for name, inner in list(value.items())[:20]), _LONGEST)
        case list():
            names = [item.get("name") if isinstance(item, dict) and "name" in item else item for item in value[:20]]
            return clean(", ".join(_inner(name) for name in names), _LONGEST)
    return clean(str(value), _LONGEST)


def _inner(value: Any) -> str:
    if isinstance(value, dict | list):
        return clean(msgspec.json.encode(value).decode(), _LONGEST)
    return f'"{clean(value, _LONGEST)}"' if isinstance(value, str) and " " in value else _plain(value)


def _span(milliseconds: float) -> str:
    """Return a duration in the largest unit that it fills: ``340 ms``, ``1.2 s``, ``3.5 min``, ``2.1 h``."""
    for size, unit, limit in ((1, "ms", 1000), (1000, "s", 60_000), (60_000, "min", 3_600_000)):
        if milliseconds < limit:
            return f"{milliseconds / size:.{0 if unit == 'ms' else 1}f} {unit}"
    return f"{milliseconds / 3_600_000:.1f} h"


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
