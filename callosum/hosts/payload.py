"""Read the payload of a host's hook. Each error names the field at fault, and no field is taken for granted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from callosum.characters import escaped
from callosum.corpus.events import InputReceived
from callosum.errors import ConfigError
from callosum.hosts.events import (
    BriefRequested,
    CallStarting,
    CorpusEmission,
    HostEvent,
    HostSession,
    PromptTyped,
    SessionIdle,
)
from callosum.hosts.truncation import shortened
from callosum.model import MAX_NAME, MAX_PURPOSE, Call, Decision
from callosum.redact import said, summarise

_MADE: Final = re.compile(r"\s*<[a-z]+[-_][a-z_-]+>")
"""Start of a prompt that the host's program wrote itself, such as a notice or the output of a command."""


def name_at(payload: Mapping[str, Any], field: str) -> str:
    """Return a required name. Raises ``ConfigError`` that names the field."""
    value = payload.get(field)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"expected a text, got {type(value).__name__}", at=field)
    return fitting(value)


def name_if(payload: Mapping[str, Any], field: str) -> str | None:
    """Return an optional name. A malformed name counts as absent."""
    value = payload.get(field)
    return fitting(value) if isinstance(value, str) and value else None


def fitting(name: str) -> str:
    """Return a name in the form that the gate accepts, so that no call fails because of a host's name for something.

    Hidden characters are escaped. A name that is too long is cut and gets a digest at its end.
    """
    name = escaped(name)
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 34]}~{blake2b(name.encode(), digest_size=16).hexdigest()}"


def object_at(payload: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """Return an object, or ``{}`` if it is absent.

    Any other value is put under ``value``, so that it is classified too.
    """
    value = payload.get(field)
    if value is None:
        return {}
    return value if isinstance(value, Mapping) else {"value": value}


def params_at(payload: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """Return a tool's params with long texts cut."""
    return shortened(object_at(payload, field))


def rest_of(payload: Mapping[str, Any], common: frozenset[str]) -> Mapping[str, Any]:
    """Return the fields of an event that are not common to all events of the host."""
    return {name: value for name, value in payload.items() if name not in common}


def before_of(
    payload: Mapping[str, Any], actor: HostSession, call_id: str | None, *, rewrite: bool = False
) -> CallStarting:
    """Return the ``CallStarting`` of a payload, from ``tool_name`` and ``tool_input``, in the session's folder.

    ``rewrite`` says that the host can run the call with other params. A call whose texts were cut always runs with its
    own.
    """
    params = object_at(payload, "tool_input")
    short = shortened(params)
    call = Call(
        actor.instance,
        name_at(payload, "tool_name"),
        short,
        session=actor.session,
        namespace=actor.namespace,
        call_id=call_id,
        cwd=actor.cwd,
        parent=actor.parent,
        run=actor.run,
        pause=True,
        rewrite=rewrite and short is params,
    )
    return CallStarting(call)


def prompted(prompt: str, host: str, actor: HostSession, but: str = "") -> tuple[HostEvent, ...]:
    """Return the events of a prompt: interrupted calls are settled and the session may take a brief.

    ``but`` is a tool whose calls may still be running.
    """
    received = InputReceived(kept(prompt), host, actor.session, instance=actor.name, namespace=actor.namespace)
    typed = (PromptTyped(actor, said(prompt, MAX_PURPOSE)),) if prompt and not _MADE.match(prompt) else ()
    return SessionIdle(actor, but=but), CorpusEmission(received), *typed, BriefRequested(actor, prompt)


def kept(text: str) -> str:
    """Return a text in the form in which it may be stored: shortened and without secrets."""
    return str(summarise({"text": text})["text"])


def reason_of(decision: Decision, tool: str) -> str:
    """Return the reason, for the model, why a call may not run.

    A host may strip line breaks and append text of its own (``. Command: ...``), so no reason ends with a line
    of a change.
    """
    reason = decision.warning or f"[Callosum] {tool[:100]} was not let through ({decision.verdict}, {decision.rule})."
    return f"{reason}\n(end of the change)" if reason.rpartition("\n")[2].startswith("| ") else reason
