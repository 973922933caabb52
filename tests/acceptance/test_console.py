"""The console, used with a browser that has no JavaScript."""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from callosum.console.access import leave_link
from callosum.server.tokens import Role, Tokens
from tests.acceptance.command import at_terminal, run
from tests.support.serving import Server, serving, until
from tests.support.visiting import RULES, Page, Visitor, ask, console_server, linked, visiting

PAGES = ("/console", "/console/sessions", "/console/lanes", "/console/conflicts", "/console/report", "/console/search")
HOSTILE = (
    '<script>alert("x")</script>', '"><img src=x onerror=alert(1)>', "\u202egnp.exe\u2066 \x1b[31mred\x07",
    "{{ 7 * 7 }}{% raw %}&lt;b&gt;", "javascript:alert(1)",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with console_server(tmp_path_factory.mktemp("console") / "state") as running:
        yield running


def test_a_link_opens_the_console_once(server: Server) -> None:
    visitor = Visitor("")
    with linked(server.state, visitor, server.post) as (secret, _):
        door = visitor.get(f"/console/open?link={secret}")
        assert door.forms[0].fields == {"link": secret}, "a preview of the page spends nothing"
        assert visitor.post("/console/open", {"link": secret}).status == 200
        assert visitor.get("/console/sessions").status == 200
        other = Visitor(visitor.address)
        assert "used already" in other.post("/console/open", {"link": secret}).text
        assert not list((server.state / "console").glob("*.link"))
    until(lambda: visitor.get("/console/sessions").status == 403)


def test_link_expires_and_ends_when_its_terminal_closes(server: Server) -> None:
    visitor = Visitor("")

    def has_ended() -> bool:
        with linked(server.state, visitor, server.post) as (secret, _):
            pass
        return "has ended" in visitor.post("/console/open", {"link": secret}).text

    until(has_ended)
    old, _ = leave_link(server.state, "anna", time.time() - 301)
    assert "expired" in visitor.post("/console/open", {"link": old}).text


def test_console_cannot_be_opened_without_a_link(server: Server, anna: Visitor) -> None:
    visitor = Visitor(anna.address)
    for path in (*PAGES, "/console/live?page=", "/console/key?name=x", "/console/action/1"):
        page = visitor.get(path)
        assert (page.status, "A link opens this page" in page.text) == (403, True), path
    assert visitor.post("/console/answer", {"say": "approve", "id": "1"}).status == 403
    visitor.cookie = "callosum_console=" + "a" * 43
    assert visitor.get("/console").status == 403


def test_only_the_host_name_of_the_console_is_served(anna: Visitor) -> None:
    port = anna.address.rpartition(":")[2]
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", "evil.example", f"callosum-0000.localhost:{port}"):
        assert anna.get("/console", Host=host).status == 421
    assert anna.get("/status").status == 404, "the gate's own endpoints are not here"


def test_forms_of_other_pages_are_refused(server: Server, anna: Visitor) -> None:
    asked = ask(server, "chat", "refund", to="Forms", amount="5")
    form = anna.get("/console").form("approve", id=str(asked["id"]))
    for headers in ({"Origin": "http://localhost:3000"}, {"Origin": "null"}, {"Sec_Fetch_Site": "same-site"}):
        assert anna.post(form.action, {**form.fields, "say": "deny"}, **headers).status == 403
    wrong = anna.post(form.action, {**form.fields, "csrf": "x", "say": "deny"})
    assert (wrong.status, "another session" in wrong.text) == (403, True)
    assert anna.get("/console").form("approve", id=str(asked["id"]))


def test_a_question_is_approved_in_two_steps(server: Server, anna: Visitor) -> None:
    asked = ask(server, "chat", "refund", to="Bob", amount="20")
    home = anna.get("/console")
    form = home.form("approve", id=str(asked["id"]))
    assert '"20" to "Bob"' in home.text
    sure = anna.press(form, "approve")
    assert ask(server, "chat", "refund", to="Bob", amount="20")["proceed"] is False, "nothing was answered yet"
    assert anna.press(anna.press(form, "approve").form("approve"), "approve").status == 200
    assert ask(server, "chat", "refund", to="Bob", amount="20")["proceed"] is True
    (entry,) = [entry for entry in server.get("/journal")["entries"] if entry["event"] == "approve"]
    assert (entry["body"]["by"], entry["body"]["channel"]) == ("anna", "console")
    assert "no longer waits" in anna.press(sure.form("approve"), "approve").text


def test_answer_to_a_question_that_was_not_shown_is_refused(server: Server, anna: Visitor) -> None:
    asked = ask(server, "chat", "refund", to="Eve", amount="20")
    form = anna.get("/console").form("approve", id=str(asked["id"]))
    page = anna.press(form._replace(fields={**form.fields, "digest": "0" * 32}), "approve", sure="1")
    assert "The call has changed since you saw it" in page.text
    assert not ask(server, "chat", "refund", to="Eve", amount="20")["proceed"]


def test_tier_4_requires_the_code_shown_at_the_terminal(server: Server, anna: Visitor) -> None:
    asked = ask(server, "chat", "pay", to="ACME", amount="120")
    sure = anna.press(anna.get("/console").form("approve", id=str(asked["id"])), "approve")
    code = until(lambda: next((line.split()[0] for line in anna.lines if line[:6].isdecimal()), ""))
    form = sure.form("approve")
    wrong = f"{(int(code) + 1) % 10**6:06}"
    assert "not the code" in anna.press(form, "approve", code=wrong).text
    assert not ask(server, "chat", "pay", to="ACME", amount="120")["proceed"]
    assert anna.press(form, "approve", code=code).status == 200
    assert ask(server, "chat", "pay", to="ACME", amount="120")["proceed"] is True


def test_code_is_valid_for_one_answer_and_few_attempts(server: Server, anna: Visitor) -> None:
    asked = ask(server, "chat", "pay", to="Tries", amount="1")
    form = anna.press(anna.get("/console").form("approve", id=str(asked["id"])), "approve").form("approve")
    code = until(lambda: next((line.split()[0] for line in anna.lines if line[:6].isdecimal()), ""))
    for _ in range(3):
        assert "not the code" in anna.press(form, "approve", code="no").text
    assert "expired" in anna.press(form, "approve", code=code).text
    assert not ask(server, "chat", "pay", to="Tries", amount="1")["proceed"]


def test_agent_reads_the_note_a_person_adds_to_a_refusal(server: Server, anna: Visitor) -> None:
    asked = ask(server, "chat", "refund", to="Carl", amount="7")
    form = anna.get("/console").form("deny", id=str(asked["id"]))
    assert anna.press(form, "deny", note="ask the bookkeeper").status == 200
    again = ask(server, "chat", "refund", to="Carl", amount="7")
    assert 'They say: "ask the bookkeeper".' in again["warning"]


def test_block_is_overridden_once(server: Server, anna: Visitor) -> None:
    blocked = ask(server, "chat", "deploy", env="production")
    form = anna.get("/console").form("approve", id=str(blocked["id"]))
    anna.press(anna.press(form, "approve").form("approve"), "approve")
    assert ask(server, "chat", "deploy", env="production")["proceed"] is True
    assert ask(server, "chat", "deploy", env="production")["proceed"] is False


def test_postponed_question_is_folded_and_stays_pending(server: Server, anna: Visitor) -> None:
    asked = ask(server, "chat", "refund", to="Later", amount="7")
    page = anna.press(anna.get("/console").form("later", id=str(asked["id"])), "later")
    assert "1 postponed" in page.text
    assert page.form("approve", id=str(asked["id"]))
    assert not ask(server, "chat", "refund", to="Later", amount="7")["proceed"]


def test_unknown_outcome_is_resolved(server: Server, anna: Visitor) -> None:
    sent = ask(server, "night", "send_email", to="zoe@example.com", subject="Hello", body="Hello Zoe")
    server.post("/complete", {"instance": "mira", "session": "night", "id": sent["id"], "outcome": "unknown"})
    form = anna.get("/console").form("happened", id=str(sent["id"]))
    assert anna.press(anna.press(form, "happened").form("happened"), "happened").status == 200
    page = anna.get(f"/console/action/{sent['id']}")
    assert "resolved: done by anna" in page.text


def test_pause_is_shown_until_the_call_is_repeated(server: Server, anna: Visitor) -> None:
    mail = {"to": "bob@example.com", "subject": "Invoice", "body": "Dear Bob, your invoice is paid."}
    sent = ask(server, "day", "send_email", **mail)
    server.post("/complete", {"instance": "mira", "session": "day", "id": sent["id"]})
    paused = ask(server, "evening", "send_email", **mail)
    assert paused["verdict"] == "confirm"
    page = anna.get("/console")
    assert ("mira/evening" in page.text, "what it did" in page.text) == (True, True)
    assert "mira/day had done the same" in page.text
    assert "Answer it" not in anna.get(f"/console/action/{paused['id']}").text, "a pause takes no answer"
    (item,) = [said for tag, said in page.tags if tag == "li" and said.get("id") == f"w{paused['id']}"]
    assert item["class"] == "card confirm"
    again = until(lambda: (made := ask(server, "evening", "send_email", **mail))["proceed"] and made)
    assert again["proceed"]
    assert f'id="w{paused["id"]}"' not in anna.get("/console").html


def test_page_of_a_key_shows_its_holder_and_its_actions(server: Server, anna: Visitor) -> None:
    held = ask(server, "worker", "send_email", to="key@example.com", subject="Key", body="Key")
    page = anna.get("/console/key?name=email:key@example.com")
    assert "Held by" in page.text
    assert "mira/worker" in page.text
    assert f"/console/action/{held['id']}" in page.html
    assert anna.get("/console/action/5").status == 404
    assert anna.get("/console/key?name=").status == 400


def test_text_from_agents_is_inert_on_every_page(server: Server, anna: Visitor) -> None:
    """Hostile text in every field of a page stays text, and its hidden characters are shown."""
    ids = []
    for text in HOSTILE:
        plain = "".join(character for character in text if character.isprintable() and character not in "\u202e\u2066")
        call = {
            "instance": "mira",
            "session": "hostile",
            "tool": f"refund{plain}"[:80],
            "params": {"to": plain, "amount": text, "body": text, text: text},
            "pause": True,
            "purpose": text,
            "cwd": f"/tmp/{plain}",
            "summary": text,
        }
        made = server.post("/intercept", call)
        ids.append(made["id"])
        refund = ask(server, f"s-{plain}"[:60], "refund", to=plain, amount=text)
        ids.append(refund["id"])
        if refund["contextKey"]:
            ids.append(refund["id"])
    clean = {tag for page in (anna.get(path) for path in PAGES) for tag, _ in page.tags}
    paths = [*PAGES, "/console/search?q=refund", *(f"/console/action/{id}" for id in ids if id)]
    paths += ["/console/key?name=%3Cscript%3Ealert(1)%3C/script%3E", "/console/lanes?span=300"]
    for path in paths:
        _is_harmless(anna.get(path), clean, path)


def _is_harmless(page: Page, known: set[str], path: str) -> None:
    assert page.status == 200, (path, page.text[:300])
    assert {tag for tag, _ in page.tags} <= known | {
        "pre",
        "br",
        "ul",
        "svg",
        "rect",
        "g",
        "text",
        "line",
        "a",
        "td",
        "ol",
    }, path
    assert "img" not in {tag for tag, _ in page.tags}
    for tag, said in page.tags:
        assert not any(name.startswith("on") for name in said), (path, tag, said)
        assert not (said.get("href") or "").startswith("javascript"), path
        assert tag != "script" or (said.get("src") or "").startswith("/console/static/"), path
    assert not {"\u202e", "\u2066", "\x1b", "\x07"} & set(page.html), path
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")


def test_every_response_forbids_browser_features_the_console_does_not_need(anna: Visitor) -> None:
    for path in (*PAGES, "/console/static/console.js", "/console/static/console.css", "/console/open"):
        headers = anna.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
    assert (
        len(anna.get("/console").html)
        + sum(len(anna.get(f"/console/static/console.{kind}").html) for kind in ("js", "css"))
        < 60_000
    )


def test_open_page_receives_changes(server: Server, anna: Visitor) -> None:
    from callosum.client.transport import Transport  # noqa: PLC0415

    stream = Transport(anna.address).open(
        "/console/live?page=&tag=old", [f"Cookie: {anna.cookie}"], deadline=time.monotonic() + 10
    )
    said = ""

    def heard(text: str) -> None:
        nonlocal said
        ends = time.monotonic() + 20
        while text not in said:
            said += stream.read(ends).decode()

    heard("event: parts")
    asked = ask(server, "live", "refund", to="Livia", amount="9")
    heard(f'id=\\"w{asked["id"]}\\"')
    assert re.search(r'name=\\"csrf\\" value=\\"(?!csrf-)', said), "the token of this session stands there"
    stream.close()


def test_the_console_is_closed_from_the_page(server: Server) -> None:
    with visiting(server) as visitor:
        form = visitor.get("/console").forms[-1]
        (close,) = [form for form in visitor.get("/console").forms if form.action == "/console/close"]
        assert form is not None
        assert "closed" in visitor.post("/console/close", close.fields).text
        assert visitor.get("/console").status == 403


def test_other_devices_open_the_console_with_the_token_of_a_person(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "tiers.json").write_text(json.dumps({"rules": RULES}))
    tokens = Tokens(state / "tokens.json")
    anna, rita = tokens.add("anna", role=Role.APPROVER), tokens.add("rita", role=Role.READER, namespaces=("default",))
    mira = tokens.add("mira")
    with serving(state, "--insecure", "--console", "https://gate.example.com") as server:
        asked = ask(server, "chat", "refund", to="Bob", amount="20")
        reader, approver, stranger = (Visitor(f"http://127.0.0.1:{server.host_and_port[1]}") for _ in range(3))
        for visitor in (reader, approver, stranger):
            visitor.name, visitor.origin = "gate.example.com", "https://gate.example.com"
        assert stranger.get("/console/sessions").forms[0].action == "/console/open", "it asks for a token"
        for secret in (mira, "", "cal_anna_x"):
            assert "does not belong to a person" in stranger.post("/console/open", {"token": secret}).text
        assert reader.post("/console/open", {"token": rita}).status == 200
        page = reader.get("/console")
        assert "refund" in page.text
        assert not any(form.buttons for form in page.forms)
        csrf = next(form.fields["csrf"] for form in page.forms if "csrf" in form.fields)
        said = {"csrf": csrf, "say": "deny", "id": str(asked["id"]), "digest": ""}
        assert "may read here" in reader.post("/console/answer", said).text
        assert reader.get("/console?namespace=other").status == 403

        assert approver.post("/console/open", {"token": anna}).status == 200
        form = approver.get("/console").form("deny", id=str(asked["id"]))
        assert approver.press(form, "deny").status == 200
        tokens.remove("anna")
        until(lambda: approver.get("/console").forms[0].action == "/console/open")
        kinds = [entry["body"]["reason"] for entry in server.get("/journal")["entries"] if entry["event"] == "refuse"]
        assert "wrong" in kinds


def test_local_gate_on_a_socket_has_a_console_too(tmp_path: Path) -> None:
    with serving(tmp_path / "state", "--socket", str(tmp_path / "gate.sock")) as server, visiting(server) as visitor:
        assert "Nothing waits for a person." in visitor.get("/console").text
        assert visitor.address.startswith("http://callosum-")


def test_command_opens_the_console_for_a_person_until_the_server_stops(tmp_path: Path) -> None:
    state = tmp_path / "state"
    try:
        refused = run(state, "console")
        assert (refused.returncode, "only a person can open the console" in refused.stderr) == (4, True), refused
        with ThreadPoolExecutor() as pool:
            shown = pool.submit(at_terminal, state, "console", "--no-browser")
            (page,) = until(lambda: list((state / "console").glob("open-*.html")))
            assert page.stat().st_mode & 0o777 == 0o600
            assert "console/open?link=" in page.read_text()
            until(lambda: not shown.running() or list((state / "console").glob("*.link")))
            assert run(state, "stop").returncode == 0
            code, text = shown.result()
        assert (code, "The server has ended." in text) == (0, True), text
        assert str(page) in text.replace("\r\n", "")
        assert "link=" not in text, "the link stands in that file alone"
        assert not page.exists()
    finally:
        run(state, "stop")


def test_new_user_finds_pending_questions_lease_holders_and_the_reason_for_a_block(tmp_path: Path) -> None:
    """Only links and the text of the pages are used."""
    state = tmp_path / "state"
    state.mkdir()
    (state / "tiers.json").write_text(json.dumps({"rules": RULES}))
    with serving(state) as server, visiting(server) as visitor:
        held = ask(server, "worker", "send_email", to="key@example.com", subject="Key", body="Key")
        ask(server, "keyless", "send_sms", text="a call without a key holds nothing that has a name")
        blocked = ask(server, "night", "deploy", env="production")
        for name in ("Bob", "Eve"):
            ask(server, "chat", "refund", to=name, amount="7")

        home = visitor.get("/console").text
        assert re.search(r"\d things wait, the oldest first: 2 questions, 1 blocked call[,.]", home), home

        sessions = visitor.get("/console/sessions")
        told = sessions.text.partition("Held now")[2].partition("last seen")[0]
        assert "email:key@example.com by mira/worker" in told
        assert f"/console/action/{held['id']}" in sessions.html
        found = visitor.get("/console/search?q=email:key@example.com")
        (link,) = {
            said["href"] for tag, said in found.tags if tag == "a" and "name=email%3Akey" in (said.get("href") or "")
        }
        assert "mira/worker" in visitor.get(link or "").text.partition("Held by")[2]

        assert f"/console/action/{blocked['id']}" in visitor.get("/console/report").html
        assert "blocked" in visitor.get("/console/search?q=deploy").text
        page = visitor.get(f"/console/action/{blocked['id']}")
        assert "Answer it" in page.text
        told = page.text.partition("Message to the agent")[2].partition("Params")[0]
        assert told.startswith("[Callosum]")
        assert "'deploy'" in told
        assert "called: blocked" in page.text
        (beside,) = [said["href"] for tag, said in page.tags if tag == "a" and "lanes?span" in (said.get("href") or "")]
        assert "mira/night" in visitor.get(beside or "").text
