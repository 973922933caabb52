"""Standing approvals: rules with an expiry, written from the console and revoked there or at the terminal."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from callosum import standing
from callosum.server.tokens import Role, Tokens
from tests.acceptance.command import at_terminal, run
from tests.support.serving import Server, serving
from tests.support.visiting import RULES, Form, Page, Visitor, ask, console_server, visiting


@pytest.fixture
def server(state: Path) -> Iterator[Server]:
    book: dict[str, object] = {"name": "book", "tool": "book", "tier": 3, "repeats": True}
    with console_server(state, {**book, "contextKey": "room:{params.room}"}) as running:
        yield running


def like_of(anna: Visitor, id: int) -> Page:
    return anna.press(anna.get("/console").form("like", id=str(id)), "like")


def choosing(page: Page, *kept: int) -> Form:
    (form,) = [form for form in page.forms if "chosen" in form.fields]
    return form._replace(fields={**form.fields, **{f"keep{at}": "on" for at in kept}})


def test_standing_approval_with_an_expiry_is_written_in_two_steps(server: Server, anna: Visitor) -> None:
    for to, amount in (("Carl", "20"), ("Dan", "20"), ("Eve", "5")):
        ask(server, f"earlier-{to}", "refund", to=to, amount=amount)
    asked = ask(server, "chat", "refund", to="Bob", amount="20")
    page = like_of(anna, asked["id"])
    assert "It does not answer a waiting call" in page.text
    assert "Would have been allowed: 1" in page.text, "as it stands, only this very call"
    assert "Would have been stopped: 0" in page.text
    assert not standing.path_of(server.state).exists(), "one step writes nothing"

    wider = anna.post("/console/answer", {**choosing(page, 1).fields, "try": "1"})
    assert "Would have been allowed: 3" in wider.text, "every refund of this amount, to whomever"
    assert "mira/earlier-Dan refund to Dan, amount 20: asks as it is, would have run" in wider.text
    assert "mira/earlier-Eve" not in wider.text

    after = anna.post("/console/answer", {**choosing(wider, 1).fields, "sure": "1"})
    assert "Standing approvals" in after.text
    assert "the question of refund" in after.text
    (given,) = standing.read(standing.path_of(server.state))
    assert (given.params, given.by, given.until - given.at) == ({"amount": "20"}, "anna", 30 * 86_400)

    assert [one["id"] for one in server.get("/approvals")["approvals"] if one["id"] == asked["id"]], (
        "it answers nothing"
    )
    assert ask(server, "new", "refund", to="Fay", amount="20")["proceed"]
    assert not ask(server, "new", "refund", to="Fay", amount="99")["proceed"]
    (entry,) = [one for one in server.get("/journal")["entries"] if one["event"] == "host"]
    assert entry["body"]["what"] == "standing approval approved"
    assert (entry["body"]["by"], entry["body"]["approval"]["params"]) == ("anna", {"amount": "20"})

    (revoking,) = [form for form in after.forms if form.action == "/console/revoke"]
    assert "Standing approvals None." in anna.post(revoking.action, revoking.fields).text
    assert not ask(server, "later", "refund", to="Gus", amount="20")["proceed"]
    assert "revoked already" in anna.post(revoking.action, revoking.fields).text


def test_standing_approval_that_was_not_shown_is_not_written(server: Server, anna: Visitor) -> None:
    asked = ask(server, "chat", "refund", to="Bob", amount="20")
    page = like_of(anna, asked["id"])
    for form in (
        choosing(page, 0),  # wider than the attempted call
        choosing(page, 0, 1)._replace(fields={**choosing(page, 0, 1).fields, "seal": "0" * 64}),
    ):
        again = anna.post(form.action, {**form.fields, "sure": "1"})
        assert "The call has changed since you saw it" in again.text
    assert not standing.path_of(server.state).exists()
    (server.state / "tiers.json").write_text(json.dumps({"rules": [{**RULES[1], "repeats": True}]}))
    with visiting(server) as later:
        page = like_of(later, asked["id"])
        (server.state / "tiers.json").write_text(json.dumps({"rules": [{**RULES[1], "verdict": "block"}]}))
        form = choosing(page, 0, 1)
        answer = later.post(form.action, {**form.fields, "sure": "1"}).text
    assert "cannot be approved any more" in answer or "no longer waits" in answer
    assert not standing.path_of(server.state).exists()


def test_pause_for_a_recent_action_can_be_allowed_to_pass(server: Server, anna: Visitor) -> None:
    ask(server, "one", "book", room="blue", guest="Alice from Paris")
    paused = ask(server, "two", "book", room="blue", guest="Zoe and her dog")
    assert (paused["verdict"], [one["kind"] for one in paused["conflicts"]]) == ("confirm", ["held"])
    page = like_of(anna, paused["id"])
    assert "Held: another session acted on the same key" in page.text
    form = choosing(page)
    wider = anna.post(form.action, {**form.fields, "try": "1"})
    anna.post("/console/answer", {**choosing(wider).fields, "sure": "1"})
    assert ask(server, "three", "book", room="green", guest="Max, vegetarian")["proceed"]
    passed = ask(server, "four", "book", room="green", guest="Ulla, late arrival")
    assert passed["proceed"], passed["warning"]
    double = ask(server, "five", "book", room="green", guest="Max, vegetarian")
    assert [one["kind"] for one in double["conflicts"]] == ["duplicate"], "other conflicts stop it as before"


def test_calls_that_cannot_be_approved_are_not_offered(server: Server, anna: Visitor) -> None:
    ids = [
        ask(server, "chat", "pay", to="ACME", amount="1")["id"],
        ask(server, "chat", "deploy", env="production")["id"],
    ]
    mail = {"to": "bob@example.com", "subject": "Invoice", "body": "Dear Bob, your invoice is paid."}
    sent = ask(server, "day", "send_email", **mail)
    server.post("/complete", {"instance": "mira", "session": "day", "id": sent["id"]})
    ids.append(ask(server, "evening", "send_email", **mail)["id"])  # a duplicate
    home = anna.get("/console")
    assert [form for form in home.forms if "like" in form.buttons] == []
    forms = {form.fields["id"]: form for form in home.forms if "id" in form.fields}
    for id in ids:
        assert "does not take that answer" in anna.press(forms[str(id)], "like").text
    assert not standing.path_of(server.state).exists()


def test_the_terminal_lists_and_revokes(server: Server, anna: Visitor) -> None:
    asked = ask(server, "chat", "refund", to="Bob", amount="20")
    assert run(server.state, "rules", "approvals").returncode == 1
    page = like_of(anna, asked["id"])
    form = choosing(page, 0, 1)
    anna.post(form.action, {**form.fields, "sure": "1"})
    told = json.loads(run(server.state, "rules", "approvals", "--json").stdout)["approvals"]
    assert [(one["counts"], one["approval"]["id"]) for one in told] == [(True, asked["id"])]
    refused = run(server.state, "rules", "revoke", str(asked["id"]))
    assert refused.returncode != 0, "without a terminal there is no person"
    assert re.search(r"only a person can revoke", refused.stderr)
    shown = at_terminal(server.state, "rules", "revoke", str(asked["id"]))
    assert (shown.code, "Revoked" in shown.text) == (0, True)
    assert standing.read(standing.path_of(server.state)) == ()
    whats = [one["body"].get("what") for one in server.get("/journal")["entries"] if one["event"] == "host"]
    assert whats == ["standing approval approved", "standing approval revoked"]


def test_namespace_token_and_reader_cannot_write_a_standing_approval(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "tiers.json").write_text(json.dumps({"rules": RULES}))
    tokens = Tokens(state / "tokens.json")
    some = tokens.add("some", role=Role.APPROVER, namespaces=("default",))
    rita = tokens.add("rita", role=Role.READER)
    every = tokens.add("every", role=Role.APPROVER)
    mira = tokens.add("mira")
    with serving(state, "--insecure", "--console", "https://gate.example.com") as server:
        call = {"instance": "mira", "tool": "refund", "params": {"to": "Bob"}, "pause": True}
        asked = server.ask("POST", "/intercept", call, token=mira).body
        for secret, said in ((some, "limited to some"), (rita, "but not answer"), (every, "Approve similar calls")):
            visitor = Visitor(server.address)
            visitor.name, visitor.origin = "gate.example.com", "https://gate.example.com"
            visitor.post("/console/open", {"token": secret})
            home = visitor.get("/console")
            csrf = re.findall(r'name="csrf" value="([^"]+)"', home.html)[0]
            digest = (re.findall(r'name="digest" value="([^"]+)"', home.html) or ["0"])[0]
            fields = {"csrf": csrf, "id": str(asked["id"]), "digest": digest, "say": "like"}
            assert said in visitor.post("/console/answer", fields).text
            revoke = visitor.post("/console/revoke", {"csrf": csrf, "id": "1"}).text
            assert ("has ended, or was revoked" in revoke) is (secret is every)
        assert not standing.path_of(state).exists()


def test_text_from_agents_is_inert_on_the_page_of_standing_approvals(server: Server, anna: Visitor) -> None:
    script, image, turned = '<script>alert("x")</script>', '"><img src=x onerror=alert(1)>', "\u202egnp.exe\x1b[31m"
    asked = ask(server, "chat", "refund", to=script, amount=image, note=turned, **{image: script})
    page = like_of(anna, asked["id"])
    assert script in page.text
    assert re.search(r"Can be anything, .* to, note, ", page.text), "what cannot be named is said to be open"
    written = anna.post("/console/answer", {**choosing(page, *range(10)).fields, "sure": "1"})
    (given,) = standing.read(standing.path_of(server.state))
    assert given.params == {"amount": image}
    shown = anna.get("/console/conflicts?span=604800")
    for one in (page, written, shown):
        assert one.status == 200
        assert not {"\u202e", "\x1b"} & set(one.html)
        assert "img" not in {tag for tag, _ in one.tags}
        scripts = [said.get("src") or "" for tag, said in one.tags if tag == "script"]
        assert all(src.startswith("/console/static/") for src in scripts)
        assert not any(name.startswith("on") for _, said in one.tags for name in said)
    assert ask(server, "new", "refund", to="Bob", **given.params)["proceed"]
