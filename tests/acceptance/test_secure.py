"""The requirements for requests from other machines: TLS, tokens, and names that match the token."""

import http.client
import ipaddress
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from callosum import __version__
from callosum.client import CallosumClient
from callosum.errors import ConfigError, GateUnavailable
from callosum.model import Call
from callosum.server.tokens import FILE as TOKENS
from callosum.server.tokens import Role, Tokens
from tests.acceptance.command import run
from tests.support.serving import Server, serving, until

EVERYWHERE = "0.0.0.0"  # noqa: S104 - the address that needs a token
MAIL: Any = {
    "instance": "mira",
    "tool": "message",
    "action": "send",
    "params": {"target": "a", "replyTo": "m", "message": "On it"},
}


def refused(state: Path, *options: str) -> str:
    """Return the error of a server that does not start."""
    done = subprocess.run(
        [sys.executable, "-m", "callosum.cli", "serve", "--state", str(state), "--port", "0", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command.split(), *names, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return cert, key


def test_reachable_address_needs_tls_and_a_token(state: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    assert "--tls-cert" in refused(state, "--host", EVERYWHERE)
    assert "no token yet" in refused(state, "--host", EVERYWHERE, "--insecure")
    assert "no token yet" in refused(state, "--host", EVERYWHERE, "--tls-cert", str(cert), "--tls-key", str(key))
    assert "there is no file" in refused(state, "--tls-cert", str(cert) + "x")
    assert not (state / "gate.db").exists()
    with serving(state) as server:
        assert ipaddress.ip_address(server.host_and_port[0]).is_loopback, "where nothing else is said"


def test_over_tls_with_a_token(state: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    token = Tokens(state / TOKENS).add("mira-laptop", instance="mira")
    options = ("--host", EVERYWHERE, "--port", "0", "--tls-cert", str(cert), "--tls-key", str(key))
    with serving(state, *options) as server:
        port = server.address.rpartition(":")[2]
        url = f"https://localhost:{port}"
        with CallosumClient(url, token=token, cafile=cert, deadline=10) as client:
            decision = client.intercept(Call("mira", "message", {"target": "a", "message": "On it"}, action="send"))
            assert decision.proceed
            assert not decision.fallback
            with pytest.raises(ConfigError, match="another instance"):
                client.intercept(Call("doug", "message", {"target": "a", "message": "On it"}, action="send"))
        with CallosumClient(url, cafile=cert, deadline=10) as client, pytest.raises(ConfigError, match="token"):
            client.status()
        with CallosumClient(url, token=token, deadline=2) as client, pytest.raises(GateUnavailable):
            client.status()  # nobody vouches for this certificate


def test_an_insecure_address_still_needs_the_token(state: Path) -> None:
    token = Tokens(state / TOKENS).add("mira")
    with serving(state, "--host", EVERYWHERE, "--port", "0", "--insecure") as server:
        server.address = server.address.replace(EVERYWHERE, "127.0.0.1")
        assert server.ask("POST", "/intercept", MAIL).status == 401
        assert server.ask("GET", "/metrics").status == 401
        assert server.ask("POST", "/intercept", MAIL, token=token).status == 200
        assert server.get("/health") == {"status": "ok"}, "a balancer has no token, and is told no more"
        assert server.get("/health", token=token)["decisions"] == 1
        assert server.ask("GET", "/health", token="cal_mira_wrong").status == 401
        doctor = run(state, "doctor", "--json")
        (found,) = [one for one in json.loads(doctor.stdout)["findings"] if one["check"] == "server"]
        assert (found["level"], found["says"].rpartition(" ")[2]) == ("ok", __version__)


@pytest.fixture
def tokens(state: Path) -> Tokens:
    return Tokens(state / TOKENS)


def entries(server: Server) -> list[Any]:
    found: list[Any] = server.get("/journal?limit=100")["entries"]
    return found


def test_approving_needs_an_approver_even_on_this_machine(state: Path, tokens: Tokens) -> None:
    """The token of an approver approves and does nothing else."""
    anna, mira = tokens.add("anna", role=Role.APPROVER), tokens.add("mira")
    rules = (
        '{"rules": [{"name": "pay", "tool": "pay", "tier": 3, "verdict": "ask", "contextKey": "payment:{params.to}"}]}'
    )
    (state / "tiers.json").write_text(rules)
    with serving(state) as server:
        pay = {"instance": "mira", "tool": "pay", "params": {"to": "acme", "amount": 5}}
        asked = server.post("/intercept", pay, token=mira)
        assert asked["verdict"] == "ask"
        path = f"/approvals/{asked['id']}"
        assert server.ask("POST", path, {"approve": True}).status == 401
        assert server.ask("POST", path, {"approve": True}, token=mira).status == 403
        assert server.ask("DELETE", "/lock/x", {"instance": "mira", "force": True}, token=mira).status == 403
        assert server.ask("POST", "/intercept", pay, token=anna).status == 403
        assert server.ask("POST", path, {"approve": True}, token=f"{anna}x").status == 401
        (waiting,) = server.get("/approvals")["approvals"]
        assert (waiting["id"], waiting["params"]) == (asked["id"], {"to": "acme", "amount": 5})
        assert server.post(path, {"approve": True}, token=anna)["ok"]
        assert server.post("/intercept", pay, token=mira)["verdict"] == "allow"
        (said,) = [entry for entry in entries(server) if entry["event"] == "approve"]
        assert "anna" in str(said)


def test_token_is_revoked_without_a_restart(state: Path, tokens: Tokens) -> None:
    mira = tokens.add("mira")
    with serving(state) as server:
        assert server.ask("GET", "/status", token=mira).status == 200
        fresh = tokens.rotate("mira")
        until(lambda: server.ask("GET", "/status", token=mira).status == 401)
        assert server.ask("GET", "/status", token=fresh).status == 200
        tokens.remove("mira")
        until(lambda: server.ask("GET", "/status", token=fresh).status == 401)


@contextmanager
def listening(server: Server, token: str) -> Iterator[http.client.HTTPResponse]:
    """Open a stream of events and wait until it has begun."""
    with closing(http.client.HTTPConnection(*server.host_and_port, timeout=30)) as connection:
        connection.request("GET", "/events", headers={"Authorization": f"Bearer {token}"})
        with connection.getresponse() as response:
            assert response.status == 200
            response.readline()
            yield response


def has_ended(stream: http.client.HTTPResponse) -> bool:
    """Read a line; return whether the stream has ended."""
    try:
        return not stream.readline()
    except http.client.IncompleteRead:
        return True


def test_a_stream_ends_with_its_token(state: Path, tokens: Tokens) -> None:
    """The streams of other tokens continue: their next event arrives."""
    anna, doug = tokens.add("anna"), tokens.add("doug")
    with serving(state) as server, listening(server, anna) as gone, listening(server, doug) as stays:
        tokens.remove("anna")
        until(lambda: has_ended(gone))
        server.post("/intercept", MAIL, token=doug)
        until(lambda: b'"message"' in stays.readline())


def test_page_of_an_allowed_origin_may_send_requests(state: Path) -> None:
    origin = "https://console.example"
    with serving(state, "--port", "0", "--allow-origin", origin) as server:
        answer = server.ask("POST", "/intercept", MAIL, headers={"Origin": origin})
        assert answer.status == 200
        assert answer.headers["Access-Control-Allow-Origin"] == origin
        asked = server.ask("OPTIONS", "/intercept", headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
        assert asked.status == 204
