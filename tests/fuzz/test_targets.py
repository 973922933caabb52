"""Every target, on the inputs kept from earlier faults, on its seeds, and on generated inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.attempt import CORPUS, CRASHES, attempt
from fuzz.source import Drawn
from fuzz.targets import TARGETS, Target

BY_NAME = {one.name: one for one in TARGETS}
KEPT = sorted(path for folder in (CORPUS, CRASHES) for path in folder.glob("*/*"))
EXAMPLES = {"growth": 5, "classify": 60, "hook": 40}


def test_every_kept_input_belongs_to_a_target() -> None:
    assert KEPT
    assert {path.parent.name for path in KEPT} <= set(BY_NAME)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_kept_input_shows_no_fault(path: Path) -> None:
    fault = attempt(BY_NAME[path.parent.name], path.read_bytes())
    assert fault is None, fault.told


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_properties_hold_for_generated_inputs(target: Target) -> None:
    """The examples are the same every time; the campaign searches for new ones."""

    @settings(
        max_examples=EXAMPLES.get(target.name, 150),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        source = Drawn(data)
        try:
            target.run(source)
        except BaseException as error:
            error.add_note(f"as an input: {source.written!r}")
            raise

    holds()
