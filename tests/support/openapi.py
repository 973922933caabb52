"""Requests that schemathesis sends to a real server, for some operations of the OpenAPI document.

``pytest tests/support/openapi.py`` tests the operations whose ids are in ``OPERATIONS``, or all. Requests are generated
at collection, in half a minute for all. So ``test_openapi.py`` collects them in processes that are no workers of the suite.
"""

import copy
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis.strategies._internal import regex as patterns
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import positive_data_acceptance

from callosum.server.openapi import document
from callosum.server.tokens import Role, Tokens
from tests.support.serving import Server, serving

CONFIG = schemathesis.Config.from_dict(
    {
        "seed": 1,
        "request-timeout": 10,  # a hang is a failure
        "checks": {
            "negative_data_rejection": {"expected-statuses": [*range(400, 500)]},  # 414 is a refusal too
            # 408: a call with a timeout of 2 ms has expired when it is to be decided.
            "positive_data_acceptance": {"expected-statuses": ["2xx", "401", "403", "404", "408", "503"]},
        },
        "generation": {"max-examples": 8, "deterministic": True, "database": "none"},
    }
)
DOCUMENT = json.loads(json.dumps(document()))
OPERATIONS = [
    operation["operationId"]
    for operations in DOCUMENT["paths"].values()
    for operation in operations.values()
    if operation["operationId"] != "getEvents"  # a stream does not end
]
MOST_WAIT = 0.01
"""Seconds: what is asked to wait longer is sent with this, or the run would take hours."""


_made = cache(patterns.base_regex_strategy)
patterns.base_regex_strategy = lambda regex, *, alphabet, **_parsed: _made(regex, alphabet=alphabet)
"""The characters of a pattern are made once. Those of a name take half a second, and each schema asks for them."""


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("openapi") / "state"


@pytest.fixture(scope="module")
def approver(state: Path) -> str:
    return Tokens(state / "tokens.json").add("anna", role=Role.APPROVER)


@pytest.fixture(scope="module")
def server(state: Path, approver: str) -> Iterator[Server]:
    with serving(state) as running:
        yield running


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    """Return a session that keeps its connections."""
    with requests.Session() as made:
        yield made


def chosen() -> schemathesis.BaseSchema:
    """Return the document with the operations to try."""
    whole = schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT), config=CONFIG)
    return whole.include(operation_id=os.environ.get("OPERATIONS", " ".join(OPERATIONS)).split())


@chosen().parametrize()
def test_what_it_allows_is_taken_and_what_it_forbids_is_refused(
    case: schemathesis.Case[Any], server: Server, approver: str, session: requests.Session
) -> None:
    sendable(case, server)
    headers = {"Authorization": f"Bearer {approver}"} if case.path in ("/approvals/{id}", "/resolve") else {}
    case.call_and_validate(server.address, session, headers, excluded_checks=not_for(case))


def sendable(case: schemathesis.Case[Any], server: Server) -> None:
    """Change the parts that JSON Schema cannot express or that would only take time."""
    if isinstance(case.body, dict | list):
        case.body = _whole(case.body)
    for part in (case.body, case.query):
        if isinstance(part, dict) and MOST_WAIT < _seconds(part.get("wait")) <= 60:
            part["wait"] = MOST_WAIT
    if case.query and case.query.get("cursor"):  # opaque: only the server creates valid ones
        case.query["cursor"] = server.get("/journal?limit=1")["cursor"]


def _seconds(wait: Any) -> float:
    """Return the requested wait, in a body or as text in a query; 0 if it is no number."""
    try:
        return float(wait)
    except (TypeError, ValueError):
        return 0.0


def not_for(case: schemathesis.Case[Any]) -> list[CheckFunction]:
    """Return the checks that cannot apply to a request."""
    if case.operation.label == "DELETE /lock/{key}":
        # The instance is in the body or in the query: OpenAPI cannot say that exactly one of the two is needed.
        said = [part for part in (case.body, case.query) if isinstance(part, dict) and "instance" in part]
        return [] if said else [positive_data_acceptance]
    if case.operation.path.startswith("/hooks/"):
        return [positive_data_acceptance]  # the host decides what its event contains
    return []


def _whole(value: Any) -> Any:
    """Turn whole floats into integers: JSON Schema accepts 24.0 as an integer, the server does not."""
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
