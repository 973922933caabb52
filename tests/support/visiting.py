"""A browser without JavaScript: pages, links, forms and one cookie."""

import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from callosum.client.errors import TransportError
from callosum.client.transport import ResponseStream, Transport
from callosum.console.access import leave_link
from callosum.loopback import read_token
from tests.support.serving import Server, serving


class Form(NamedTuple):
    """A form: its target, its fields and the labels of its buttons."""

    action: str
    fields: Mapping[str, str]
    buttons: tuple[str, ...]


class Page(HTMLParser):
    """The content of a page."""

    def __init__(self, status: int, headers: Mapping[str, str], html: str) -> None:
        super().__init__()
        self.status, self.headers, self.html = status, headers, html
        self.text = ""
        self.forms: list[Form] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.text = re.sub(r"\s+", " ", self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        self.tags.append((tag, said))
        if tag == "form":
            self.forms.append(Form(said.get("action") or "", {}, ()))
        elif tag == "input" and self.forms and said.get("type") == "hidden":
            assert isinstance(self.forms[-1].fields, dict)
            self.forms[-1].fields[said["name"] or ""] = said.get("value") or ""
        elif tag == "button" and self.forms and said.get("name") == "say":
            form = self.forms[-1]
            self.forms[-1] = form._replace(buttons=(*form.buttons, said["value"] or ""))

    def handle_data(self, data: str) -> None:
        self.text += data

    def form(self, say: str, **fields: str) -> Form:
        """Return the form that has a button with this label and these fields."""
        (found,) = [
            form
            for form in self.forms
            if say in form.buttons and all(form.fields.get(name) == value for name, value in fields.items())
        ]
        return found


class Visitor:
    """A person with a browser. ``lines`` holds the output of the terminal."""

    def __init__(self, address: str) -> None:
        self.cookie = ""
        self.lines: list[str] = []
        self.learn(address)

    def learn(self, address: str) -> None:
        """Take the address of a console."""
        self.address = self.origin = address
        self.name = urlsplit(address).netloc

    def get(self, path: str, **headers: str) -> Page:
        return self._ask("GET", path, None, headers)

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Page:
        return self._ask("POST", path, urlencode(fields), {"Origin": self.origin, **headers})

    def press(self, form: Form, say: str, **more: str) -> Page:
        return self.post(form.action, {**form.fields, "say": say, **more})

    def _ask(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> Page:
        place = urlsplit(self.address)
        connection = http.client.HTTPConnection("127.0.0.1", place.port or 0, timeout=30)
        try:
            sent = {"Host": self.name, **{name.replace("_", "-"): value for name, value in headers.items()}}
            if self.cookie:
                sent["Cookie"] = self.cookie
            if body is not None:
                sent["Content-Type"] = "application/x-www-form-urlencoded"
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            html = answer.read().decode()
            if "set-cookie" in found:
                self.cookie = found["set-cookie"].partition(";")[0]
            if answer.status == 303:
                return self.get(found["location"])
            return Page(answer.status, found, html)
        finally:
            connection.close()


@contextmanager
def linked(
    state: Path, visitor: Visitor, post: Callable[[str, Any], Any], *, by: str = "anna"
) -> Iterator[tuple[str, ResponseStream]]:
    """Return the secret of a link and the connection of the terminal that made it; the visitor learns the address."""
    secret, terminal = leave_link(state, by, time.time())
    visitor.learn(post("/console", {"terminal": terminal})["address"])
    stream = Transport(visitor.address).open(
        "/console/terminal", [f"X-Callosum-Terminal: {terminal}"], deadline=time.monotonic() + 10
    )
    assert stream.status == 200

    def read() -> None:
        try:
            while data := stream.read(time.monotonic() + 300):
                visitor.lines += data.decode().split("\n")
        except (TransportError, OSError, ValueError):
            return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield secret, stream
    finally:
        stream.interrupt()
        reader.join()
        stream.close()


RULES: list[dict[str, object]] = [
    {"name": "pay", "tool": "pay*", "tier": 4, "verdict": "ask", "contextKey": "account:{params.to}"},
    {"name": "refund", "tool": "refund", "tier": 3, "verdict": "ask", "contextKey": "account:{params.to}"},
    {"name": "deploy", "tool": "deploy", "tier": 3, "verdict": "block", "contextKey": "env:{params.env}"},
]
"""Rules whose calls a person must answer."""


@contextmanager
def console_server(state: Path, *rules: dict[str, object]) -> Iterator[Server]:
    """Run a server with ``RULES`` and these rules for the length of a block."""
    state.mkdir()
    (state / "tiers.json").write_text(json.dumps({"rules": [*RULES, *rules]}))
    with serving(state) as server:
        yield server


def ask(server: Server, session: str, tool: str, **params: Any) -> Any:
    """Return the decision about a call of ``mira`` that pauses."""
    call = {"instance": "mira", "session": session, "tool": tool, "params": params, "pause": True}
    return server.post("/intercept", call, token=read_token(server.state))


@contextmanager
def visiting(server: Server, by: str = "anna") -> Iterator[Visitor]:
    """Return a visitor who has opened the console of a server."""
    visitor = Visitor("")
    with linked(server.state, visitor, server.post, by=by) as (secret, _):
        page = visitor.post("/console/open", {"link": secret})
        assert page.status == 200, page.text
        yield visitor
