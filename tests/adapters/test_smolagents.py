"""What only smolagents has: agents that write code, and tools that are called in several forms."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("smolagents")

from smolagents import CodeAgent, Tool
from smolagents.models import ChatMessage, MessageRole, Model

from callosum import Call
from callosum.adapters.smolagents import install
from tests.adapters.behaviours import Bench
from tests.adapters.frameworks.smolagents import FRAMEWORK, _tool


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(FRAMEWORK, "sync", tmp_path)
    with made.gate:
        yield made


class Script(Model):
    """A model that writes these pieces of code and records what it read."""

    def __init__(self, *code: str) -> None:
        super().__init__(model_id="script")
        self.code = iter([*code, "final_answer('done')"])
        self.read = ""

    def generate(self, messages: Any, **_: Any) -> Any:
        self.read = "\n".join(part["text"] for message in messages for part in message.content)
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go\n<code>\n{next(self.code)}\n</code>")


def test_a_refusal_stops_the_code_of_an_agent_and_the_same_call_later_confirms(bench: Bench) -> None:
    session: ContextVar[str] = ContextVar("session", default="process")
    bench.gate.intercept(Call("other", "send_email", {"to": "a@example.com", "body": "yes"}, session="chat"))
    model = Script(
        "send_email('a@example.com', body='no')\nprint('went' + 'on')", "print(send_email('a@example.com', 'no'))"
    )
    uninstall = install(bench.gate, session=session.get)
    session.set("code")
    CodeAgent(tools=[_tool(bench.mail())], model=model, verbosity_level=0).run("go")
    uninstall()
    assert "other/chat has an active action" in model.read
    sentence = bench.entries()[1].body["warning"]
    assert sentence in model.read
    assert "wenton" not in model.read
    assert "sent no" in model.read
    assert bench.did == ["no"]
    assert {entry.session for entry in bench.entries()[1:]} == {"agent/code"}  # also in the thread that runs the code
    assert bench.entries()[1].body["params"] == {"to": "a@example.com", "body": "no"}


@pytest.mark.parametrize("form", ["positional", "named", "dict"])
def test_a_tool_is_seen_with_its_arguments_by_name_in_every_form_of_a_call(bench: Bench, form: str) -> None:
    made: Tool = _tool(bench.mail())
    uninstall = install(bench.gate)
    given = {"to": "a@example.com", "body": "hi"}
    called = {
        "positional": lambda: made("a@example.com", "hi", sanitize_inputs_outputs=True),
        "named": lambda: made(**given),
        "dict": lambda: made(given),
    }
    assert called[form]() == "sent hi"
    uninstall()
    assert bench.entries()[0].body["params"] == given
