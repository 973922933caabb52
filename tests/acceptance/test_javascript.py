"""The JavaScript client: its own tests, and its types compared with the model that they mirror."""

import re
import subprocess
from enum import Enum
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import fields

from callosum import model, wire

CLIENT = Path(__file__).parents[2] / "clients" / "javascript"
TYPES = re.sub(r"/\*.*?\*/|//.*?$", "", (CLIENT / "callosum.d.ts").read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_javascript_client_passes_its_own_tests(node: str) -> None:
    done = subprocess.run(
        [node, "--test", "--test-reporter=tap"], cwd=CLIENT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    assert int(re.findall(r"^# pass (\d+)$", done.stdout, re.MULTILINE)[0]) > 100
    assert "Warning" not in done.stdout + done.stderr


def declared(name: str) -> dict[str, bool]:
    """Return the fields of an interface, including inherited ones, and whether each may be absent."""
    match = re.search(rf"^export interface {name}(?: extends (\w+))? {{\n(.*?)^}}", TYPES, re.DOTALL | re.MULTILINE)
    assert match is not None, name
    above = declared(match[1]) if match[1] else {}
    return above | {field: bool(mark) for field, mark in re.findall(r"^ {4}(\w+)(\??):", match[2], re.MULTILINE)}


def mirrored(struct: type[Struct]) -> dict[str, bool]:
    return {field.encode_name: not field.required for field in fields(struct)}


@pytest.mark.parametrize(
    "struct",
    [
        model.Conflict, model.Lease, model.LockResult, model.Report, model.Holding, model.RecentAction,
        model.Status, model.Entry, wire.Approval, wire.Approvals, wire.JournalPage,
    ],
)  # fmt: skip
def test_response_has_the_fields_of_its_type(struct: type[Struct]) -> None:
    assert declared(struct.__name__) == mirrored(struct)


def test_decision_type_has_the_fields_that_the_client_adds() -> None:
    filled = {"contextKeys": False, "rule": False, "callId": False}
    assert declared("Decision") == mirrored(model.Decision) | filled


def test_call_type_needs_no_instance() -> None:
    assert declared("Call") == mirrored(model.Call) | {"instance": True}


@pytest.mark.parametrize(
    "kind", [model.Verdict, model.Kind, model.State, model.Outcome, model.Mode, model.Event, model.Tier]
)
def test_union_types_have_the_values_of_their_enumerations(kind: type[Enum]) -> None:
    match = re.search(rf"^export type {kind.__name__} =(.*?);", TYPES, re.DOTALL | re.MULTILINE)
    assert match is not None
    assert [one.strip(' "\n') for one in match[1].strip(" \n|").split("|")] == [str(one.value) for one in kind]
