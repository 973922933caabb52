"""A server with few open files, and its handling of signals."""

import json
import resource
import signal
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from tests.support.fleet import Late
from tests.support.serving import SECONDS, Server, launch, serving, until

CALL = json.dumps({"instance": "mira", "tool": "read", "params": {"path": "/notes.md"}}).encode()
REQUEST = b"POST /intercept HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%b" % (len(CALL), CALL)


def few_files(count: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def crowd(server: Server, count: int) -> Counter[str]:
    """Connect ``count`` clients at once, each of which keeps its connection until all have an answer."""
    everyone = Barrier(count)

    def ask(_: int) -> tuple[str, socket.socket | None]:
        client = socket.socket()
        client.settimeout(SECONDS)
        everyone.wait(SECONDS)
        try:
            client.connect(server.host_and_port)
            client.sendall(REQUEST)
            answer = client.recv(65_536).split(b"\r\n")[0].decode()
        except OSError as error:
            return type(error).__name__, client
        if " 200 " not in answer:
            client.close()  # refused clients disconnect; served clients stay connected
        return answer, client

    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(ask, range(count)))
    for _, client in answers:
        if client is not None:
            client.close()
    return Counter(answer for answer, _ in answers)


def test_server_limited_to_64_files_refuses_connections_with_503(tmp_path: Path) -> None:
    """None is reset, those that are served get a decision, and tier 4 still works afterwards."""
    with serving(tmp_path / "state", before=partial(few_files, 64)) as server:
        answers = crowd(server, 150)
        assert set(answers) == {"HTTP/1.1 200 OK", "HTTP/1.1 503 Service Unavailable"}, answers
        assert answers["HTTP/1.1 200 OK"] >= 4
        until(lambda: server.ask("GET", "/health").status == 200)
        grave = {"instance": "mira", "tool": "delete_repository", "params": {"repo": "acme/site"}}
        assert server.post("/intercept", grave)["lease"]


def test_server_with_too_low_a_file_limit_says_how_many_files_it_needs(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"ulimit -n.*raise the limit to \d+ or more"):
        launch(tmp_path / "state", before=partial(few_files, 34))


def test_hangup_signal_drains_the_server(tmp_path: Path) -> None:
    """Waiting calls are redirected, others are answered until a second signal ends the drain; the exit code is 0."""
    with serving(tmp_path / "state", "--drain", "30") as server:
        grave = {"instance": "mira", "tool": "delete_repository", "params": {"repo": "acme/site"}}
        assert server.post("/intercept", grave)["proceed"]
        waiter = Late(partial(server.ask, "POST", "/intercept", grave | {"instance": "doug", "wait": 30}))
        until(lambda: server.get("/status").get("waiting"))
        server.process.send_signal(signal.SIGHUP)
        assert waiter.answer(SECONDS).status == 503
        assert server.ask("GET", "/health").body["status"] == "stopping"
        assert server.post("/intercept", json.loads(CALL))["proceed"]
        server.process.send_signal(signal.SIGHUP)
        assert server.process.wait(SECONDS) == 0


def test_hangup_signal_ignored_by_the_parent_process_stays_ignored(tmp_path: Path) -> None:
    ignore = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
    with serving(tmp_path / "state", before=ignore) as server:
        server.process.send_signal(signal.SIGHUP)
        assert server.post("/intercept", json.loads(CALL))["proceed"]
        assert server.ask("GET", "/health").body["status"] == "ok"
