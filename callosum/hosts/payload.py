"""Reading what a host's hook says: every fault names its place, nothing is taken for granted."""

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
"""How a prompt begins that the host's program has made: a notice, the output of a command."""


def name_at(payload: Mapping[str, Any], field: str) -> str:
    """A name that must be there. Raises ``ConfigError`` at the field."""
    found = payload.get(field)
    if not isinstance(found, str) or not found:
        raise ConfigError(f"expected a text, got {type(found).__name__}", at=field)
    return fitting(found)


def name_if(payload: Mapping[str, Any], field: str) -> str | None:
    """A name that may be there; what is none counts as absent."""
    found = payload.get(field)
    return fitting(found) if isinstance(found, str) and found else None


def fitting(name: str) -> str:
    """Return a name as the gate takes it, so that no call fails for what a host calls itself.

    Hidden characters are escaped. A name that is too long keeps its beginning, and a digest follows.
    """
    name = escaped(name)
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 34]}~{blake2b(name.encode(), digest_size=16).hexdigest()}"


def object_at(payload: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """An object, ``{}`` if it is absent; anything else stands under ``value``, so that it is judged too."""
    found = payload.get(field)
    if found is None:
        return {}
    return found if isinstance(found, Mapping) else {"value": found}


def params_at(payload: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """A tool's params, long texts cut."""
    return shortened(object_at(payload, field))


def rest_of(payload: Mapping[str, Any], common: frozenset[str]) -> Mapping[str, Any]:
    """What an event says beside what all of the host's events say."""
    return {name: value for name, value in payload.items() if name not in common}


def before_of(
    payload: Mapping[str, Any], actor: HostSession, call_id: str | None, *, rewrite: bool = False
) -> CallStarting:
    """A call that is about to run: ``tool_name`` and ``tool_input``, in the actor's folder.

    ``rewrite``: the host can run it with other params; a call whose texts were cut runs with its own.
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
    """Somebody says something to a session: what was broken off before is settled, and it may be told of the others.

    ``but``: a tool whose calls may still run.
    """
    received = InputReceived(kept(prompt), host, actor.session, instance=actor.name, namespace=actor.namespace)
    asked = (PromptTyped(actor, said(prompt, MAX_PURPOSE)),) if prompt and not _MADE.match(prompt) else ()
    return SessionIdle(actor, but=but), CorpusEmission(received), *asked, BriefRequested(actor, prompt)


def kept(text: str) -> str:
    """A text as it may be kept: shortened, without secrets."""
    return str(summarise({"text": text})["text"])


def reason_of(decision: Decision, tool: str) -> str:
    """Why a call may not run, for the model."""
    return decision.warning or f"[Callosum] {tool[:100]} was not let through ({decision.verdict}, {decision.rule})."
