"""Test that keys written by an agent equal those of calls; otherwise a lease would block no session."""

from pathlib import Path

import pytest

from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.hosts.mcp.identity import CallerIdentity
from callosum.hosts.mcp.tool_handlers import ToolHandlers, canonical
from callosum.model import Call, Verdict
from callosum.settings import Settings


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("email:Alice@EXAMPLE.com", "email:alice@example.com"),
        (" Email:Alice <alice@example.com> ", "email:alice@example.com"),
        ("file:/w/../w/./a.py", "file:/w/a.py"),
        ("/w//a.py", "file:/w/a.py"),
        ("file:a.py", "file:/w/a.py"),
        ("file:/repo/", "file:/repo/"),
        ("file:/w/a.py|lines", "file:/w/a.py|lines"),
        ("thread:andy:msg-500", "thread:andy:msg-500"),
        ("file:\u202e", "file:/w/\u202e"),
    ],
)
def test_key_is_normalised_as_in_calls(written: str, meant: str) -> None:
    assert canonical(written, "/w") == meant


@pytest.mark.parametrize("written", ["nothing", "", "email:a@x.org, b@x.org"])
def test_anything_but_one_key_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        canonical(written)


def test_lease_on_a_written_key_meets_the_call(tmp_path: Path) -> None:
    mail = Call("bob", "send_email", {"to": "alice@example.com", "body": "Hello"})
    with LocalGate(settings=Settings(state=tmp_path)) as gate:
        handlers = ToolHandlers(gate)  # type: ignore[arg-type] # it answers all that a handlers asks
        assert handlers.take(CallerIdentity("amy", "1"), "email:Alice@EXAMPLE.com", 60).startswith("You have the lease")
        assert gate.intercept(mail).verdict is Verdict.WARN
        assert handlers.release(CallerIdentity("amy", "1"), "email:alice@Example.com").startswith("Released")
