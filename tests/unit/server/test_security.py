"""Authorisation of requests, as a server passes them in, and the responses it would send."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from callosum.errors import ConfigError
from callosum.server.security import (
    Receive,
    RefusalLog,
    Refused,
    Scope,
    Security,
    Send,
    may_act,
    may_approve,
    may_read,
    signed,
)
from callosum.server.tokens import Role, Token, Tokens

ADDRESS = ("127.0.0.1", 7700)
SOCKET = ("/run/callosum.sock", None)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Says whose token it saw; some paths do something else."""
    token: Token | None = scope["callosum.token"]
    if scope["path"] == "/act":
        may_act(token, "doug", "work")
    if scope["path"] == "/approve":
        try:
            may_approve(token, "work")
        except Refused as refused:
            await refused.response()(scope, receive, send)
            return
    if scope["path"] == "/fault":
        raise ZeroDivisionError("a fault")
    if scope["path"] == "/slow":
        scope["began"].set()
        await asyncio.Event().wait()
    await send(START)
    if scope["path"] == "/late":
        raise ZeroDivisionError("a late fault")
    await send({"type": "http.response.body", "body": token.name.encode() if token else b"nobody"})


START: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]}


class Answer:
    def __init__(self, messages: list[Mapping[str, Any]]) -> None:
        start, *rest = messages
        self.status: int = start["status"]
        self.headers = [(name.decode(), value.decode()) for name, value in start["headers"]]
        self.body = b"".join(one["body"] for one in rest)

    def __getitem__(self, name: str) -> str | None:
        found = [value for given, value in self.headers if given == name]
        assert len(found) < 2
        return found[0] if found else None

    @property
    def fault(self) -> tuple[int, str]:
        found = json.loads(self.body)
        assert found["error"]
        assert self["content-type"] == "application/json"
        assert self["content-length"] == str(len(self.body))
        return self.status, found.get("at", "")


class World:
    """A ``Security`` over ``app``, and its reports."""

    def __init__(self, tokens: Tokens, **options: Any) -> None:
        self.refused: list[tuple[str, Mapping[str, Any]]] = []
        self.security = Security(
            app, tokens, on_refused=lambda kind, scope, details: self.refused.append((kind, details)), **options
        )

    def asks(
        self,
        *headers: tuple[str, str],
        host: str | None = "127.0.0.1:7700",
        method: str = "POST",
        path: str = "/",
        server: Any = ADDRESS,
        scheme: str = "http",
    ) -> Answer:
        given = [*([("host", host)] if host is not None else []), *headers]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "scheme": scheme,
            "server": server,
            "client": ("127.0.0.1", 50_000) if server and server[1] else None,
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given],
        }
        return Answer(asyncio.run(self.serves(scope)))

    async def serves(self, scope: Scope) -> list[Mapping[str, Any]]:
        sent: list[Mapping[str, Any]] = []

        async def receive() -> Any:
            raise AssertionError("nothing is read before it is let in")

        async def send(message: Any) -> None:
            sent.append(message)

        await self.security(scope, receive, send)
        return sent


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.json")


@pytest.fixture
def world(tokens: Tokens) -> World:
    return World(tokens, allow_hosts=("gate.example", "FE80::1%eth0", "other.example:8443"), allow_origins=(ALLOWED,))


ALLOWED = "https://console.example"


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST:7700", "127.0.0.1", "127.0.0.1:1", "[::1]:7700", "[::1]"),
        *("gate.example", "gate.example:99", "Gate.Example", "[fe80::1]:7700", "other.example:8443"),
    ],
)
def test_host_names_of_this_server_are_accepted(world: World, host: str) -> None:
    assert [world.asks(host=host).status for _ in range(2)] == [200, 200]
    assert not world.refused


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:7700", "localhost.evil.example", "evil-localhost", "localhost.", "x@localhost"),
        *("127.0.0.1.evil.example", "127.0.0.2", "0.0.0.1", "[::]", "[::1", "::1", "localhost:", "localhost:x"),
        *("other.example", "other.example:8444", "", " ", "localhost ", "localhost/", "localhost,evil", "a" * 300),
        *("0x7f000001", "2130706433", "127.1", "k\xf6nig.example", "localhost:123456"),
    ],
)
def test_foreign_host_name_that_resolves_here_is_refused(world: World, host: str) -> None:
    """A page of ``evil.example`` whose name suddenly means 127.0.0.1 (DNS rebinding)."""
    for _ in range(2):
        assert world.asks(host=host).fault == (421, "Host")
    assert [kind for kind, _ in world.refused] == ["host", "host"]


def test_missing_or_duplicate_host_header_is_refused(world: World) -> None:
    assert world.asks(host=None).fault == (400, "Host")
    assert world.asks(("host", "localhost")).fault == (400, "Host")
    assert world.asks(("host", "evil.example")).fault == (400, "Host")


def test_local_address_of_a_connection_is_an_accepted_host(world: World) -> None:
    assert world.asks(host="192.0.2.7:7700", server=("192.0.2.7", 7700)).status == 200
    assert world.asks(host="[2001:db8:0::1]:7700", server=("2001:db8::1", 7700)).status == 200
    assert world.asks(host="192.0.2.8", server=("::ffff:192.0.2.8", 7700)).status == 200
    assert world.asks(host="[fe80::2]", server=("fe80::2%eth0", 7700)).status == 200
    assert world.asks(host="192.0.2.9:7700", server=("192.0.2.7", 7700)).fault == (421, "Host")
    assert world.asks(host="evil.example", server=("192.0.2.7", 7700)).fault == (421, "Host")
    assert world.asks(host="192.0.2.10", server=None).fault == (421, "Host")


def test_any_host_is_accepted_over_a_unix_socket(world: World) -> None:
    for host in ("localhost", "callosum", "evil.example", None):
        assert world.asks(host=host, server=SOCKET).status == 200
    assert world.asks(host="evil.example").fault == (421, "Host")  # which is not remembered as a good one


def test_cache_of_accepted_hosts_is_bounded(world: World) -> None:
    for port in range(1, 1000):
        assert world.asks(host=f"localhost:{port}").status == 200
    assert len(world.security._good) <= 256


@pytest.mark.parametrize(
    ("host", "origin", "scheme"),
    [
        ("127.0.0.1:7700", "http://127.0.0.1:7700", "http"),
        ("LocalHost:7700", "http://localhost:7700", "http"),
        ("gate.example", "https://gate.example", "https"),
        ("[::1]:7700", "http://[::1]:7700", "http"),
    ],
)
def test_own_pages_may_send_requests(world: World, host: str, origin: str, scheme: str) -> None:
    answer = world.asks(("origin", origin), ("sec-fetch-site", "same-origin"), host=host, scheme=scheme)
    assert answer.status == 200
    assert answer["access-control-allow-origin"] is None


@pytest.mark.parametrize(
    "origin",
    [
        *("https://evil.example", "null", "", "http://127.0.0.1", "http://127.0.0.1:3000", "https://127.0.0.1:7700"),
        *("http://localhost:7700", "http://127.0.0.1:7700.evil.example", "http://127.0.0.1:7700/", "*"),
        *("https://console.example.evil.example", "http://console.example", "https://console.example:444"),
        *("file://", "https://evil.example, https://console.example", "http://127.0.0.1:7700\xff"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_pages_of_other_origins_are_refused(world: World, origin: str, method: str) -> None:
    asked = ("access-control-request-method", "POST")
    answer = world.asks(("origin", origin), *([asked] if method == "OPTIONS" else []), method=method)
    assert answer.fault == (403, "Origin")
    assert answer["access-control-allow-origin"] is None
    assert [kind for kind, _ in world.refused] == ["origin"]


def test_listed_origin_gets_cors_headers_even_with_a_refusal(world: World, tokens: Tokens) -> None:
    for answer in (
        world.asks(("origin", ALLOWED), ("sec-fetch-site", "cross-site")),
        world.asks(("origin", ALLOWED), ("authorization", "Bearer wrong")),
    ):
        assert answer["access-control-allow-origin"] == ALLOWED
        assert answer["vary"] == "origin"
        assert answer["access-control-allow-credentials"] is None
    assert world.asks()["vary"] is None
    assert world.asks(("origin", ALLOWED), host="evil.example").fault == (421, "Host")


def test_preflight_of_a_listed_origin_is_answered(tokens: Tokens) -> None:
    world = World(tokens, allow_origins=[ALLOWED], token_required=True)
    asked = ("access-control-request-method", "DELETE"), ("access-control-request-headers", "authorization")
    answer = world.asks(("origin", ALLOWED), *asked, method="OPTIONS")
    assert (answer.status, answer.body) == (204, b"")
    assert answer["access-control-allow-origin"] == ALLOWED
    assert answer["access-control-allow-methods"] == "GET, POST, DELETE"
    assert answer["access-control-allow-headers"] == "authorization, content-type, last-event-id"
    assert answer["access-control-max-age"] == "600"
    assert answer["access-control-allow-private-network"] is None
    private = ("access-control-request-private-network", "true")
    answer = world.asks(("origin", ALLOWED), *asked, private, method="OPTIONS")
    assert answer["access-control-allow-private-network"] == "true"
    assert world.asks(("origin", ALLOWED), method="OPTIONS").fault == (401, "Authorization")  # no preflight


def test_an_image_of_another_site_is_refused_though_it_names_no_origin(world: World) -> None:
    assert world.asks(("sec-fetch-site", "cross-site"), method="GET").fault == (403, "Sec-Fetch-Site")
    for site in ("same-origin", "same-site", "none"):
        assert world.asks(("sec-fetch-site", site), method="GET").status == 200


@pytest.mark.parametrize("name", ["origin", "authorization", "sec-fetch-site"])
def test_duplicate_headers_are_refused(world: World, name: str) -> None:
    assert world.asks((name, "x"), (name, "x")).fault == (400, name.title())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("allow_origins", value) for value in ("*", "null", "console.example", "https://*.example", "https://a/b", "")),
        *(("allow_hosts", value) for value in ("*", "*.example", "http://a", "a b", "", "k\xf6nig", "a/b", "a:b")),
    ],
)  # fmt: skip
def test_no_wildcard_can_be_listed(tokens: Tokens, option: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        World(tokens, **{option: [value]})
    assert caught.value.at == f"--{option.replace('_', '-').removesuffix('s')}"


def test_origins_of_programs_can_be_listed(tokens: Tokens) -> None:
    world = World(tokens, allow_origins=["vscode-webview://abc", "tauri://localhost", "https://Console.Example/"])
    for origin in ("vscode-webview://abc", "tauri://localhost", "https://console.example"):
        assert world.asks(("origin", origin)).status == 200


def test_token_is_passed_to_the_application(world: World, tokens: Tokens) -> None:
    secret = tokens.add("mira")
    for written in (f"Bearer {secret}", f"bearer {secret}", f"BEARER  {secret} "):
        assert world.asks(("authorization", written)).body == b"mira"
    assert world.asks().body == b"nobody"


@pytest.mark.parametrize(
    "written",
    ["", "Bearer", "Bearer ", "Bearer wrong", "Basic bWlyYTp4", "{}", "Bearer {} {}", "Token {}", "Bearer\t{}"],
)
def test_wrong_token_is_refused_even_on_the_loopback_address(world: World, tokens: Tokens, written: str) -> None:
    written = written.replace("{}", tokens.add("mira"))
    for server in (ADDRESS, SOCKET):
        answer = world.asks(("authorization", written), server=server)
        assert answer.fault == (401, "Authorization")
        assert answer["www-authenticate"] == "Bearer"
    assert [kind for kind, _ in world.refused] == ["wrong", "wrong"]


def test_request_without_a_required_token_is_refused(tokens: Tokens) -> None:
    world = World(tokens, token_required=True)
    secret = tokens.add("mira")
    for server in (ADDRESS, SOCKET):
        answer = world.asks(server=server)
        assert answer.fault == (401, "Authorization")
        assert answer["www-authenticate"] == "Bearer"
        assert world.asks(("authorization", f"Bearer {secret}"), server=server).status == 200
    assert [kind for kind, _ in world.refused] == ["missing", "missing"]


def test_public_endpoints_allow_only_reads(tokens: Tokens) -> None:
    world = World(tokens, token_required=True, open_to_all=("/health",))
    answer = world.asks(method="GET", path="/health")
    assert (answer.status, answer.body) == (200, b"nobody")
    assert world.asks(("authorization", "Bearer cal_mira_wrong"), method="GET", path="/health").status == 401
    assert world.asks(method="POST", path="/health").status == 401
    assert world.asks(method="GET", path="/health/").status == 401
    assert world.asks(method="GET", path="/health", host="evil.example").status == 421
    assert [kind for kind, _ in world.refused] == ["wrong", "missing", "missing", "host"]


def test_refusal_is_reported_with_the_fields_of_its_journal_entry(world: World, tokens: Tokens) -> None:
    secret = tokens.add("mira", instance="mira")
    world.asks(("authorization", f"Bearer {secret}"), path="/act")
    world.asks(("authorization", f"Bearer {secret}"), path="/approve")
    world.asks(("authorization", f"Bearer {secret[:-1]}x"), path="/" + "p" * 300)
    world.asks(path="/approve")
    whose = [(kind, details["at"], details["holder"], details["status"]) for kind, details in world.refused]
    assert whose == [
        ("instance", "instance", "mira", 403),
        ("role", "Authorization", "mira", 403),
        ("wrong", "Authorization", "mira", 401),
        ("missing", "Authorization", "", 401),
    ]
    assert world.refused[0][1] == {
        "status": 403,
        "error": "this token belongs to another instance",
        "at": "instance",
        "holder": "mira",
        "client": "127.0.0.1",
        "method": "POST",
        "path": "/act",
    }
    assert len(world.refused[2][1]["path"]) == 200


def test_no_secret_in_answers_reports_and_logs(world: World, tokens: Tokens, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = tokens.add("mira", instance="mira")
    texts = []
    for written in (f"Bearer {secret}x", secret, f"Basic {secret}", f"Bearer {secret}", f"Bearer {secret} {secret}"):
        for path in ("/act", "/approve", "/fault"):
            answer = world.asks(("authorization", written), path=path)
            texts += [repr(answer.headers), answer.body.decode()]
    texts += [repr(world.refused), caplog.text, *(repr(vars(record)) for record in caplog.records)]
    assert "ZeroDivisionError" in caplog.text
    assert all(secret[-43:] not in text for text in texts)


def test_every_answer_has_the_headers_and_the_applications_own_stay_as_they_are(world: World) -> None:
    for answer in (world.asks(), world.asks(host="evil.example"), world.asks(path="/fault"), world.asks()):
        assert answer["x-content-type-options"] == "nosniff"
        assert answer["cache-control"] == "no-store"
    assert START == {"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]}


def test_application_error_becomes_a_response(world: World, caplog: pytest.LogCaptureFixture) -> None:
    assert world.asks(path="/fault").fault == (500, "")
    assert "POST /fault failed" in caplog.text
    with pytest.raises(ZeroDivisionError):
        world.asks(path="/late")


def test_cancelled_request_gets_a_response(world: World) -> None:
    async def stopped() -> list[Mapping[str, Any]]:
        began = asyncio.Event()
        request = {"type": "http", "method": "GET", "path": "/slow", "scheme": "http", "server": ADDRESS}
        task = asyncio.ensure_future(world.serves({**request, "headers": [(b"host", b"localhost")], "began": began}))
        await began.wait()
        task.cancel()
        return await task

    answer = Answer(asyncio.run(stopped()))
    assert answer.fault == (503, "")
    assert answer["retry-after"] == "1"


def token(role: Role = Role.ACTOR, instance: str | None = None, namespaces: tuple[str, ...] | None = None) -> Token:
    return Token(name="t", role=role, created=0, digest="0" * 64, instance=instance, namespaces=namespaces)


APPROVER = Role.APPROVER


def refusal_of(ask: Callable[[], object]) -> tuple[int, str, str] | None:
    """Return the status, field and kind of the refusal, or None if it is permitted."""
    try:
        ask()
    except Refused as no:
        return no.status, no.at or "", no.kind
    return None


@pytest.mark.parametrize(
    ("held", "instance", "namespace", "refusal"),
    [
        (None, "mira", "work", None),
        (token(), "mira", "work", None),
        (token(instance="mira"), "mira", "work", None),
        (token(instance="mira"), "mira/inbox", "work", None),
        (token(instance="mira/inbox"), "mira/inbox", "work", None),
        (token(instance="mira/inbox"), "mira", "work", (403, "instance", "instance")),
        (token(instance="mira"), "doug", "work", (403, "instance", "instance")),
        (token(instance="mira"), "mirabel", "work", (403, "instance", "instance")),
        (token(instance="mira"), "Mira", "work", (403, "instance", "instance")),
        (token(instance="mira"), "", "work", (403, "instance", "instance")),
        (token(namespaces=("work", "home")), "mira", "home", None),
        (token(namespaces=("work",)), "mira", "default", (403, "namespace", "namespace")),
        (token(APPROVER), "mira", "work", (403, "Authorization", "role")),
        (token(APPROVER, namespaces=("work",)), "mira", "home", (403, "Authorization", "role")),
    ],
)
def test_token_decides_which_instance_may_act(
    held: Token | None, instance: str, namespace: str, refusal: tuple[int, str, str] | None
) -> None:
    assert refusal_of(partial(may_act, held, instance, namespace)) == refusal


def test_claimed_parent_of_another_instance_is_refused_with_its_field() -> None:
    with pytest.raises(Refused) as caught:
        may_act(token(instance="mira"), "doug", "work", at="parent")
    assert caught.value.at == "parent"


@pytest.mark.parametrize(
    ("held", "namespace", "refusal"),
    [
        (None, "work", (401, "Authorization", "missing")),
        (token(), "work", (403, "Authorization", "role")),
        (token(APPROVER), "work", None),
        (token(APPROVER, namespaces=("work",)), "work", None),
        (token(APPROVER, namespaces=("work",)), "home", (403, "namespace", "namespace")),
    ],
)
def test_only_an_approver_may_approve(held: Token | None, namespace: str, refusal: tuple[int, str, str] | None) -> None:
    assert refusal_of(partial(may_approve, held, namespace)) == refusal


def test_token_decides_which_namespaces_may_be_read() -> None:
    may_read(None, None)
    may_read(token(instance="mira"), "work")
    may_read(token(APPROVER), None)
    may_read(token(namespaces=("work",)), "work")
    for namespace in ("home", None):
        with pytest.raises(Refused) as caught:
            may_read(token(namespaces=("work",)), namespace)
        assert (caught.value.status, caught.value.at) == (403, "namespace")


def test_claimed_name_is_journalled_beside_the_name_of_the_token() -> None:
    assert signed(None, "anna") == "anna"
    assert signed(token(), "") == "t"
    assert signed(token(), "t") == "t"
    assert signed(token(), "anna") == "anna (token t)"


def test_a_flood_of_refusals_does_not_fill_the_journal() -> None:
    now = 1000.0
    written: list[tuple[str, Mapping[str, Any]]] = []
    log = RefusalLog(lambda kind, details: written.append((kind, details)), limit=3, span=60, clock=lambda: now)
    for place in range(100):
        log("wrong" if place % 4 else "host", {}, {"place": place})
    log.tick()
    assert [kind for kind, _ in written] == ["host", "wrong", "wrong"]
    now += 60
    log("origin", {}, {"place": 100})
    assert written[3:] == [
        ("suppressed", {"suppressed": 97, "seconds": 60.0, "kinds": {"wrong": 73, "host": 24}}),
        ("origin", {"place": 100}),
    ]
    now += 600
    log.tick()
    log.flush()
    assert len(written) == 5
    for _ in range(5):
        log("missing", {}, {})
    now += 59
    log.tick()
    assert len(written) == 8
    now += 1
    log.tick()
    log.tick()
    assert written[8:] == [("suppressed", {"suppressed": 2, "seconds": 60.0, "kinds": {"missing": 2}})]
