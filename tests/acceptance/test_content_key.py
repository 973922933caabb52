"""Servers on one store with different ``content.key`` files report it wherever an operator checks."""

import json
import shutil
from pathlib import Path

import pytest

from callosum.gate import LocalGate
from callosum.settings import Settings
from tests.acceptance.command import run
from tests.support.serving import serving, until

SAID = "gates with 2 different content.key files worked on this store in the last day"


@pytest.mark.parametrize("same", [True, False])
def test_servers_with_different_content_keys_report_it(tmp_path: Path, same: bool) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    url = f"sqlite:///{tmp_path / 'gate.db'}"
    with serving(first, "--store", url) as one:
        assert one.process.poll() is None
        second.mkdir(mode=0o700)
        if same:
            shutil.copy(first / "content.key", second)
        with LocalGate(settings=Settings(state=first, store=url)) as gate:
            until(lambda: gate.store.check().content_keys)  # it registers beside its first requests
            with serving(second, "--store", url) as other:
                if same:
                    gate.upkeep()
                else:
                    until(lambda: SAID in other.log.read_text())
            assert gate.store.check().content_keys == (1 if same else 2)
    shown = run(second, "store", "check", url, "--json")
    told = json.loads(shown.stdout)
    assert (shown.returncode, told["ok"], told["health"]["content_keys"]) == ((0, True, 1) if same else (1, False, 2))
    assert [problem for problem in told["problems"] if SAID in problem] == told["problems"]


def test_embedded_gate_warns_once_and_doctor_says_what_to_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{tmp_path / 'gate.db'}"
    for name in ("one", "two"):
        with LocalGate(settings=Settings(state=tmp_path / name, store=url)) as gate:
            for _ in range(3):
                gate.upkeep()
    assert [SAID in record.getMessage() for record in caplog.records] == [True]
    shown = run(tmp_path / "two", "doctor", "--json", env={"CALLOSUM_STORE": url})
    (found,) = [one for one in json.loads(shown.stdout)["findings"] if one["check"] == "content key"]
    assert (shown.returncode, found["level"]) == (1, "wrong")
    assert SAID in found["says"]
    assert "the same content.key" in found["advice"]
