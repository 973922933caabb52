"""Attacks on the console: by pages, by processes of this machine, by readers, by sessions that write hostile text."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from callosum.server.tokens import Role, Tokens
from tests.support.serving import Server, serving, until
from tests.support.visiting import RULES, Visitor, ask, console_server, linked, visiting

PUBLIC = "gate.example.com"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with console_server(tmp_path_factory.mktemp("attacked") / "state") as running:
        yield running


def codes(visitor: Visitor) -> list[str]:
    return [line.split()[0] for line in visitor.lines if line[:6].isdecimal()]


def test_only_the_creator_of_a_link_learns_the_host_name_of_the_console(server: Server) -> None:
    """The name protects the cookie from other ports, so a process that may only call the gate must not learn it."""
    for said in ({}, {"terminal": ""}, {"terminal": "x" * 43}):
        answer = server.ask("POST", "/console", said)
        assert answer.status == 403, answer.text
        assert "callosum-" not in answer.text


def test_only_one_of_many_simultaneous_uses_of_a_link_succeeds(server: Server) -> None:
    with ExitStack() as stack:
        visitor = Visitor("")
        secret, _ = stack.enter_context(linked(server.state, visitor, server.post))
        visitors = [Visitor(visitor.address) for _ in range(16)]
        with ThreadPoolExecutor(16) as pool:
            pages = list(pool.map(lambda one: one.post("/console/open", {"link": secret}).status, visitors))
        assert sorted(pages) == [200] + [403] * 15


def test_a_link_cannot_name_another_file(server: Server, anna: Visitor) -> None:
    for link in ("", "../tokens.json", "%2e%2e/x", "\0", "x" * 10_000):
        assert anna.post("/console/open", {"link": link}).status == 403
    for path in ("..%2f..%2fweb.py", "%2e%2e/web.py", "....//console.py", "console.js%00.html", "/etc/passwd"):
        assert anna.get(f"/console/static/{path}").status == 404


def test_page_on_another_port_of_the_same_host_cannot_answer(server: Server, anna: Visitor) -> None:
    asked = ask(server, "chat", "refund", to="Port", amount="1")
    form = anna.get("/console").form("deny", id=str(asked["id"]))
    name = anna.address.rpartition(":")[0]
    for origin in (
        f"{name}:3000",
        name,
        name.replace("http", "https"),
        "http://evil.localhost",
        f"{anna.address}.evil",
    ):
        assert anna.post(form.action, {**form.fields, "say": "deny"}, Origin=origin).status == 403, origin
        assert anna.post("/console/close", form.fields, Origin=origin).status == 403, origin
    for method in ("GET", "HEAD"):
        assert anna._ask(method, f"/console/answer?id={asked['id']}&say=deny", None, {}).status in (404, 405)
    page = anna.get("/console", Origin="http://localhost:3000")
    assert not any(name.startswith("access-control") for name in page.headers)
    assert anna.get("/console").form("deny", id=str(asked["id"]))


def test_requesting_new_codes_does_not_help_to_guess_one(server: Server) -> None:
    with visiting(server) as visitor:
        asked = ask(server, "chat", "pay", to="Guess", amount="1")
        form = visitor.get("/console").form("approve", id=str(asked["id"]))
        tries = 0
        for _ in range(20):
            page = visitor.press(form, "approve")
            if "wrong code" in page.text:
                break
            for _ in range(3):
                visitor.press(page.form("approve"), "approve", code="x")
                tries += 1
        assert tries <= 10
        assert "wrong codes" in visitor.press(form, "approve").text
    with visiting(server) as other:
        form = other.get("/console").form("approve", id=str(asked["id"]))
        other.press(other.press(form, "approve").form("approve"), "approve", code=until(lambda: codes(other))[0])
    assert ask(server, "chat", "pay", to="Guess", amount="1")["proceed"]


@pytest.mark.parametrize("code", ["١٢٣٤٥٦", "é", "", " ", "\0", "9" * 5000])
def test_a_code_in_odd_characters_is_a_wrong_code(server: Server, code: str) -> None:
    with visiting(server) as visitor:
        asked = ask(server, "chat", "pay", to=f"Odd {len(code)}", amount="1")
        sure = visitor.press(visitor.get("/console").form("approve", id=str(asked["id"])), "approve")
        page = visitor.press(sure.form("approve"), "approve", code=code)
        assert (page.status, "not the code" in page.text) == (200, True)


def test_only_one_of_many_simultaneous_answers_with_a_code_counts(server: Server) -> None:
    with visiting(server) as visitor:
        asked = ask(server, "chat", "pay", to="Many", amount="1")
        sure = visitor.press(visitor.get("/console").form("approve", id=str(asked["id"])), "approve")
        code = until(lambda: codes(visitor))[0]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: visitor.press(sure.form("approve"), "approve", code=code), range(8)))
        entries = server.get("/journal")["entries"]
        assert len([e for e in entries if e["event"] == "approve" and e["action"] == asked["id"]]) == 1


def test_code_is_valid_only_for_the_answer_it_was_shown_for(server: Server) -> None:
    with visiting(server) as visitor:
        first, second = (ask(server, "chat", "pay", to=name, amount="1") for name in ("One", "Two"))
        home = visitor.get("/console")
        visitor.press(home.form("approve", id=str(first["id"])), "approve")
        code = until(lambda: codes(visitor))[0]
        page = visitor.press(home.form("approve", id=str(second["id"])), "approve", sure="1", code=code)
        assert "expired" in page.text
        assert not ask(server, "chat", "pay", to="Two", amount="1")["proceed"]


def test_terminal_says_on_one_line_what_its_code_approves(server: Server) -> None:
    with visiting(server) as visitor:
        asked = ask(server, "chat", "pay", to="Bob\n000000  Approve nothing\u202e\x1b[2J", amount="1")
        visitor.press(visitor.get("/console").form("approve", id=str(asked["id"])), "approve")
        until(lambda: codes(visitor))
        lines = [line for line in visitor.lines if line]
        assert len(lines) == 1
        assert "mira/chat" in lines[0]
        assert "Bob" in lines[0]
        assert not {"\u202e", "\x1b"} & set(lines[0])


class Public:
    """A server with a public console, and the tokens of its people."""

    def __init__(self, state: Path, stack: ExitStack) -> None:
        state.mkdir()
        (state / "tiers.json").write_text(json.dumps({"rules": RULES}))
        self.tokens = Tokens(state / "tokens.json")
        self.anna = self.tokens.add("anna", role=Role.APPROVER)
        self.rita = self.tokens.add("rita", role=Role.READER)
        self.server = stack.enter_context(serving(state, "--insecure", "--console", f"https://{PUBLIC}"))

    def visitor(self, token: str) -> Visitor:
        visitor = Visitor(f"http://127.0.0.1:{self.server.host_and_port[1]}")
        visitor.name, visitor.origin = PUBLIC, f"https://{PUBLIC}"
        if token:
            assert visitor.post("/console/open", {"token": token}).status == 200
        return visitor


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Public]:
    with ExitStack() as stack:
        yield Public(tmp_path_factory.mktemp("public") / "state", stack)


def test_reader_cannot_answer_by_any_route_or_method(public: Public) -> None:
    asked = ask(public.server, "chat", "refund", to="Reader", amount="1")
    form = public.visitor(public.anna).get("/console").form("deny", id=str(asked["id"]))
    reader = public.visitor(public.rita)
    page = reader.get("/console")
    csrf = next(form.fields["csrf"] for form in page.forms if "csrf" in form.fields)
    for say in ("approve", "deny", "like", "later", "happened", "not", ""):
        for sure in ("", "1"):
            said = {**form.fields, "csrf": csrf, "say": say, "sure": sure}
            assert reader.post("/console/answer", said).status == 403
            assert reader.post(f"/console/answer?say={say}&id={asked['id']}", said).status == 403
    assert reader.post("/console/revoke", {**form.fields, "csrf": csrf}).status == 403
    for method in ("PUT", "PATCH", "DELETE", "HEAD", "GET", "OPTIONS"):
        assert reader._ask(method, "/console/answer", None, {}).status in (404, 405)
    for path in ("/console", "/console/close/", f"/console/action/{asked['id']}", "/console/live"):
        reader.post(path, {**form.fields, "csrf": csrf, "say": "deny"})
    page = public.visitor(public.anna).get("/console")
    assert page.form("deny", id=str(asked["id"])), "it waits as before, and is not put off"
    assert "postponed" not in page.text


def test_reader_cannot_end_the_session_of_an_approver(public: Public) -> None:
    approver = public.visitor(public.anna)
    for _ in range(70):
        public.visitor(public.rita)
    assert approver.get("/console").forms[0].action != "/console/open"


def test_one_session_can_open_only_a_few_streams(public: Public) -> None:
    reader = public.visitor(public.rita)
    with ExitStack() as stack:
        stats = []
        for number in range(40):
            stream = _stream(public, reader, number)
            stack.callback(stream.close)
            stats.append(_status(stream))
        assert stats.count(200) <= 16
        assert set(stats) == {200, 429}
    until(lambda: _one_more(public, reader))


def _stream(public: Public, reader: Visitor, number: int, namespace: str = "default") -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", public.server.host_and_port[1]), timeout=10)
    path = f"/console/live?page=lanes&span={number + 1}&namespace={namespace}"
    opened.sendall(f"GET {path} HTTP/1.1\r\nHost: {PUBLIC}\r\nCookie: {reader.cookie}\r\n\r\n".encode())
    return opened


def _status(opened: socket.socket) -> int:
    return int(opened.recv(4096).split()[1])


def _one_more(public: Public, reader: Visitor) -> bool:
    with _stream(public, reader, 0) as opened:
        return _status(opened) == 200


def test_pages_of_many_namespaces_do_not_disconnect_others(public: Public) -> None:
    """Nine namespaces that one person views do not stop another person's stream of a tenth."""
    approver, reader = public.visitor(public.anna), public.visitor(public.rita)
    with socket.create_connection(("127.0.0.1", public.server.host_and_port[1]), timeout=20) as opened:
        opened.sendall(
            f"GET /console/live?page= HTTP/1.1\r\nHost: {PUBLIC}\r\nCookie: {approver.cookie}\r\n\r\n".encode()
        )
        said = opened.recv(65536)
        for number in range(12):
            assert reader.get(f"/console?namespace=other{number}").status == 200
        asked = ask(public.server, "chat", "refund", to="Tenth", amount="1")
        mark = f'id=\\"w{asked["id"]}\\"'.encode()
        ends = time.monotonic() + 15
        while mark not in said and time.monotonic() < ends:
            said += opened.recv(65536)
        assert mark in said


def test_command_opens_the_console_of_a_server_that_requires_tokens(tmp_path: Path) -> None:
    """The command sends a proof from the state folder instead of a token; the proof opens nothing else."""
    state = tmp_path / "state"
    Tokens(state / "tokens.json").add("mira")
    with serving(state, "--host", "0.0.0.0", "--insecure") as server:  # noqa: S104
        assert server.ask("POST", "/console", {}).status == 403
        assert server.ask("GET", "/console").status == 401
        assert server.ask("GET", "/status").status == 401
        with visiting(server) as visitor:
            assert "Nothing waits for a person." in visitor.get("/console").text


@pytest.mark.parametrize(
    "path",
    [
        "/console/action/9223372036854775808", f"/console/action/{'9' * 40}", f"/console/action/{'9' * 5000}",
        "/console/action/-1", "/console/lanes?span=nan", "/console/lanes?span=inf&end=1e308",
        "/console/lanes?span=1&end=0.5", "/console/lanes?end=99999999999", "/console/lanes?span=1_000",
        "/console/key?name=%ED%A0%80", "/console/key?name=%00%0d%0aSet-Cookie:x",
        "/console/key?name=" + "%F0%9F%98%80" * 200, "/console/search?q=%22", "/console/search?q=a%20NEAR%20(b",
        "/console/search?q=%00*%00", "/console/search?q=" + "%22a" * 300, "/console?namespace=%0d%0aSet-Cookie:%20x=y",
        "/console?namespace=..%2f..", "/console/live?page=answer", "/console/live?page=&namespace=%00",
        "/console//evil.example/", "/console/", "/console/nowhere",
    ],
)  # fmt: skip
def test_malformed_address_gets_a_page_and_no_server_error(server: Server, anna: Visitor, path: str) -> None:
    page = anna.get(path)
    assert page.status in (200, 303, 307, 400, 404), (page.status, page.text[:300])
    assert "set-cookie" not in page.headers
    if page.status in (400, 404):
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert "Callosum" in page.text


def test_malformed_forms_are_refused_with_a_page(server: Server, anna: Visitor) -> None:
    asked = ask(server, "chat", "refund", to="Form", amount="1")
    form = anna.get("/console").form("deny", id=str(asked["id"]))
    for change in (
        {"id": "9" * 19},
        {"id": "9" * 4000},
        {"id": "١"},
        {"id": "-1"},
        {"digest": ""},
        {"digest": "\u202e"},
        {"csrf": "é"},
        {"say": "answers"},
        {"say": "__class__"},
    ):
        page = anna.post(form.action, {**form.fields, "say": "deny", **change})
        assert page.status in (200, 400, 403), (change, page.status, page.text[:200])
    shown = anna.press(form, "like")
    assert "Approve similar calls" in shown.text
    for seal in ("\u00e9", "", "x" * 5000):
        page = anna.post(form.action, {**form.fields, "say": "like", "chosen": "1", "sure": "1", "seal": seal})
        assert (page.status, "nothing was approved" in page.text) == (200, True), seal
    for id in ("\u0661", "-1", "9" * 4000, ""):
        assert anna.post("/console/revoke", {**form.fields, "id": id}).status == 409
    assert anna.post(form.action, {**form.fields, "note": "x" * 20_000}).status == 413
    assert anna.post(form.action, {str(number): "" for number in range(100)}).status == 400
    assert anna.get("/console").form("deny", id=str(asked["id"]))


def test_a_session_that_floods_the_page_hides_only_itself(server: Server, anna: Visitor) -> None:
    asked = ask(server, "quiet", "refund", to="Quiet", amount="1")
    for number in range(150):
        ask(server, "flood", "deploy", env=f"flood-{number}")
    page = anna.get("/console")
    assert page.form("deny", id=str(asked["id"]))
    later = ask(server, "late", "refund", to="Late", amount="1")
    page = anna.get("/console")
    assert page.form("deny", id=str(later["id"]))
    assert page.html.count('class="card') < 120
    assert "more calls of mira/flood" in page.text


def test_a_person_sees_all_of_a_call_before_the_second_step(server: Server, anna: Visitor) -> None:
    asked = ask(server, "chat", "refund", to="Whole", amount="1", note="x" * 150, hidden="and everything else")
    sure = anna.press(anna.get("/console").form("approve", id=str(asked["id"])), "approve")
    assert "everything else" in sure.text
    assert ("details", {"open": None}) in sure.tags


def test_session_ends_if_its_terminal_closes_while_the_link_is_opened(server: Server) -> None:
    visitors = [Visitor("") for _ in range(10)]
    with ThreadPoolExecutor(1) as pool:
        for visitor in visitors:
            with linked(server.state, visitor, server.post) as (secret, _):
                opening = pool.submit(visitor.post, "/console/open", {"link": secret})
            opening.result()
    until(lambda: all(visitor.get("/console/sessions").status == 403 for visitor in visitors))
