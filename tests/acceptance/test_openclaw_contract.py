"""The OpenClaw plugin against a real server, with recorded messages of OpenClaw; and the files it ships."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from callosum import __version__, launch
from callosum.hosts.openclaw import FOLDER, ID, ungated_paths
from callosum.sockets import socket_path
from tests.support.serving import serving

TESTS = Path(__file__).parent / "openclaw"
UNIT = Path(__file__).parents[1] / "unit" / "hosts" / "openclaw"
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the variables that name the gate, the plugin, and the program that starts another gate."""
    state = tmp_path_factory.mktemp("openclaw") / "state"
    with serving(state, "--socket", socket_path(state)):
        yield {
            **{name: value for name, value in os.environ.items() if not name.startswith("CALLOSUM_")},
            "CALLOSUM_STATE": str(state),
            "CALLOSUM_SOCKET": socket_path(state),
            "CALLOSUM_PLUGIN": str(FOLDER),
            "CALLOSUM_COMMAND": json.dumps(launch.command()),
            "PYTHONPATH": str(REPOSITORY),
        }


@pytest.mark.parametrize(
    ("file", "least"),
    [(TESTS / "contract.test.mjs", 40), (TESTS / "faults.test.mjs", 20), (UNIT / "parts.test.mjs", 20)],
)
def test_plugin_meets_its_contract(node: str, environ: dict[str, str], file: Path, least: int) -> None:
    done = subprocess.run(
        [node, "--test", "--test-reporter=tap", str(file)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    assert int(re.findall(r"^# pass (\d+)$", done.stdout, re.MULTILINE)[0]) >= least


def test_plugin_ships_what_it_needs_and_has_no_dependencies() -> None:
    package = json.loads((FOLDER / "package.json").read_text())
    manifest = json.loads((FOLDER / "openclaw.plugin.json").read_text())
    assert package["openclaw"]["extensions"] == ["./index.js"]
    assert not {"dependencies", "devDependencies", "scripts"} & package.keys()
    assert manifest["id"] == ID
    assert manifest["contracts"]["trustedToolPolicies"] == [ID], "the id of the policy that the plugin registers"
    version = re.search(r'VERSION = "([^"]+)"', (FOLDER / "version.js").read_text())
    assert version is not None
    assert {package["version"], manifest["version"], version[1]} == {__version__}
    for path in FOLDER.glob("*.js"):
        for named in re.findall(r'(?:from|load\() ?"([^"]+)"', path.read_text("utf-8")):
            assert named.startswith("node:") or (FOLDER / named).resolve().parent == FOLDER.resolve(), (
                path.name,
                named,
            )
            assert named.startswith("node:") or (FOLDER / named).is_file(), (path.name, named)


def test_plugin_reads_exactly_the_settings_that_openclaw_accepts() -> None:
    manifest = json.loads((FOLDER / "openclaw.plugin.json").read_text())
    read = (FOLDER / "settings.js").read_text("utf-8")
    named = set(re.findall(r'config(?:\.|, ")(\w+)', read))
    assert named == manifest["configSchema"]["properties"].keys()


def test_every_bypass_of_the_plugin_is_listed_in_the_readme() -> None:
    readme = (FOLDER / "README.md").read_text("utf-8")
    found = ungated_paths()
    assert found
    for one in found:
        assert one.way in readme, one.way


@pytest.mark.timeout(600)
def test_plugin_is_in_the_wheel(tmp_path: Path) -> None:
    """The build lists the files that it would pack."""
    hatchling = pytest.importorskip(
        "hatchling.builders.wheel", reason="which files are packed is NOT tested: no hatchling"
    )
    builder = hatchling.WheelBuilder(str(REPOSITORY))
    packed = {file.distribution_path for file in builder.recurse_included_files()}
    ours = {f"callosum/hosts/openclaw/{path.name}" for path in FOLDER.iterdir() if path.is_file()}
    assert ours <= packed
    assert not [path for path in packed if path.startswith("tests/")]
