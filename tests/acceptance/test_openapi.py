"""The OpenAPI document is true: schemathesis sends what it allows and what it forbids to a real server."""

import copy
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemathesis
from schemathesis.core.failures import FailureGroup

from callosum.server.app import ENDPOINTS
from tests.support.openapi import CONFIG, DOCUMENT, OPERATIONS, approver, server, state  # noqa: F401 - fixtures
from tests.support.serving import Server

GROUPS = [OPERATIONS[0::2], OPERATIONS[1::2]]
"""Which operations are tried together, in one process: more processes would make the same patterns more often."""
ROOT = Path(__file__).parents[2]
SENDING = "tests/support/openapi.py"


@pytest.mark.timeout(900)  # a busy machine takes that long to generate the requests
@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_server_accepts_what_the_document_allows_and_refuses_what_it_forbids(group: list[str], tmp_path: Path) -> None:
    options = ["-p", "no:cacheprovider", "-o", "timeout=900", f"--basetemp={tmp_path / 'pytest'}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, SENDING],
        env=os.environ | {"OPERATIONS": " ".join(group)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr
    assert f"{len(group)} passed" in done.stdout


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        (("paths", "/lock", "post", "responses", "200", "content", "application/json"), {"schema": {"type": "array"}}),
        (("paths", "/lock", "post", "responses"), {"201": {"description": "Done."}}),
        (("paths", "/lock", "post", "responses", "200", "content"), {"text/plain": {}}),
    ],
    ids=["schema", "status", "media type"],
)
def test_wrong_document_fails_the_check(server: Server, path: tuple[str, ...], changed: dict[str, Any]) -> None:  # noqa: F811
    wrong = copy.deepcopy(DOCUMENT)
    place = wrong
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = changed
    case = schemathesis.openapi.from_dict(wrong, config=CONFIG)["/lock"]["POST"].Case(
        body={"instance": "mira", "contextKey": "doc:plan"}, media_type="application/json"
    )
    with pytest.raises(FailureGroup):
        case.call_and_validate(base_url=server.address)


def test_full_responses_match_the_document(server: Server, approver: str) -> None:  # noqa: F811
    """Generated requests seldom conflict, so this test makes conflicts, leases, questions and their answers."""
    thread = {"action": "send", "target": "andy", "replyTo": "m1"}
    delete = {"action": "channel-delete", "_contextKey": "thread:andy:m1"}
    seen = Described(server, approver)

    first = seen(
        "POST", "/intercept", {"instance": "mira", "tool": "message", "params": {**thread, "message": "On it"}}
    )
    warned = seen("POST", "/intercept", {"instance": "doug", "tool": "message", "params": {**thread, "message": "No"}})
    blocked = seen("POST", "/intercept", {"instance": "doug", "tool": "message", "params": delete})
    assert (first["verdict"], warned["verdict"], blocked["verdict"]) == ("allow", "warn", "block")
    assert warned["conflicts"]
    assert warned["lease"]
    seen("GET", "/status")
    seen("GET", "/status?contextKey=thread:andy:m1")
    assert seen("POST", "/renew", {"instance": "mira", "id": first["id"]})["lease"]
    assert seen("POST", f"/approvals/{blocked['id']}", {"approve": True, "by": "anna"})["ok"]
    assert seen("GET", "/approvals")["approvals"] == []
    assert seen("POST", "/lock", {"instance": "mira", "contextKey": "doc:x"})["lease"]
    assert seen("POST", "/lock", {"instance": "doug", "contextKey": "doc:x"})["conflict"]
    assert seen("DELETE", "/lock/doc%3Ax?instance=mira")["ok"]
    assert seen("POST", "/complete", {"instance": "mira", "id": first["id"], "outcome": "unknown"})["ok"]
    assert seen("GET", "/status")["unknown"]
    assert seen("POST", "/resolve", {"id": first["id"], "happened": True, "by": "mira/second"})["ok"]
    assert seen("GET", "/journal?newest=true&limit=50")["entries"]
    assert seen("GET", "/fallback")["tools"]
    seen("GET", "/health")
    late = {"call": {"instance": "mira", "tool": "read", "params": {"path": "/a"}}, "outcome": "failed"}
    assert seen("POST", "/late", {"calls": [late]}) == {"accepted": 1}
    assert seen("POST", "/events", {"type": "llm.token", "delta": "a", "instance": "mira"}) == {"accepted": 1}
    for path, said in (("/nowhere", {}), ("/intercept", {"instance": 5}), ("/approvals/0", {"approve": True})):
        answer = server.ask("POST", path, said)
        seen.check(answer.body, {"$ref": "#/components/schemas/ErrorResponse"})


class Described:
    """Sends requests and compares each response with the document: its schema, and no field beyond it."""

    def __init__(self, server: Server, approver: str) -> None:  # noqa: F811
        self.server, self.approver = server, approver

    def __call__(self, method: str, path: str, said: Any = None) -> Any:
        names = path.partition("?")[0].split("/")[1:]
        template = f"/{names[0]}" + {"lock": "/{key}", "approvals": "/{id}"}.get(names[0], "") * (len(names) > 1)
        operation = DOCUMENT["paths"][template][method.lower()]
        answer = self.server.ask(method, path, said, token=self.approver if "/{id}" in template else None)
        assert answer.status == 200, answer.text
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        self.check(answer.body, schema)
        return answer.body

    def check(self, value: Any, schema: Mapping[str, Any]) -> None:
        closed = {**schema, "components": _closed(DOCUMENT["components"])}
        jsonschema.Draft202012Validator(closed).validate(value)


def _closed(described: Any) -> Any:
    """Return the schemas without room for fields that they do not name."""
    if isinstance(described, list):
        return [_closed(item) for item in described]
    if not isinstance(described, dict):
        return described
    found = {name: _closed(item) for name, item in described.items()}
    return {**found, "additionalProperties": False} if isinstance(found.get("properties"), dict) else found


def test_document_is_valid() -> None:
    schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT), config=CONFIG).validate()
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_reference_in_the_document_resolves() -> None:
    missing = [place for place in _references(DOCUMENT) if not _is_there(place)]
    assert not missing


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _is_there(place: str) -> bool:
    found = DOCUMENT
    for name in place.removeprefix("#/").split("/"):
        if name not in found:
            return False
        found = found[name]
    return place.startswith("#/")


def test_document_has_every_endpoint(server: Server) -> None:  # noqa: F811
    described = {(way.upper(), path) for path, ways in DOCUMENT["paths"].items() for way in ways}
    assert described == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS} | {("GET", "/events")}
    names = [way["operationId"] for ways in DOCUMENT["paths"].values() for way in ways.values()]
    assert len(set(names)) == len(names)


def test_every_endpoint_and_field_is_described_and_every_request_has_an_example_that_holds() -> None:
    for path, ways in DOCUMENT["paths"].items():
        for method, way in ways.items():
            assert way["summary"], (method, path)
            for parameter in way.get("parameters", ()):
                assert (
                    parameter.get("description")
                    or parameter["schema"].get("description")
                    or path == "/events"
                    or parameter["in"] == "path"
                )
            content = way.get("requestBody", {}).get("content", {}).get("application/json")
            if content is None:
                continue
            whole = {**content["schema"], "components": DOCUMENT["components"]}
            jsonschema.Draft202012Validator(whole).validate(content["example"])
    kinds = {kind.__name__ for one in ENDPOINTS for kind in (one.body, one.answer) if hasattr(kind, "__name__")}
    for name in kinds & set(DOCUMENT["components"]["schemas"]):
        for field, schema in DOCUMENT["components"]["schemas"][name].get("properties", {}).items():
            assert schema.get("description"), (name, field)


def test_server_serves_the_document(server: Server) -> None:  # noqa: F811
    assert server.get("/openapi.json") == DOCUMENT
    answer = server.ask("POST", "/openapi.json", {})
    assert (answer.status, answer.headers["Allow"], answer.body["at"]) == (405, "GET", "method")


class Page(HTMLParser):
    """The resources that a page loads, its links and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "link", "iframe", "img", "object", "embed"}:
            self.loads.append(tag)
        for name, value in attrs:
            if name == "href":
                self.links.append(value or "")
            elif name in {"src", "srcset", "style"} or name.startswith("on"):
                self.loads.append(f"{tag} {name}={value}")
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("path", ["/docs", "/"])
def test_page_shows_every_endpoint_and_loads_nothing(server: Server, path: str) -> None:  # noqa: F811
    answer = server.ask("GET", path)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    page = Page(answer.text)
    assert page.open == []
    assert page.loads == []
    assert page.links == ["/openapi.json"]
    assert not any(sign in answer.text for sign in ("http://", "https://", "@import", "url("))
    words = "".join(page.words)
    for endpoint in ENDPOINTS:
        assert endpoint.path in words
        assert endpoint.summary in words
