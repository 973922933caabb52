"""What the console costs the decisions, and how soon a person sees something."""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.cases.stream import Timed, rounds_of
from bench.harness import Report
from bench.load import Load, Plan
from bench.serving import Served, callosum
from callosum.client.errors import TransportError
from callosum.client.transport import Transport
from tests.support.visiting import Visitor, linked

SESSIONS = 50
RATE = 100.0
"""Calls a second that are offered."""
SECONDS = 4.0
PAGES = ("", "/sessions", "/lanes", "/conflicts", "/report")
LIVE = ("", "sessions", "lanes", "conflicts", "")
"""The five pages that are open."""
RULE = {"name": "refund", "tool": "refund", "tier": 3, "verdict": "ask", "contextKey": "account:{params.to}"}
_TRIES = 15


def _post(address: str, path: str, body: Any) -> Any:
    asked = urllib.request.Request(f"{address}{path}", json.dumps(body).encode())  # noqa: S310 - our own
    with urllib.request.urlopen(asked) as answer:  # noqa: S310
        return json.load(answer)


@contextmanager
def visitor_of(served: Served, state: Path) -> Iterator[Visitor]:
    """Return a visitor who has opened the console."""
    visitor = Visitor("")
    with linked(state, visitor, partial(_post, served.address)) as (secret, _):
        visitor.post("/console/open", {"link": secret})
        yield visitor


@contextmanager
def watching(visitor: Visitor, page: str) -> Iterator[None]:
    """A page that is open, and read."""
    stream = Transport(visitor.address).open(
        f"/console/live?page={page}&tag=", [f"Cookie: {visitor.cookie}"], deadline=time.monotonic() + 10
    )

    def read() -> None:
        try:
            while stream.read(time.monotonic() + 300):
                pass
        except (TransportError, OSError, ValueError):
            return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        stream.interrupt()
        reader.join()
        stream.close()


def run(folder: Path, rounds: int) -> Report:
    """Run the same load on two servers, one of which has five pages open; then measure the pages themselves."""
    report = Report("console")
    with ExitStack() as stack:
        load = stack.enter_context(Load())
        served: dict[str, Served] = {}
        for name in ("alone", "watched"):
            (folder / name).mkdir(parents=True)
            (folder / name / "tiers.json").write_text(json.dumps({"rules": [RULE]}))
            served[name] = stack.enter_context(callosum(folder / name))
            load.connect(name, served[name].address, SESSIONS)
            load.run(name, Plan("mixed", requests=4000))
        visitor = stack.enter_context(visitor_of(served["watched"], folder / "watched"))
        with ExitStack() as pages:
            for page in LIVE:
                pages.enter_context(watching(visitor, page))
            plans = {
                "offered": Plan("mixed", seconds=SECONDS, rate=RATE),
                "full": Plan("mixed", seconds=SECONDS),
            }
            found = rounds_of(load, served, plans, rounds)
        pairs = {kind: list(zip(found["watched", kind], found["alone", kind], strict=True)) for kind in plans}
        p50 = statistics.median(one.found.p50 / other.found.p50 for one, other in pairs["offered"])
        decided = statistics.median(one.found.decided / other.found.decided for one, other in pairs["full"])
        report.add(f"five pages open / none, {RATE:.0f} calls a second: p50", p50, at_most=1.03)
        report.add("five pages open / none, as fast as it can: decisions", decided)
        report.add("server's processor, five pages open", _share(found["watched", "offered"]), "%")
        report.add("server's processor, none", _share(found["alone", "offered"]), "%")
        _pages(report, load, served["watched"], visitor)
    return report


def _share(blocks: list[Timed]) -> float:
    return 100 * statistics.median(block.share() for block in blocks)


def _pages(report: Report, load: Load, served: Served, visitor: Visitor) -> None:
    """Each page, and how soon an open one shows a decision, while sessions act."""
    busy = threading.Thread(target=load.run, args=("watched", Plan("mixed", seconds=30, rate=RATE)))
    busy.start()
    for path in PAGES:
        first, whole = zip(*(_asked(visitor, f"/console{path}") for _ in range(_TRIES)), strict=True)
        name = path or "/waiting"
        report.add(f"{name}: first byte", 1000 * statistics.median(first), "ms", at_most=50)
        report.add(f"{name}: whole page", 1000 * statistics.median(whole), "ms")
    report.add("/lanes, a day: whole page", 1000 * _asked(visitor, "/console/lanes?span=86400")[1], "ms", at_most=1000)
    stream = Transport(visitor.address).open(
        "/console/live?page=&tag=", [f"Cookie: {visitor.cookie}"], deadline=time.monotonic() + 10
    )
    took = []
    for number in range(_TRIES):
        call = {"instance": "mira", "session": "asks", "tool": "refund", "params": {"to": f"u{number}"}}
        made = _post(served.address, "/intercept", {**call, "pause": True})
        began, said = time.perf_counter(), ""
        while f"w{made['id']}" not in said:
            said += stream.read(time.monotonic() + 10).decode()
        took.append(time.perf_counter() - began)
    stream.interrupt()
    stream.close()
    report.add("a decision until an open page has it", 1000 * statistics.median(took), "ms", at_most=300)
    report.add("the longest", 1000 * max(took), "ms")
    busy.join()


def _asked(visitor: Visitor, path: str) -> tuple[float, float]:
    """Seconds until the first byte of a page's body, and until the whole of it."""
    host, _, port = visitor.address.removeprefix("http://").rpartition(":")
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
    began = time.perf_counter()
    connection.request("GET", path, headers={"Host": f"{host}:{port}", "Cookie": visitor.cookie})
    answer = connection.getresponse()
    answer.read(1)
    first = time.perf_counter() - began
    answer.read()
    whole = time.perf_counter() - began
    connection.close()
    return first, whole
