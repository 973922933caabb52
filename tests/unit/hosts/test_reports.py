"""Test which events a host does not wait for: those that may arrive after the session's next call."""

from typing import Any, Final

import pytest

from callosum.hosts.adapters import ADAPTERS
from callosum.hosts.events import CallReturned, CallsClosed, HostIdentity, OtherEvent
from callosum.hosts.hook_entries import Group
from callosum.hosts.setup import entries_of
from callosum.programs import WITH_HOOKS
from callosum.programs.program import Program

CALL: Final = {"tool_name": "Bash", "tool_input": {}, "tool_use_id": "a1", "tool_response": "ok"}
PAYLOAD: Final[dict[str, Any]] = {"session_id": "A", "cwd": "/", "prompt": "go", "tool_calls": [CALL], **CALL}


def is_report(group: Group) -> bool:
    hook = group["hooks"][0]
    return "report" in [*str(hook["command"]).split(), *hook.get("args", ())]


@pytest.mark.parametrize("host", WITH_HOOKS.values(), ids=WITH_HOOKS)
def test_unawaited_event_names_its_calls_or_changes_none(host: Program) -> None:
    reports = [event for event, group in entries_of(host, "/state/callosum-hook").items() if is_report(group)]
    for event in reports:
        for told in ADAPTERS[host.name].read({**PAYLOAD, "hook_event_name": event}, HostIdentity("host")):
            assert isinstance(told, OtherEvent | CallsClosed | CallReturned), f"{event} settles or asks"
            assert not isinstance(told, CallReturned) or told.call_id == "a1"
    assert reports


@pytest.mark.parametrize("host", WITH_HOOKS.values(), ids=WITH_HOOKS)
def test_event_that_is_only_journalled_is_not_awaited(host: Program) -> None:
    for event, group in entries_of(host, "/state/callosum-hook").items():
        told = ADAPTERS[host.name].read({**PAYLOAD, "hook_event_name": event}, HostIdentity("host"))
        if all(isinstance(one, OtherEvent) for one in told) and not event.endswith("Start"):
            assert is_report(group), f"the host waits for {event}, which only tells"
