"""The table of operations: each is served everywhere, and the keyword methods use it."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callosum import wire
from callosum.errors import ConfigError
from callosum.guards import AsyncGate
from callosum.model import Call, GateRequest, Host
from callosum.operations import BY_NAME, OPERATIONS, AsyncMethods, Gate
from callosum.stdio import METHODS
from tests.support.world import World

NO_METHOD = {"brief", "approvals", "journal"}
"""The operations that ``Gate`` has no method for."""
HOST = Host(7, 1.0, "here")


class Recording(Gate):
    """A gate that only records its requests."""

    def __init__(self) -> None:
        self.asked: list[GateRequest[Any]] = []

    def handle(self, request: GateRequest[Any]) -> Any:
        self.asked.append(request)
        return None


ENDED: dict[str, Any] = {
    "id": 7, "context_key": "k", "tool": "look", "params": {"a": 1}, "action": "send", "result": {"b": 2},
    "outcome": "done", "session": "chat", "namespace": "team",
}  # fmt: skip
ASKED: dict[str, tuple[Callable[[Gate], object], GateRequest[Any]]] = {
    "intercept": (lambda gate: gate.intercept(Call("mira", "look", session="chat")), Call("mira", "look", session="chat")),
    "complete": (lambda gate: gate.complete("mira", **ENDED), wire.Complete(instance="mira", **ENDED)),
    "lock": (
        lambda gate: gate.lock("mira", "k", 4, 5.0, session="chat", namespace="team", host=HOST),
        wire.Lock(instance="mira", context_key="k", tier=4, ttl=5.0, session="chat", namespace="team", host=HOST),
    ),
    "release": (
        lambda gate: gate.release("mira", "k", session="chat", namespace="team", by="anna", force=True),
        wire.ReleaseAt(instance="mira", context_key="k", session="chat", namespace="team", by="anna", force=True),
    ),
    "renew": (
        lambda gate: gate.renew("mira", 7, 5.0, session="chat", namespace="team"),
        wire.Renew(instance="mira", id=7, ttl=5.0, session="chat", namespace="team"),
    ),
    "resolve": (
        lambda gate: gate.resolve(7, happened=True, by="anna", note="seen", namespace="team"),
        wire.Resolve(id=7, happened=True, by="anna", note="seen", namespace="team"),
    ),
    "approve": (lambda gate: gate.approve(7, by="anna", channel="phone", namespace="team"), wire.Approve(id=7, by="anna", channel="phone", namespace="team")),
    "deny": (lambda gate: gate.deny(7, by="anna", channel="phone", namespace="team"), wire.Deny(id=7, by="anna", channel="phone", namespace="team")),
    "status": (lambda gate: gate.status("k", namespace="team"), wire.ReadStatus(context_key="k", namespace="team")),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - NO_METHOD))
def test_keywords_become_the_request_with_every_field(name: str) -> None:
    ask, wanted = ASKED[name]
    gate = Recording()
    ask(gate)
    assert gate.asked == [wanted]
    assert wanted.operation == name
    left_out = {"deadline", "timeout_ms"}  # set by the sender of the request
    fields = set(inspect.signature(getattr(Gate, name)).parameters) - {"self"}
    assert name == "intercept" or fields == set(getattr(wanted, "__struct_fields__")) - left_out  # noqa: B009


def test_coroutines_take_the_arguments_of_the_methods() -> None:
    names = {name for name, _ in inspect.getmembers(Gate, inspect.isfunction) if not name.startswith("_")}
    assert names == {"handle", *BY_NAME} - NO_METHOD
    gate = AsyncGate(Recording())
    for name in names - {"handle", "intercept"}:
        assert inspect.signature(getattr(gate, name)) == inspect.signature(getattr(Recording(), name))
    assert {"handle", "intercept"} <= vars(AsyncMethods).keys()


async def test_coroutine_sends_the_request_of_its_method() -> None:
    recording = Recording()
    gate = AsyncGate(recording)
    await gate.handle(wire.Renew(instance="mira", id=7))
    await gate.renew("mira", 7)
    await gate.handle(Call("mira", "look"))
    assert recording.asked == [wire.Renew(instance="mira", id=7)] * 2 + [Call("mira", "look")], "as it is"


def test_every_operation_but_a_brief_is_served_by_an_embedded_gate(tmp_path: Path) -> None:
    world = World(tmp_path)
    held = world.ask("mira", "act3", "/a")
    asked: list[GateRequest[Any]] = [
        Call("mira", "look"),
        wire.Renew(instance="mira", id=held.id),
        wire.Complete(instance="mira", id=held.id),
        wire.Lock(instance="mira", context_key="k"),
        wire.ReleaseAt(instance="mira", context_key="k"),
        wire.Resolve(id=held.id, happened=True),
        wire.Approve(id=held.id),
        wire.Deny(id=held.id),
        wire.ReadStatus(),
        wire.ApprovalsQuery(),
        wire.ReadJournal(),
    ]
    assert {request.operation for request in asked} == BY_NAME.keys() - {"brief"}
    for request in asked:
        assert isinstance(world.gate.handle(request), BY_NAME[request.operation].answer)
    with pytest.raises(ConfigError, match="does not serve brief"):
        world.gate.handle(wire.ReadBrief(instance="mira"))


def test_every_operation_is_a_method_of_json_rpc_and_has_one_endpoint() -> None:
    assert METHODS.keys() == {*BY_NAME, "health"}
    assert all(kind.operation == name for name, kind in METHODS.items())
    assert len({row.endpoint for row in OPERATIONS}) == len(OPERATIONS)
