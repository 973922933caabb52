"""Every target, on the inputs kept from earlier faults and on its seeds. ``python -m fuzz --minute`` makes others."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.attempt import CORPUS, CRASHES, attempt
from fuzz.targets import TARGETS

BY_NAME = {one.name: one for one in TARGETS}
KEPT = sorted(path for folder in (CORPUS, CRASHES) for path in folder.glob("*/*"))


def test_every_kept_input_belongs_to_a_target() -> None:
    assert KEPT
    assert {path.parent.name for path in KEPT} <= set(BY_NAME)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_kept_input_shows_no_fault(path: Path) -> None:
    fault = attempt(BY_NAME[path.parent.name], path.read_bytes())
    assert fault is None, fault.told
