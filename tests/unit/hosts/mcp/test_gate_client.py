"""Test what the gate is asked: by which caller, about which tool, with how much of the params, how often."""

from typing import Any

import msgspec
import pytest

from callosum.errors import GateUnavailable, StoreUnavailable
from callosum.hosts.mcp.gate_client import LONG_TEXT, GateClient, shortened
from callosum.hosts.mcp.identity import (
    CallerIdentity,
    NameSources,
    actor_of,
    named_by_command,
    named_by_url,
    server_name,
    tool_name,
)
from callosum.model import MAX_NAME, Call, Decision, Verdict
from callosum.sockets import HUNG_SECONDS


def test_long_texts_are_cut_at_any_depth_and_stay_distinct() -> None:
    long, other = "x" * (LONG_TEXT + 1), "x" * LONG_TEXT + "y"
    one = shortened({"path": "/a", "text": long, "parts": [{"t": long}, 7]})
    two = shortened({"path": "/a", "text": other, "parts": [{"t": other}, 7]})
    assert one["path"] == "/a"
    assert one["parts"][1] == 7
    assert one["text"] == one["parts"][0]["t"]
    assert one["text"] != two["text"]
    assert len(one["text"]) < LONG_TEXT + 100


@pytest.mark.parametrize(("said", "tier"), [(None, 3), (0, 3), (4, 4), ("4", 3), (9, 3)])
def test_cut_call_counts_as_risky(said: Any, tier: int) -> None:
    assert shortened({"_tier": said, "text": ""})["_tier"] == tier


class HungClient:
    """Return a client whose gate takes ``seconds`` to answer, and which gives up after its deadline."""

    deadline = 1.0

    def __init__(self, clock: list[float]) -> None:
        self.clock, self.seconds, self.asked = clock, 0.0, 0

    def intercept(self, call: Call) -> Decision:
        self.asked += 1
        self.clock[0] += min(self.seconds, self.deadline)
        if self.seconds > self.deadline and call.tool == "post":
            raise StoreUnavailable("what the gate said before it hung")
        return self.fallback(call, None) if self.seconds > self.deadline else self.decided(fallback=False)

    def fallback(self, call: Call, error: object, *, tier: int | None = None) -> Decision:
        if call.tool != "read":
            raise GateUnavailable(str(error))
        return self.decided(fallback=True)

    def decided(self, *, fallback: bool) -> Decision:
        return Decision(
            proceed=True,
            tier=0,
            context_key=None,
            id=1,
            verdict=Verdict.ALLOW,
            context_keys=(),
            rule="",
            fallback=fallback,
        )


@pytest.mark.parametrize("tool", ["read", "delete", "post"])
def test_hung_gate_is_asked_once_in_five_seconds(tool: str) -> None:
    clock = [100.0]
    client: Any = HungClient(clock)
    gate_client = GateClient(lambda: client, lambda _: (4, "write"), lambda: clock[0])
    client.seconds = 60.0
    gate_answers = [gate_client.ask(Call("mira", tool, {}), 10) for _ in range(5)]
    assert [gate_answer.proceed for gate_answer in gate_answers] == [tool == "read"] * 5
    assert client.asked == 1
    clock[0] += HUNG_SECONDS
    client.seconds = 0.0
    assert gate_client.ask(Call("mira", tool, {}), 10).proceed
    assert client.asked == 2
    assert gate_client.ask(Call("mira", tool, {}), 10).proceed
    assert client.asked == 3, "one that answers is used again"


def meta(**said: Any) -> dict[str, msgspec.Raw]:
    return {
        name.replace("__", "/").replace("_", "."): msgspec.Raw(msgspec.json.encode(value))
        for name, value in said.items()
    }


ALL = NameSources(given_instance="arg", given_session="s-arg", usual_instance="env", usual_session="s-env")
USUAL = NameSources(usual_instance="env", usual_session="s-env")
SAID = meta(io_callosum__agent="meta", io_callosum__session="s-meta")


@pytest.mark.parametrize(
    ("names", "said", "client", "who"),
    [
        (ALL, SAID, "host", ("arg", "s-arg")),
        (USUAL, SAID, "host", ("meta", "s-meta")),
        (USUAL, None, "host", ("env", "s-env")),
        (NameSources(), None, "host", ("host", "started")),
        (NameSources(), None, "", ("mcp", "started")),
        (NameSources(), meta(io_modelcontextprotocol__clientInfo={"name": "newer"}), "", ("newer", "started")),
        (NameSources(), meta(io_callosum__agent="a\nb", io_callosum__session=7), "", ("a\\u000ab", "started")),
        (NameSources(), meta(io_callosum__agent="x" * (MAX_NAME + 1)), "cl\u202eient", ("cl\\u202eient", "started")),
    ],
)
def test_first_source_wins(names: NameSources, said: Any, client: str, who: tuple[str, str]) -> None:
    found = actor_of(names, said, client, "started")
    assert (found.instance, found.session) == who


def test_other_fields_of_meta_are_read() -> None:
    said = meta(io_callosum__run="r", io_callosum__parent="p/s", io_callosum__origin="cron:1", io_callosum__call="c9")
    assert actor_of(ALL, said, "", "x") == CallerIdentity("arg", "s-arg", "r", "p/s", "cron:1", "c9")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("npx", "-y", "@modelcontextprotocol/server-memory@2026.1.1", "/tmp"), "server-memory"),
        (("uvx", "mcp-server-git"), "mcp-server-git"),
        (("python3", "-m", "mcp_server_time"), "mcp_server_time"),
        (("/usr/bin/node", "/opt/a/index.js"), "index_js"),
        (("docker", "run", "-i", "--rm", "mcp/fetch"), "fetch"),
        (("npx",), "server"),
        (("--", "…"), "server"),
    ],
)
def test_server_is_named_by_its_command(command: tuple[str, ...], name: str) -> None:
    assert named_by_command(command) == name


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://mcp.example.com:8443/x", "mcp_example_com"),
        ("http://[::1]:80/", "server"),
        ("http://127.0.0.1/", "127_0_0_1"),
    ],
)
def test_server_is_named_by_its_url(url: str, name: str) -> None:
    assert named_by_url(url) == name


def test_tool_names_have_the_form_that_rules_expect() -> None:
    assert tool_name(server_name("My Shop! "), "delete_all") == "mcp__My_Shop__delete_all"
    assert len(tool_name("s", "x" * 5000)) == MAX_NAME
