"""Hook events of hosts that pass through the real dispatcher and a real gate with its store in memory."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from callosum.brain import Brain
from callosum.corpus.events import CorpusEvent
from callosum.errors import CallosumError
from callosum.gate import Effects, LocalGate, Read, Sleep, TakenIn
from callosum.hosts.dispatch import Dispatcher
from callosum.hosts.events import BriefRequested, HookAnswer, HostIdentity
from callosum.hosts.hook_adapter import HookAdapter
from callosum.model import Decision, Host, Verdict
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore
from callosum.testing import ManualClock
from callosum.wire import Brief

T = TypeVar("T")
SENTENCE = "[Callosum] Something is in the way."
TO_BOB = {"to": "bob@example.com", "subject": "Lunch", "body": "Shall we meet at noon on Friday for lunch?"}


class Hooked:
    """One gate and one dispatcher for all hosts of a test. ``spools``: the dispatcher may use the state folder."""

    def __init__(self, brain: Brain, clock: ManualClock, *, spools: bool = False) -> None:
        self.brain, self.gate, self.clock = brain, brain.gate, clock
        self.emitted: list[CorpusEvent] = []
        self.heard: list[CorpusEvent] = []
        """What was on the corpus; ``emitted`` is what the dispatcher itself tells."""
        brain.corpus.on("*", lambda _, event: self.heard.append(event))
        self.dispatcher = Dispatcher(
            self.gate.operations,
            brief=self._brief,
            emit=self.emitted.append,
            changed=lambda adapter, path: "",
            parsed=brain.parsed,
            tell=brain.tell,
            keep=self.gate.keep if spools else lambda record: False,
        )

    def send(self, adapter: HookAdapter, payload: Mapping[str, Any], host: Host | None = None) -> Mapping[str, Any]:
        """Return what the hook prints."""
        return self.drive(self.dispatcher.handle(adapter, payload, HostIdentity(adapter.name), host))

    def drive(self, effects: Effects[T]) -> T:
        """Run an operation to its end as the server does; errors of the store are raised inside it."""
        try:
            need = effects.send(None)
            while True:
                if isinstance(need, Read):
                    need = effects.send(need.read())
                    continue
                assert not isinstance(need, Sleep | TakenIn | list), "no hook waits, and nothing is spooled"
                try:
                    (answer,) = answers = self.gate.store.transact((need,))
                    self.gate.follower.take(answers)
                    if isinstance(answer, Exception):
                        raise answer
                except CallosumError as error:
                    need = effects.throw(error)
                else:
                    need = effects.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            effects.close()

    def journal(self, event: str = "") -> list[Mapping[str, Any]]:
        """Return the journal, oldest first: ``event``, ``session``, ``tool``, ``outcome``, ``keys``, ``body``."""
        found = [
            {
                "event": str(entry.event),
                "session": entry.session,
                "tool": entry.tool,
                "outcome": str(entry.outcome) if entry.outcome else None,
                "keys": [(key.name, str(key.mode)) for key in entry.keys],
                "body": entry.body,
            }
            for entry in self.gate.entries()
        ]
        return [entry for entry in found if event in ("", entry["event"])]

    def outcomes(self) -> list[tuple[str, str]]:
        """Return the session and the outcome of each report."""
        return [(entry["session"], entry["outcome"]) for entry in self.journal("complete")]

    def _brief(self, told: BriefRequested) -> Brief:
        return told.of(self.brain)


@contextmanager
def hooked(state: Path, *, spools: bool = False) -> Iterator[Hooked]:
    """Return a fresh gate. Its rules ask a person about the tool ``bank_transfer``."""
    clock = ManualClock()
    state.mkdir()
    (state / "tiers.json").write_text(json.dumps({"rules": [{"tool": "bank_transfer", "tier": 3, "verdict": "ask"}]}))
    with LocalGate(settings=Settings(state=state), store=MemoryStore(clock=clock)) as gate, Brain(gate) as brain:
        yield Hooked(brain, clock, spools=spools)


def answer_of(verdict: Verdict, sentence: str = SENTENCE) -> HookAnswer:
    """Return the output of the hook for a decision of the gate."""
    decision = Decision(verdict.proceed, 3, None, 1, verdict, (), "mail", warning=sentence or None)
    return HookAnswer(decision, inform=sentence if verdict is Verdict.WARN else "")


def sent_by(session: str, what: str, transcript: str) -> dict[str, Any]:
    """Return the fields that every event of every host has."""
    return {"session_id": session, "transcript_path": transcript, "cwd": "/home/ann/shop", "hook_event_name": what}


def reason(printed: Mapping[str, Any]) -> str:
    """Return why the tool may not run, from the form that Claude Code and Codex obey."""
    said = dict(printed["hookSpecificOutput"])
    told = str(said.pop("permissionDecisionReason"))
    assert printed.keys() == {"hookSpecificOutput"}
    assert said == {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
    assert told, "Codex lets a call run that is denied without a reason"
    return told
