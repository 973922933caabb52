"""The console in a real browser: Chromium of the distribution, driven by Playwright, and looked over by axe-core.

With ``CALLOSUM_SCREENS=FOLDER`` each page is photographed, light, dark and as wide as a phone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pytest

from tests.e2e.console.conftest import CHROMIUM, opened
from tests.e2e.hosts import installed
from tests.support.serving import Server, until
from tests.support.visiting import console_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(CHROMIUM is None, reason="the console is NOT looked at: Chromium is not installed"),
]
RULES: list[dict[str, object]] = [
    {"name": "halls", "tool": "hall", "tier": 3, "repeats": True, "contextKey": "hall:{params.hall}"},
    {"name": "rooms", "tool": "book", "tier": 3, "repeats": True, "contextKey": "room:{params.room}"},
]
PAGES = {
    "waiting": "", "sessions": "/sessions", "lanes": "/lanes?span=20", "conflicts": "/conflicts",
    "report": "/report",
}  # fmt: skip
_AXE = "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
MAIL = {"to": "alice@example.com", "subject": "Invoice for May", "body": "Dear Alice, the invoice of May is paid."}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with console_server(tmp_path_factory.mktemp("console") / "state", *RULES) as running:
        _live_through_a_morning(running)
        yield running


@pytest.fixture(scope="module")
def axe() -> str:
    return (installed("console") / "node_modules" / "axe-core" / "axe.min.js").read_text()


def ask(server: Server, session: str, tool: str, purpose: str = "", **params: Any) -> Any:
    call = {"instance": "claude-code", "session": session, "tool": tool, "params": params, "pause": True}
    call["cwd"] = "/home/anna/shop"
    return server.post("/intercept", {**call, **({"purpose": purpose} if purpose else {})})


def _live_through_a_morning(server: Server) -> None:
    """Three sessions in one folder, and what they leave for a person."""

    def done(call: Any, session: str, **more: Any) -> None:
        server.post("/complete", {"instance": "claude-code", "session": session, "id": call["id"], **more})

    for name in ("cart.py", "pay.py", "mail.py"):
        ask(server, "chat", "read_file", path=f"/home/anna/shop/{name}")
    done(ask(server, "chat", "send_email", "answer Alice about the invoice", **MAIL), "chat")
    ask(server, "heartbeat", "send_email", **MAIL)
    ask(server, "worker", "write_file", "ship the new checkout", path="/home/anna/shop/pay.py", content="total = 0\n")
    ask(server, "chat", "write_file", path="/home/anna/shop/pay.py", content="total = 1\n")
    ask(server, "worker", "deploy", "ship the new checkout", env="production", version="1.4")
    ask(server, "chat", "pay", "settle what is due", to="ACME", amount="120.00", currency="EUR")
    for guest in ("Carl", "Dora"):
        ask(server, "worker", "refund", to=guest, amount="20.00", currency="EUR")
    ask(server, "worker", "refund", to="Bob", amount="20.00", currency="EUR")
    for room in ("blue", "green", "red", "white", "black", "gold"):  # pauses that are always repeated
        ask(server, "nightly", "book", room=room, guest="Alice, from Paris")
        until(lambda room=room: ask(server, "planner", "book", room=room, guest="Zoe and her dog")["proceed"])
    first = ask(server, "nightly", "hall", hall="north", guest="Alice, from Paris")
    ask(server, "planner", "hall", hall="north", guest="Zoe and her dog")
    done(first, "nightly")  # the pause did its work: the other session had ended before the call was repeated
    until(lambda: ask(server, "planner", "hall", hall="north", guest="Zoe and her dog")["proceed"])
    ask(server, "nightly", "book", room="grey", guest="Alice, from Paris")
    ask(server, "planner", "book", room="grey", guest="Zoe and her dog")
    done(ask(server, "nightly", "bash", command="make test"), "nightly", outcome="failed", result={"error": "exit 2"})
    done(
        ask(server, "nightly", "create_event", title="Standup", start="2026-12-01T10:00:00Z"),
        "nightly",
        outcome="unknown",
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_kept_out_of_any_page(
    server: Server, browser: Browser, axe: str, scheme: Literal["light", "dark"]
) -> None:
    with opened(server, browser, scheme=scheme) as (page, visitor):
        first = page.locator(".card a.open").first.get_attribute("href")
        key = page.locator(".card a.key").first.get_attribute("href")
        for path in (*(f"/console{path}" for path in PAGES.values()), first, key, "/console/search?q=invoice"):
            page.goto(f"{visitor.address}{path}")
            page.evaluate(axe)
            found = page.evaluate(_AXE)
            told = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found["violations"]]
            assert told == [], (path, told)
        page.goto(f"{visitor.address}/console")
        page.get_by_role("button", name="Approve similar calls").first.click()
        page.get_by_role("button", name="Write this rule").wait_for()
        page.evaluate(axe)
        found = page.evaluate(_AXE)
        assert found["violations"] == []


def test_every_page_fits_a_phone_and_twice_the_size(server: Server, browser: Browser) -> None:
    with opened(server, browser, width=360) as (page, visitor):
        for path in PAGES.values():
            page.goto(f"{visitor.address}/console{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        page.goto(f"{visitor.address}/console")
        page.get_by_role("button", name="Approve similar calls").first.click()
        page.get_by_role("button", name="Write this rule").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_question_is_answered_by_keyboard_alone(server: Server, browser: Browser) -> None:
    asked = ask(server, "keys", "refund", to="Kim", amount="3.00")
    with opened(server, browser) as (page, _):
        for _ in range(30):
            page.keyboard.press("j")
            if page.evaluate("document.activeElement.id") == f"w{asked['id']}":
                break
        page.keyboard.press("a")
        page.get_by_role("button", name="Approve: yes, do it").wait_for()
        assert not ask(server, "keys", "refund", to="Kim", amount="3.00")["proceed"], "one key approves nothing"
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Waiting", exact=True).wait_for()
        assert page.locator(f"#w{asked['id']}").count() == 0
    assert ask(server, "keys", "refund", to="Kim", amount="3.00")["proceed"]


def test_a_page_stays_as_the_reader_has_it_while_others_act(server: Server, browser: Browser) -> None:
    with opened(server, browser) as (page, _):
        before = [one.get_attribute("id") for one in page.locator("#waiting > .cards > .card").all()]
        card = page.locator("#waiting > .cards > .card").first
        card.focus()
        held = page.evaluate("document.activeElement.id")
        page.locator(f"#{held} summary").first.click()
        page.locator(f"#{held}").focus()
        asked = ask(server, "live", "refund", to="Livia", amount="9.00")
        page.locator(f"#w{asked['id']}").wait_for()
        after = [one.get_attribute("id") for one in page.locator("#waiting > .cards > .card").all()]
        assert after == [*before, f"w{asked['id']}"], "what is new comes last, and nothing changes its place"
        assert page.evaluate("document.activeElement.id") == held
        assert page.locator(f"#{held} details").first.get_attribute("open") is not None

        page.locator(".menu summary").click()
        page.get_by_role("button", name="Pause updates").click()
        another = ask(server, "live", "refund", to="Paul", amount="9.00")
        page.get_by_role("button", name="Pause updates").click()
        page.locator(f"#w{another['id']}").wait_for()


def test_nothing_moves_under_the_pointer(server: Server, browser: Browser) -> None:
    """A click that aims at one card never lands on another, because the card above it is answered elsewhere."""
    mail = {"to": "pointer@example.com", "subject": "Pointer", "body": "Dear Pointer, this is the first letter."}
    sent = ask(server, "chat", "send_email", **mail)
    server.post("/complete", {"instance": "claude-code", "session": "chat", "id": sent["id"]})
    paused = ask(server, "heartbeat", "send_email", **mail)
    below = ask(server, "heartbeat", "refund", to="Below", amount="9.00")
    with opened(server, browser) as (page, _):
        button = page.locator(f"#w{below['id']} button.deny")
        button.hover()
        before = button.bounding_box()
        until(lambda: ask(server, "heartbeat", "send_email", **mail)["proceed"])
        page.locator(f"#w{paused['id']}.gone").wait_for()
        assert button.bounding_box() == before
        last = ask(server, "heartbeat", "refund", to="Last", amount="9.00")
        page.locator(f"#w{last['id']}").wait_for()
        assert button.bounding_box() == before
        page.mouse.move(5, 5)
        ask(server, "heartbeat", "refund", to="Away", amount="9.00")
        page.locator(f"#w{paused['id']}").wait_for(state="detached")


class Elsewhere(BaseHTTPRequestHandler):
    """What an agent serves on this machine: a page that attacks the console, and a note of the cookies it gets."""

    cookies: ClassVar[list[str]] = []
    page: ClassVar[str] = ""

    def do_GET(self) -> None:
        self.cookies.append(self.headers.get("Cookie", ""))
        body = self.page.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def elsewhere() -> Iterator[int]:
    """The port of a development server of an agent's."""
    Elsewhere.cookies.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.05,))
        thread.start()
        yield listening.server_port
        listening.shutdown()
        thread.join()


def test_a_page_that_an_agent_serves_neither_reads_nor_answers_nor_gets_the_cookie(
    server: Server, browser: Browser, elsewhere: int
) -> None:
    asked = ask(server, "chat", "refund", to="Elsewhere", amount="9.00")
    with opened(server, browser) as (page, visitor):
        fields = page.locator(f"#w{asked['id']} form").evaluate("(form) => Object.fromEntries(new FormData(form))")
        inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in {**fields, "say": "deny"}.items())
        console = visitor.address
        Elsewhere.page = f"""<!doctype html><iframe src="{console}/console"></iframe><img src="{console}/console">
            <script src="{console}/console/static/console.js"></script>
            <form method="post" action="{console}/console/answer">{inputs}</form>"""
        name = console.removeprefix("http://").partition(":")[0]
        for host in ("localhost", "callosum-0000000000000000.localhost", f"sub.{name}", "127.0.0.1"):
            other = page.context.new_page()
            other.goto(f"http://{host}:{elsewhere}/console")
            for mode in ("cors", "no-cors"):
                read = "([at, mode]) => fetch(at, {credentials: 'include', mode}).then((a) => a.text(), () => '')"
                assert other.evaluate(read, [f"{console}/console", mode]) == "", (host, mode)
            framed = [frame for frame in other.frames if frame != other.main_frame]
            assert all("refund" not in frame.content() for frame in framed), host
            with other.expect_navigation():
                other.evaluate("document.forms[0].submit()")
            assert "form belongs to another page" in other.content() or "A link opens this page" in other.content(), (
                host
            )
            other.close()
        assert not any("callosum_console" in cookie for cookie in Elsewhere.cookies)
        page.reload()
        assert page.locator(f"#w{asked['id']}").count() == 1, "nothing was answered"

        other = page.context.new_page()
        other.goto(f"http://{name}:{elsewhere}/console")
        assert any("callosum_console" in cookie for cookie in Elsewhere.cookies), "the name is what keeps it"


def test_hostile_text_does_nothing_in_a_page_that_keeps_itself_current(server: Server, browser: Browser) -> None:
    """``opened`` fails for whatever the browser reports, a violation of the content security policy among it."""
    image = "<img src=x onerror=alert(1)><script>alert(2)</script></li></ol><form action=//evil.example>"
    quotes = '"><svg/onload=alert(3)> &quot; onmouseover=alert(4) x="'
    with opened(server, browser) as (page, visitor):
        dialogs: list[str] = []

        def dismiss(dialog: Dialog) -> None:
            dialogs.append(dialog.message)
            dialog.dismiss()

        page.on("dialog", dismiss)
        asked = [
            ask(
                server,
                f"s {text[:40]}" if text.isprintable() else "s",
                "refund",
                text,
                to=text,
                amount=text,
                **{text: text},
            )
            for text in (image, quotes, "javascript:alert(5)", "\u202e\u2066 lru", "${alert(6)}{{7*7}}")
        ]
        for one in asked:
            page.locator(f"#w{one['id']}").wait_for()
        page.locator(f"#w{asked[1]['id']}").hover()
        paths = [*PAGES.values(), "/search?q=alert", *(f"/action/{one['id']}" for one in asked)]
        for path in paths:
            page.goto(f"{visitor.address}/console{path}")
            places = (
                "(all) => all.map((one) => new URL(one.getAttribute('href') ?? one.getAttribute('action'), location))"
            )
            away = f"({places})(all).filter((at) => at.origin !== location.origin).map(String)"
            assert page.locator("a, form").evaluate_all(f"(all) => {away}") == [], path
            assert page.locator("main img, main script, main iframe, main object, main style").count() == 0, path
        assert dialogs == []


def test_keys_can_be_switched_off(server: Server, browser: Browser) -> None:
    with opened(server, browser) as (page, _):
        page.locator(".menu summary").click()
        page.get_by_label("Keyboard keys").uncheck()
        page.locator("h1").click()
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.className") != "card ask"
        page.reload()
        page.locator(".menu summary").click()
        assert not page.get_by_label("Keyboard keys").is_checked()


def test_tier_4_takes_the_terminals_code(server: Server, browser: Browser) -> None:
    with opened(server, browser) as (page, visitor):
        page.locator(".card", has_text="ACME").get_by_role("button", name="Approve").click()
        code = until(lambda: next((line.split()[0] for line in visitor.lines if line[:6].isdecimal()), ""))
        page.get_by_label("Code that the terminal shows").fill(code)
        page.get_by_role("button", name="Approve: yes, do it").click()
        page.get_by_role("heading", name="Waiting", exact=True).wait_for()
    assert ask(server, "chat", "pay", to="ACME", amount="120.00", currency="EUR")["proceed"]


def test_calls_like_it_are_approved_and_revoked_by_keyboard_alone(server: Server, browser: Browser) -> None:
    asked = ask(server, "like", "refund", to="Lena", amount="4.00")
    with opened(server, browser) as (page, _):

        def press(name: str, key: str = "Enter") -> None:
            page.get_by_role("button", name=name).last.focus()
            page.keyboard.press(key)

        page.locator(f"#w{asked['id']}").get_by_role("button", name="Approve similar calls").focus()
        page.keyboard.press("Enter")
        page.get_by_label("amount").focus()
        page.keyboard.press("Space")
        press("Try this selection")
        page.get_by_label("amount").wait_for()
        assert not page.get_by_label("amount").is_checked()
        press("Write this rule", "Space")
        page.get_by_role("heading", name="Standing approvals").wait_for()
        assert ask(server, "other", "refund", to="Lena", amount="5.00")["proceed"]
        press("Revoke")
        page.locator(f"#a{asked['id']}").wait_for(state="detached")
        assert not ask(server, "other", "refund", to="Lena", amount="6.00")["proceed"]


def test_the_rule_that_cries_wolf_is_seen_at_once(server: Server, browser: Browser) -> None:
    with opened(server, browser) as (page, visitor):
        page.goto(f"{visitor.address}/console/conflicts")
        assert "rooms cries wolf: 6 of 6 stops for held were false alarms." in page.locator(".wolf").inner_text()
        assert page.locator("svg.rates rect.false").count() >= 1
        page.get_by_role("link", name="week").click()
        assert "rooms cries wolf" in page.locator(".wolf").inner_text()


@pytest.mark.skipif("CALLOSUM_SCREENS" not in os.environ, reason="photographs are taken for the docs alone")
def test_photographs(server: Server, browser: Browser) -> None:
    folder = Path(os.environ["CALLOSUM_SCREENS"])
    looks: tuple[tuple[str, Literal["light", "dark"], int], ...] = (
        ("light", "light", 1200),
        ("dark", "dark", 1200),
        ("phone", "light", 360),
    )
    for look, scheme, width in looks:
        with opened(server, browser, scheme=scheme, width=width) as (page, visitor):
            for name, path in PAGES.items():
                page.goto(f"{visitor.address}/console{path}")
                page.screenshot(path=folder / f"{name}-{look}.png")
            page.goto(f"{visitor.address}/console")
            page.locator(".card", has_text="Bob").get_by_role("button", name="Approve similar calls").click()
            page.get_by_label("to Bob").uncheck()
            page.get_by_role("button", name="Try this selection").click()
            page.get_by_role("button", name="Write this rule").wait_for()
            page.screenshot(path=folder / f"like-{look}.png", full_page=True)
