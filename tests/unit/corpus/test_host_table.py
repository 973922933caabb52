"""The table of events that each host reports: it has every event, and agrees with the hosts' descriptions."""

import re

import pytest

from callosum.corpus.events import CATALOGUE
from callosum.programs import HOSTS
from callosum.programs.program import Program
from tests.e2e.told import TABLE, claimed

CELL = re.compile(r"(hook|plugin|transcript|gate|no)(?: \((\d+)\))?")
COLUMNS = {host.name: host.title for host in HOSTS}
TRANSCRIPT = {"llm.response", "llm.error", "context.trimmed", "input.routed"}
"""Events that the readers of transcripts can emit, and events that follow from them."""


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_every_event_has_a_cell_and_every_no_a_reason(host: Program) -> None:
    notes = set(re.findall(r"^(\d+)\. ", TABLE.read_text().partition("## What each host reports")[2], re.MULTILINE))
    found = claimed(COLUMNS[host.name])
    assert [*found] == [*CATALOGUE]
    for name, cell in found.items():
        match = CELL.fullmatch(cell)
        assert match, (name, cell)
        assert match[2] is None or match[2] in notes, (name, cell)
        assert match[1] != "no" or match[2], f"{name}: a reason is missing"


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_cells_agree_with_the_host_descriptions(host: Program) -> None:
    found = {name: cell.split()[0] for name, cell in claimed(COLUMNS[host.name]).items()}
    told = {name for name, word in found.items() if word == "transcript"}
    assert told <= (TRANSCRIPT if host.transcript else set())
    assert ("hook" in found.values()) == bool(host.events)
    roles = {on.role for on in host.events.values()}
    assert (found["llm.token"] == "hook") == ("said" in roles)
    runs = bool(host.starts or host.background)
    assert (found["task.created"] == "hook") == runs
    assert (found["task.stepCompleted"] == "hook") == bool(host.starts)
