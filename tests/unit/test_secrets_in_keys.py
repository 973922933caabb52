"""No key, name, entry or sentence shows a secret; equal secrets stay equal."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.redaction import KINDS, PLACES, fill, is_hidden
from callosum import Call, LocalGate
from callosum.brain import Brain
from callosum.model import MAX_KEY
from callosum.redact import SecretDigests

CHANCE = random.Random(7)
TOKENS = {kind: fill(templates[0], CHANCE) for kind, templates in KINDS.items()}
HOOK = "https://hooks.slack.com/services/T0AB/B0CD/" + fill("{A24}", CHANCE)
PASSWORD = fill("{A16}", CHANCE) + "7x"

DIGESTS = SecretDigests(b"k" * 32)


def everything(gate: LocalGate, *more: Any) -> str:
    shown = (gate.entries(), gate.status(), gate.store.recent("default", None), *more)
    return msgspec.json.encode(shown, enc_hook=str).decode()


CALLS: dict[str, tuple[Call, str]] = {
    "a webhook": (Call("a", "web_fetch", {"url": HOOK, "method": "POST"}), HOOK[-24:]),
    "a query": (Call("a", "http_post", {"url": f"https://x.org/me?access_token={PASSWORD}"}), PASSWORD),
    "a login": (Call("a", "clone_repo", {"remote": f"ssh://git:{PASSWORD}@x.org/r.git"}), PASSWORD),
    "a file name": (Call("a", "write", {"path": f"/home/a/backup_{TOKENS['github']}.txt", "content": "x"}), TOKENS["github"]),
    "a target": (Call("a", "message", {"action": "send", "target": TOKENS["slack"], "message": "x"}), TOKENS["slack"]),
    "the agent's own key": (Call("a", "write", {"_contextKey": f"url:{HOOK}", "path": "/x"}), HOOK[-24:]),
    "cwd": (Call("a", "write", {"path": "x"}, cwd=f"/srv/{TOKENS['gitlab']}"), TOKENS["gitlab"]),
    "a session": (Call("a", "write", {"path": "/x"}, session=TOKENS["openai"][:200]), TOKENS["openai"][:200]),
    "an instance": (Call(TOKENS["stripe"], "write", {"path": "/x"}), TOKENS["stripe"]),
    "a tool": (Call("a", f"mcp__{TOKENS['npm']}__write", {"path": "/x"}), TOKENS["npm"]),
    "a call id": (Call("a", "write", {"path": "/x"}, call_id=TOKENS["aws"]), TOKENS["aws"]),
    "a run": (Call("a", "write", {"path": "/x"}, run=TOKENS["aws"]), TOKENS["aws"]),
    "a zero-width disguise": (Call("a", "write", {"path": "/x/" + TOKENS["github"][:9] + "\u200b" + TOKENS["github"][9:]}), TOKENS["github"][10:]),
}  # fmt: skip


SPREAD: dict[str, Call] = {
    "a param's name": Call("a", "deploy_site", {"api_key": PASSWORD, "site_id": PASSWORD}),
    "a nested param": Call("a", "deploy_site", {"site_id": PASSWORD, "env": {"DB_PASSWORD": PASSWORD}}),
    "a list of options": Call("a", "exec", {"command": ["tool", "--password", PASSWORD, "rm", PASSWORD]}),
    "a command": Call("a", "exec", {"command": f"sshpass -p {PASSWORD} ssh h; rm {PASSWORD}"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_gate_keeps_and_shows_no_secret_of_a_call(gate: LocalGate, name: str) -> None:
    call, secret = CALLS[name]
    seen: list[Any] = []
    gate.add_observer(lambda one: seen.append((one.session, one.entries, one.decision, one.classification)))
    with Brain(gate) as brain:
        first = gate.intercept(call)
        other = gate.intercept(Call("b", call.tool, call.params, cwd=call.cwd))
        gate.complete("b", id=other.id, result={"said": dict(call.params)})
        assert brain.flush()
        written = [file.read_text() for file in (brain.folder / "corpus").iterdir()]
    assert written
    assert secret not in everything(gate, first, other, seen, written)


@pytest.mark.parametrize("name", SPREAD)
def test_secret_of_one_param_is_in_no_key_of_another(gate: LocalGate, name: str) -> None:
    decision = gate.intercept(SPREAD[name])
    assert decision.context_keys
    assert PASSWORD not in str((decision.context_keys, gate.entries()[0].keys))


@pytest.mark.parametrize("kind", TOKENS)
def test_secret_of_each_provider_leaves_a_key(kind: str) -> None:
    for form in ("file:/home/a/{}.txt", "url:https://x.org/a/{}?q=1", "channel:{}", "doc:{}/"):
        spelled = DIGESTS.key(form.format(TOKENS[kind]))
        assert is_hidden(TOKENS[kind], spelled)
        assert DIGESTS.key(spelled) == spelled


@pytest.mark.parametrize("kind", [kind for kind, around in PLACES.items() if "|" not in around])  # a bar is a facet
def test_secret_that_redaction_hides_is_removed_from_keys(kind: str) -> None:
    spelled = DIGESTS.key(
        "doc:" + PLACES[kind].format(PASSWORD, base64="YW5hOmh1bnRlcjJodW50ZXIy", alnum=PASSWORD)[:900]
    )
    assert is_hidden(PASSWORD, spelled)
    assert DIGESTS.key(spelled) == spelled


def test_equal_secrets_stay_equal_and_others_differ(gate: LocalGate) -> None:
    url = "https://x.org/hook?access_token={}"
    one, same, other = (
        gate.intercept(Call("a", "exec", {"command": f"curl -X PUT -d x {url.format(token)}"}))
        for token in ("first-of-1", "first-of-1", "second-of-2")
    )
    assert one.context_key == same.context_key != other.context_key


def test_lock_and_status_accept_the_unredacted_key(gate: LocalGate) -> None:
    key = f"url:{HOOK}"
    assert gate.lock("a", key, 4).acquired
    assert gate.status(key).locks == gate.status().locks != ()
    blocked = gate.intercept(Call("b", "exec", {"command": f"curl -X PUT -d x {HOOK}", "_tier": 4}))
    assert not blocked.proceed
    assert HOOK[-24:] not in everything(gate, blocked)
    assert gate.release("a", key).ok


def test_report_finds_the_session_whose_name_holds_a_secret(gate: LocalGate) -> None:
    session = TOKENS["linear"]
    decision = gate.intercept(Call("a", "message", {"action": "send", "target": "x", "replyTo": "1"}, session=session))
    assert gate.complete("a", id=decision.id, session=session).ok


def test_other_gates_have_other_digests() -> None:
    assert SecretDigests(b"a").key(f"url:{HOOK}") != SecretDigests(b"b").key(f"url:{HOOK}")


def test_tree_still_covers_what_is_below_a_secret() -> None:
    assert DIGESTS.key("file:/x/token=abc/y").startswith(DIGESTS.key("file:/x/token=abc/"))


@pytest.mark.parametrize("key", ["secret:prod/DB_PASSWORD", "password:/|own", "token:/|some"])
def test_name_of_a_stored_secret_is_not_redacted(key: str) -> None:
    assert DIGESTS.key(key) == key


@given(
    st.lists(st.sampled_from([*TOKENS.values(), "token=", "password:", "/", "|", "a", "%20", "[redacted]", "?", "="]))
)
@settings(deadline=None, max_examples=150)
def test_key_is_spelled_once(parts: list[str]) -> None:
    once = DIGESTS.key("".join(["doc:", *parts])[:MAX_KEY])
    assert len(once) <= MAX_KEY
    assert DIGESTS.key(once) == once
