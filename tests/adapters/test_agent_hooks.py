"""The interceptor through the SDK's own emitter, validators and conformance kit, and in Agent Framework."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from callosum import Call, LocalGate
from callosum.corpus.bus import Corpus
from callosum.corpus.events import CorpusEvent, InputReceived, LlmError, LlmResponse
from callosum.model import Entry, Event, Outcome
from callosum.settings import Settings

pytest.importorskip("agent_hooks")

from agent_hooks import (
    AgentContextBuilder,
    ApprovalOutcome,
    ApprovalRequest,
    ApprovalResolution,
    EnforcementMode,
    InterceptionBlocked,
    InterceptionEmitter,
    InterceptionPoint,
    Verdict,
    _core,
)
from agent_hooks.ctk.reference import ReferenceHarness
from agent_hooks.ctk.runner import load_vectors, run_vector

from callosum.adapters.agent_hooks import CallosumInterceptor

RULES = """{"rules": [
  {"name": "deploy", "tool": "deploy", "tier": 3, "verdict": "ask", "contextKey": "host:{params.host}"},
  {"name": "wipe", "tool": "wipe", "tier": 4, "contextKey": "host:{params.host}"}]}"""
SCHEMA = json.loads(files("agent_hooks").joinpath("schema/verdict.schema.json").read_text())
MAIL = {"to": "a@example.com", "body": "Friday works"}
HOST = {"host": "prod"}


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[LocalGate]:
    (tmp_path / "tiers.json").write_text(RULES)
    with LocalGate(settings=Settings(state=tmp_path, host_approvals=True)) as made:
        yield made


def of(gate: LocalGate, *events: Event) -> list[Entry]:
    return [entry for entry in gate.entries() if entry.event in events]


class Host:
    """A host with one session, which sends the interceptor what a test says."""

    def __init__(self, interceptor: CallosumInterceptor, session: str = "chat", **options: Any) -> None:
        self.emitter = InterceptionEmitter(**options).register(interceptor)
        self.build = AgentContextBuilder(agent_id="a", framework="tests", session_id=session)

    async def turn(self) -> None:
        await self.emitter.emit(self.build.pre_model_call(model_id="m", messages=[]))

    async def before(self, name: str, args: Mapping[str, Any], id: str = "c1") -> Any:
        context = self.build.pre_tool_call(call_id=id, name=name, args=dict(args))
        return await self.emitter.emit(context)

    async def after(self, name: str, args: Mapping[str, Any], value: Any = "ok", *, failed: bool = False) -> None:
        told: dict[str, Any] = {"call_id": "c1", "name": name, "args": dict(args)}
        await self.emitter.emit(self.build.post_tool_call(value=value, is_error=failed, **told))


class RecordingInterceptor:
    """An interceptor that records its contexts and the verdicts of the wrapped one."""

    def __init__(self, inner: Any = None) -> None:
        self.inner = inner
        self.seen: list[Any] = []
        self.said: list[Verdict] = []

    async def intercept(self, context: Any) -> Verdict:
        self.seen.append(copy.deepcopy(context))
        verdict = await self.inner.intercept(context) if self.inner else Verdict.allow()
        assert context == self.seen[-1], "an interceptor must not change the context"
        self.said.append(verdict)
        return verdict


class FrontedHarness(ReferenceHarness):
    """The kit's reference host, with one interceptor in front of those of the vector."""

    def __init__(self, first: RecordingInterceptor) -> None:
        self.first = first

    def setup(self, scenario: Any, interceptors: Any, *args: Any, **options: Any) -> None:
        super().setup(scenario, [self.first, *interceptors], *args, **options)

    def setup_declared(self, scenario: Any, document: Any, registry: Any) -> None:
        document = copy.deepcopy(document)
        registry.kind("tests.first", lambda _config, _context: self.first)
        document["bindings"] = [{"id": "first", "kind": "tests.first"}, *document.get("bindings", [])]
        super().setup_declared(scenario, document, registry)


VECTORS = {vector["id"]: vector for vector in load_vectors()}


async def contexts_of(vector: Mapping[str, Any]) -> list[Any]:
    """Return all contexts that the reference host emits in a vector, with the vector's own interceptors behind."""
    watched = RecordingInterceptor()
    await run_vector(FrontedHarness(watched), vector)
    return watched.seen


def valid(verdict: Verdict) -> None:
    """Check a verdict by the SDK's validator and by its schema."""
    wire = verdict.to_wire()
    _core.validate_verdict(json.dumps(wire))
    jsonschema.validate(wire, SCHEMA)


@pytest.mark.parametrize("mode", list(EnforcementMode))
@pytest.mark.parametrize("id", VECTORS)
async def test_each_context_of_the_kit_gets_a_verdict_that_holds(
    id: str, mode: EnforcementMode, gate: LocalGate
) -> None:
    contexts = await contexts_of(VECTORS[id])
    watched = RecordingInterceptor(CallosumInterceptor(gate, instance="mira", corpus=Corpus()))
    emitter = InterceptionEmitter(mode=mode).register(watched)
    for context in contexts:
        record = await emitter.emit_unchecked(context)
        assert not (record.verdict.reason or "").startswith("host_error:")
        assert record.proceeds or record.interception_point is InterceptionPoint.PRE_TOOL_CALL
    assert len(watched.said) == len(contexts)
    for verdict in watched.said:
        valid(verdict)
    calls = [one["tool_call"] for one in contexts if one["interception_point"] == "pre_tool_call"]
    assert [entry.tool for entry in of(gate, Event.INTERCEPT)] == [call["name"] for call in calls]


@pytest.mark.parametrize("id", VECTORS)
async def test_no_vector_of_the_kit_fails_for_the_interceptor_in_front(id: str, gate: LocalGate) -> None:
    """Other interceptors deny, resolvers lift and denials are unenforced, in every composition."""
    watched = RecordingInterceptor(CallosumInterceptor(gate, instance="mira", corpus=Corpus()))
    await run_vector(FrontedHarness(watched), VECTORS[id])
    for verdict in watched.said:
        valid(verdict)
    assert len(watched.said) == len(watched.seen)
    ran = [one for one in watched.seen if one["interception_point"] == "post_tool_call"]
    assert len(of(gate, Event.COMPLETE)) >= len(ran)


async def test_kit_has_every_interception_point() -> None:
    points = [context["interception_point"] for vector in VECTORS.values() for context in await contexts_of(vector)]
    assert {points.count(point) > 20 for point in set(points)} == {True}
    assert len(set(points)) == 8


async def test_confirm_is_a_plain_deny_with_the_sentence_and_the_same_call_in_a_later_turn_runs(
    gate: LocalGate,
) -> None:
    interceptor = CallosumInterceptor(gate, instance="mira")
    chat, heartbeat = Host(interceptor), Host(interceptor, "heartbeat")
    await chat.before("send_email", MAIL)
    await chat.after("send_email", MAIL)
    await heartbeat.turn()
    for id in ("c1", "c2"):
        with pytest.raises(InterceptionBlocked) as no:
            await heartbeat.before("send_email", {**MAIL, "body": "no"}, id)
        verdict = no.value.result.verdict
        assert not verdict.is_liftable
        assert verdict.reason == "callosum:confirm"
        assert verdict.message.startswith("[Callosum] Conflict: mira/chat acted on")
        assert "repeat the call" in (interceptor.told("heartbeat", id) or "")
    assert interceptor.told("heartbeat", "c9") is None
    assert interceptor.told("nobody", "c1") is None
    await heartbeat.turn()
    await heartbeat.before("send_email", {**MAIL, "body": "no"}, "c3")


async def test_a_warning_is_an_allow_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "tiers.json").write_text(
        '{"rules": [{"name": "push", "tool": "push", "tier": 2, "verdict": "warn", "contextKey": "host:{params.host}"}]}'
    )

    with LocalGate(settings=Settings(state=tmp_path)) as gate:
        verdict = (await Host(CallosumInterceptor(gate)).before("push", HOST)).record.verdict
    assert verdict.decision.permits
    assert [warning.reason for warning in verdict.warnings] == ["callosum:warn"]


async def test_a_block_is_a_plain_deny(gate: LocalGate) -> None:
    interceptor = CallosumInterceptor(gate, instance="mira", host_approvals=True)
    await Host(interceptor).before("wipe", HOST)
    with pytest.raises(InterceptionBlocked, match="callosum:block") as no:
        await Host(interceptor, "heartbeat").before("wipe", HOST)
    assert not no.value.result.verdict.is_liftable


async def test_params_that_a_person_approved_become_a_transform(gate: LocalGate) -> None:
    host = Host(CallosumInterceptor(gate, instance="mira"))
    shown = {**HOST, "text": "Roll out version 12 of the billing service to all customers of the second region"}
    with pytest.raises(InterceptionBlocked, match="callosum:ask"):
        await host.before("deploy", shown)
    assert gate.approve(of(gate, Event.INTERCEPT)[0].seq, by="Ada").ok
    await host.turn()
    reworded = {**shown, "text": f"{shown['text']}."}
    outcome = await host.before("deploy", reworded, "c2")
    assert outcome.target == shown
    assert outcome.record.verdict.decision == "transform"


class Person:
    """A resolver that says yes."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []

    def resolve(self, request: ApprovalRequest) -> ApprovalResolution:
        self.asked.append(request.verdict.message)
        return ApprovalResolution(ApprovalOutcome.APPROVE, request.context_identity, Verdict.allow())


@pytest.mark.parametrize("told", [True, False])
async def test_permitted_resolver_lifts_a_question_and_it_is_journalled(gate: LocalGate, *, told: bool) -> None:
    person = Person()
    interceptor = CallosumInterceptor(gate, instance="mira", host_approvals=told)
    host = Host(interceptor, resolver=person)
    if told:
        await host.before("deploy", HOST)
        await host.after("deploy", HOST)
        host = Host(interceptor, "heartbeat")  # another session is notified of the action
    with pytest.raises(InterceptionBlocked, match="callosum:ask"):
        await host.before("deploy", HOST)
    assert ("mira/chat changed" in (interceptor.told("heartbeat", "c1") or "")) is told
    assert len(person.asked) == told
    late = of(gate, Event.LATE)
    assert [(entry.tool, entry.session) for entry in late] == [("deploy", "mira/chat")] * told


@pytest.mark.parametrize(("value", "outcome"), [("ValueError", Outcome.FAILED), ("TimeoutError", Outcome.UNKNOWN)])
async def test_a_call_that_was_only_evaluated_is_journalled_with_its_outcome(
    gate: LocalGate, value: str, outcome: Outcome
) -> None:
    interceptor = CallosumInterceptor(gate, instance="mira")
    host = Host(interceptor, mode=EnforcementMode.EVALUATE_ONLY)
    record = (await host.before("deploy", HOST)).record
    assert record.verdict.reason == "callosum:ask"
    await host.after("deploy", HOST, value, failed=True)
    gate.intercept(Call("doug", "read_file", {"path": "/a"}))  # pending records are entered before the next decision
    assert [entry.session for entry in of(gate, Event.LATE)] == ["mira/chat"]
    assert [entry.outcome for entry in of(gate, Event.COMPLETE)] == [outcome]


@pytest.mark.parametrize(
    ("value", "failed", "outcome"),
    [
        ("sent", False, Outcome.DONE),
        ("ValueError: no such user", True, Outcome.FAILED),
        ("ConnectionResetError", True, Outcome.UNKNOWN),
        ({"error": "timed out after 5 s"}, True, Outcome.UNKNOWN),
    ],
)
async def test_how_a_call_ended_is_reported(gate: LocalGate, value: Any, outcome: Outcome, *, failed: bool) -> None:
    host = Host(CallosumInterceptor(gate))
    await host.before("send_email", MAIL)
    await host.after("send_email", MAIL, value, failed=failed)
    assert [entry.outcome for entry in of(gate, Event.COMPLETE)] == [outcome]


async def test_unreported_call_is_unknown_when_the_session_ends(gate: LocalGate) -> None:
    host = Host(CallosumInterceptor(gate, instance="mira"))
    await host.before("send_email", MAIL)
    await host.emitter.emit_unchecked(host.build.agent_shutdown(reason="cancelled"))
    assert [entry.outcome for entry in of(gate, Event.COMPLETE)] == [Outcome.UNKNOWN]
    assert [entry.body["what"] for entry in of(gate, Event.HOST)] == ["SessionEnd"]


async def test_call_id_that_recurs_ends_the_older_call_as_unknown(gate: LocalGate) -> None:
    host = Host(CallosumInterceptor(gate, instance="mira"))
    await host.turn()
    await host.before("send_email", MAIL)
    await host.turn()
    other = {**MAIL, "to": "b@example.com"}
    await host.before("send_email", other)
    assert [entry.outcome for entry in of(gate, Event.COMPLETE)] == [Outcome.UNKNOWN]
    await host.after("send_email", other)
    assert [entry.outcome for entry in of(gate, Event.COMPLETE)] == [Outcome.UNKNOWN, Outcome.DONE]


@pytest.mark.parametrize("fault", [False, True])
async def test_content_that_cannot_be_encoded_or_emitted_changes_no_decision(gate: LocalGate, *, fault: bool) -> None:
    class Faulty:
        def emit(self, _event: str, payload: Mapping[str, Any]) -> None:
            told.append(payload["content"])
            if fault:
                raise TypeError

    told: list[str] = []
    interceptor = CallosumInterceptor(gate, instance="mira", corpus=Faulty())
    context = Host(interceptor).build.input(content="hello")
    context["input"]["content"] = [object()]
    assert (await interceptor.intercept(context)).decision.permits
    assert len(told) == 1
    assert "object object" in told[0]


async def test_inputs_and_models_are_emitted_and_change_no_decision(gate: LocalGate) -> None:
    told: list[CorpusEvent] = []
    corpus = Corpus()
    corpus.on("*", lambda _name, event: told.append(event))
    host = Host(CallosumInterceptor(gate, instance="mira", corpus=corpus))
    emit, build = host.emitter.emit, host.build
    await emit(build.agent_startup(tools_registered=["send_email"]))
    await emit(build.input(content="my password=hunter2 please"))
    model = {"model_id": "m-1", "content": "hello", "tool_calls": []}
    usage = {"prompt_tokens": 300, "completion_tokens": 42}
    await emit(build.post_model_call(finish_reason="stop", usage=usage, **model))
    await emit(build.post_model_call(finish_reason="error", **model))
    received, answered, failed = told
    assert isinstance(received, InputReceived)
    assert "hunter2" not in received.content
    assert received.instance == "mira/chat"
    assert isinstance(answered, LlmResponse)
    assert (answered.model, answered.tokens, answered.context) == ("m-1", 342, 300)
    assert isinstance(failed, LlmError)
    assert [entry.body["what"] for entry in of(gate, Event.HOST)] == ["SessionStart"]
    assert of(gate, Event.INTERCEPT) == []
